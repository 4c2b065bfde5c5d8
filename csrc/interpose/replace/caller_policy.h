/* Libraries by how they ask for memory. */
#ifndef ULMS_CALLER_POLICY_H
#define ULMS_CALLER_POLICY_H

#include <stdbool.h>

/* True when a library whose memory stays plain has made, or stands behind, the call that the thread is in: one that
 * hands it to other processes or devices in ways that managed memory does not have. */
bool caller_stays_plain(void);
/* The same of a library that asks for handles that may be exported for all its memory, and exports next to none: what
 * is behind them need not stay plain. */
bool caller_always_exportable(void);

#endif
