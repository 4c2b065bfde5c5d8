/* The program's own virtual memory: parts at addresses that the program chose. A handle's memory lies where it was
 * mapped first, and stays there, hidden, while the program has it mapped nowhere. Where it is to lie elsewhere, or at
 * two places, handles of the driver's take its place. As a frame is mapped only as a whole, these take the place of
 * every part on the same pages. */
#ifndef ULMS_OWN_HANDLES_H
#define ULMS_OWN_HANDLES_H

#include "backend/backend.h"
#include "backend/vmm/memory.h"

extern const struct backend_own vmm_own;

/* The range of the program's that holds p; NULL: none does. */
struct vmm_range *vmm_own_range(addr_t p, struct pager **d);

/* Under `parts_lock`: */

/* Where a page has its content. */
static inline enum vmm_place vmm_own_content(const struct vmm_page *p) {
    return p->at == VMM_DEVICE || (p->at == VMM_UNMAPPED && p->frame[VMM_DEVICE] != NO_FRAME) ? VMM_DEVICE : VMM_HOST;
}

/* Parts that could not be unmapped when they were given up are tried again. */
void vmm_own_retry(struct vmm *v, struct vmm_range *r, addr_t start, addr_t end);
/* Pages of the range that are not mapped are. False: not all. */
bool vmm_own_map_again(struct vmm *v, struct vmm_range *r, size_t first, size_t end);
/* Handles of the driver's are mapped there, or no more. */
void vmm_own_foreign(struct vmm_range *r, addr_t start, uint64_t bytes, bool mapped);

/* own_real.c: as in struct backend_own, without the lock. */
size_t vmm_own_beside(addr_t start, uint64_t bytes, addr_t *out, size_t n);
bool vmm_own_replace(const struct own_real *list, size_t n);

#endif
