/* Who is suspended by command. */
#ifndef BROKER_SUSPEND_H
#define BROKER_SUSPEND_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/gpu.h"
#include "share/message.h"

/* Suspends or resumes the tenants of a group or of a process, on every GPU. Their host memory goes to a file in the
 * folder; "": it stays. They let go of the device if their context is to leave. Who joins a suspended group, or is of a
 * suspended process, is suspended, until any of them is resumed. False: `why` says why not. */
bool suspend_named(const struct share_suspend *said, uint64_t now, char why[SHARE_TEXT_MAX]);

/* A tenant asks for it itself; it resumes only from that. */
void suspend_own(struct tenant *t, bool suspended, uint64_t now);

/* It lets go of the device, as its last request says: its context may be away. */
bool suspend_released(const struct tenant *t);

#endif
