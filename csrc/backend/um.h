/* The driver's calls on managed memory (um_driver.c). False: refused. */
#ifndef ULMS_UM_H
#define ULMS_UM_H

#include "backend/pager.h"

/* device: CUDA ordinal, or DEVICE_NONE for the host. */
bool um_prefetch(addr_t start, uint64_t bytes, int32_t device, CUstream stream);
/* The content is lost, until the next write. Only where the driver can, as far as is known. */
bool um_can_discard(void);
bool um_discard(addr_t start, uint64_t bytes, CUstream stream);
bool um_advise_mostly_read(addr_t start, uint64_t bytes, int32_t device, bool mostly);
/* The device uses what lies on the host there, and does not bring it by touching it. */
bool um_advise_in_place(addr_t start, uint64_t bytes, int32_t device, bool in_place);

#endif
