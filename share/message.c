#include "share/message.h"

#include <stddef.h>

uint32_t share_message_bytes(uint32_t kind) {
    static const uint32_t part[] = {
        [SHARE_HELLO] = sizeof(struct share_hello),
        [SHARE_REPORT] = sizeof(struct share_report),
        [SHARE_ACKNOWLEDGE] = sizeof(struct share_acknowledge),
        [SHARE_DRAINED] = sizeof(struct share_drained),
        [SHARE_STATUS] = sizeof(struct share_nothing),
        [SHARE_STOP] = sizeof(struct share_nothing),
        [SHARE_STAY] = sizeof(struct share_nothing),
        [SHARE_SET] = sizeof(struct share_set),
        [SHARE_SUSPEND] = sizeof(struct share_suspend),
        [SHARE_WELCOME] = sizeof(struct share_nothing),
        [SHARE_REFUSED] = sizeof(struct share_refused),
    };
    return kind < sizeof part / sizeof *part && part[kind]
               ? (uint32_t)offsetof(struct share_message, hello) + part[kind]
               : 0;
}
