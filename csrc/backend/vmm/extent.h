/* How far what an operation touches may reach, where it only shows an address. */
#ifndef ULMS_VMM_EXTENT_H
#define ULMS_VMM_EXTENT_H

#include "launch/op.h"

struct pager;

/* By the library's call that it is part of. */
bool vmm_is_told(const struct op *op);
/* All that an address may reach: the block that the framework told, or the allocation. False: it is of no memory. */
bool vmm_reach(addr_t p, addr_t *start, uint64_t *bytes);
/* See struct pager_kind. */
size_t vmm_touches(struct pager *d, const struct op *op);

#endif
