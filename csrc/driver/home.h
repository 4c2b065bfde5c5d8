/* Whether this process is the one in which the session began. A child is not, whichever call made it: its wrappers are
 * the driver's functions, since a thread of the parent may have held any lock of ours, and its end is none of ours. */
#ifndef ULMS_HOME_H
#define ULMS_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hot.h"
#include "ulms.h"

/* The largest page that the kernel may have. */
#ifdef __aarch64__
#define HOME_PAGE 65536
#else
#define HOME_PAGE 4096
#endif

/* The kernel hands a child zeroes in its place, but for one that shares the parent's memory (vfork). */
struct home {
    _Alignas(HOME_PAGE) bool here; /* the session has begun, in this process */
    uint32_t fast_path;            /* of enum slow_path: reasons that do not hold (driver/fast_path.h) */
    struct fast_path_place {
        _Alignas(HOT_LINE) bool passing;
    } place[ULMS_SLOTS];
};
extern struct home home;
extern bool home_begun; /* a child has it, too */

/* The session begins: once, before anything of it can be seen. */
void home_begin(void);
/* In the child of a fork, where the kernel may not know how to hand it zeroes. */
void home_leave(void);
/* Every wrapper asks this before all else: true in a child, which the driver alone answers. */
static inline bool home_left(void) {
    return __builtin_expect(!home.here, 0) && home_begun;
}
/* False in a child, also in one that shares the parent's memory: what it does at its end must not touch what is the
 * parent's. */
bool home_ours(void);

#endif
