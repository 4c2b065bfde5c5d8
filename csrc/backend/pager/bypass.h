/* What bypasses the engine while nothing moves. */
#ifndef ULMS_PAGER_BYPASS_H
#define ULMS_PAGER_BYPASS_H

#include <stdbool.h>

struct pager;

/* True: the engine hears of no blocks, and the thread's is counted until pager_block_bypass_end: the ledger has it.
 */
bool pager_block_bypass_begin(void);
/* False: it was not counted. */
bool pager_block_bypass_end(void);
bool pager_block_bypasses_over(void);

/* True: nothing moves anywhere, and the thread's operation, which was looked at, is counted until pager_bypass_end: the
 * driver has it. */
bool pager_bypass_begin(void);
/* False: it was not counted. */
bool pager_bypass_end(void);
/* The driver has not got all of that yet. Of the fast path only what is there just now. */
bool pager_bypassing(const struct pager *d);
/* The driver has all that was not told to the device's engine. Once pages move there this stays true. */
bool pager_bypasses_over(const struct pager *d);

#endif
