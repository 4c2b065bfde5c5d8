/* Whether copies and memsets stay within an allocation. The driver refuses others, by the bytes that the program asked
 * for. Memory of the backend's is larger, and lies beside others': there we refuse in the driver's place. */
#ifndef ULMS_BOUNDS_H
#define ULMS_BOUNDS_H

#include "driver.h"
#include "ledger/ledger.h"

/* a holds start. */
bool bounds_left(const struct allocation *a, addr_t start, uint64_t bytes);
/* start is in no allocation: it is the backend's all the same, as what lies behind an allocation, or was freed. */
bool bounds_outside(addr_t start);
/* Some of the range is memory that stands in the place of plain memory, or is the backend's without an allocation. */
bool bounds_replaced(addr_t start, uint64_t bytes);
/* Of these, none that the program maps itself. */
bool bounds_unmapped(addr_t start, uint64_t bytes);
/* What the driver answers to such an operation: its stream and context may be wrong, too. */
CUresult bounds_refusal(uint64_t stream);

/* Both in one, for operations that are not looked at otherwise. */
bool bounds_kept(addr_t start, uint64_t bytes);

#endif
