/* The program's own virtual memory, where the backend can put memory at addresses that the program chose (struct
 * backend_own). A virtual handle's memory is put where it is mapped first, and moves from then on. It becomes the
 * driver's as soon as the program does more with its handle: maps it elsewhere, in part, or for reading alone, exports
 * it, or maps others where it lies. */
#ifndef ULMS_OWN_H
#define ULMS_OWN_H

#include "interpose/replace/virtual_handle.h"

/* Virtual handles are of this kind. */
bool own_on(void);
/* Handles for these properties can be had, and exported. */
bool own_exportable(const CUmemAllocationProp *prop);
/* Memory for the virtual handle. False: there is none. */
bool own_provide(struct virtual_handle *s);
/* Nobody has the handle, and it is mapped nowhere. */
void own_close(struct virtual_handle *s);
/* The driver makes the memory now, with what it holds, if it has not. */
CUresult own_make(struct virtual_handle *s);

CUresult own_reserve(int variant, CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                     unsigned long long flags);
/* False: the addresses are not of such a reservation, and the driver is to be asked. */
bool own_address_free(int variant, CUdeviceptr ptr, size_t size, CUresult *status);
/* The program reserved the address, and has not given it back. */
bool own_reserved(addr_t p);

/* What own_map and own_map_real were told is done: the handle is mapped there, or cannot be. */
enum own_mapping { OWN_MAPPED, OWN_REFUSED, OWN_TO_MAP };
/* OWN_TO_MAP: the driver is to map s->real, and may. */
enum own_mapping own_map(struct virtual_handle *s, CUdeviceptr ptr, size_t size, size_t offset,
                         unsigned long long flags, CUresult *status);
/* The driver is about to map a handle of its own there. */
CUresult own_make_way(CUdeviceptr ptr, size_t size);
/* It has; or it has unmapped one. */
void own_mapped(CUdeviceptr ptr, size_t size, bool mapped);
/* The program unmaps what starts there, and is in the ledger. False: that is not a virtual handle's memory. */
bool own_unmap(addr_t start);

/* cuMemSetAccess. False: no virtual handle's memory lies in the range, or nothing is asked for. */
bool own_set_access(int variant, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count,
                    CUresult *status);
/* False: it is not a virtual handle's memory. */
bool own_get_access(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr);

#endif
