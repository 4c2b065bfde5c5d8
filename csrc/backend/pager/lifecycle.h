/* The pagers: one for each device, from its first memory, or if it is shared its first use, to the end of the process.
 */
#ifndef ULMS_PAGER_LIFECYCLE_H
#define ULMS_PAGER_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

struct pager;

/* The first (NULL) and the next of those that there are; NULL: there is none. */
struct pager *pager_next(const struct pager *d);
/* That of a device. NULL: it has none, or there is no such device. */
struct pager *pager_at(int32_t ordinal);
/* The same, made if need be; the current context is the device's. NULL: no memory. */
struct pager *pager_of(int32_t ordinal);
/* What `can_serve` says of the device, which it is asked once and tells where it cannot. */
bool pager_serves(int32_t device, bool (*can_serve)(int32_t device));
/* On any device, or operations are frozen. Asked on every operation. */
bool pager_any_moving(void);
/* The memory of which the engine knows does not fit together with the bytes that are about to be told to it. Under the
 * lock. */
void pager_start_moving(struct pager *d, uint64_t bytes);
/* Everything fits and is there: operations are not told any more. False: nothing moved. Under the lock. */
bool pager_stop_moving(struct pager *d);
/* Nothing moves from now on. Under the lock. */
void pager_give_up(struct pager *d, const char *why);
/* See backend.h. */
void pager_abandon(void);
void pager_stop(void);

#endif
