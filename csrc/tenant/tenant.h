/* The program as a tenant: it shares each of its devices with other programs as a broker tells it (share/message.h).
 * Without a broker, or when that has died, it runs as if it were alone, with the budget it had last. */
#ifndef ULMS_TENANT_H
#define ULMS_TENANT_H

#include <stdbool.h>

/* The backend begins to use the device, and ULMS_SHARE is set: joins, for a moment at most. Any thread, its current
 * context is the device's; once for each device. */
void tenant_join(int device);
/* A thread of the program waits for its turn there. Any thread, takes no lock. */
void tenant_wake(int device);
/* Others share the device now; true also while no broker says whether. Any thread, takes no lock. */
bool tenant_shares(int device);
/* The program is suspended on all devices that it shares, or resumed, soon. False: it shares none now. Any thread, also
 * in a handler of a signal. */
bool tenants_suspend(bool suspended);
/* It is, and all that can leave has left. Likewise. */
bool tenants_are_away(void);
/* The process ends: nothing is closed any more. */
void tenants_stop(void);
/* In a forked child: the parent's connections are not the child's. */
void tenants_fork_child(void);

#endif
