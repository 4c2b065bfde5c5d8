/* The threads of a device, and the watcher among them, which sees what is done. */
#ifndef ULMS_PAGER_WATCHER_H
#define ULMS_PAGER_WATCHER_H

#include <time.h>

struct pager;

/* Those that are needed at once; the watcher starts the others as moves wait. Under the lock. NULL: they run; else why
 * one does not. */
const char *pager_workers_start(struct pager *d);
/* Joins them, after PHASE_STOPPING, until `moved`, as on a busy machine it may be long until a thread runs; who waits
 * for work of the program's, which may never end, until `soon`. Without the lock. */
void pager_workers_stop(struct pager *d, uint64_t soon_ns, uint64_t moved_ns);

#endif
