/* Libraries that hand memory to other processes or devices in ways that managed memory does not have. */
#ifndef ULMS_CALLER_H
#define ULMS_CALLER_H

#include <stdbool.h>

/* True when a library whose memory stays plain has made, or stands behind, the call that the thread is in. */
bool caller_stays_plain(void);

#endif
