/* What every wrapper of a library says: open, touches, told, real call, close. Until it is closed, the launches of this
 * thread take extents and modes from what the call told; the first of them records all of it, as a kernel may hide its
 * addresses.
 *
 * What a call tells is dropped when it launches nothing, and remembered as blocks for later launches where the
 * framework does not know better. */
#ifndef ULMS_CALL_H
#define ULMS_CALL_H

#include "base/thread.h"
#include "driver.h"
#include "library/extent.h"

enum call_use {
    CALL_LAUNCHES,
    CALL_BUILDS,   /* a graph of the program's, too, which is launched whenever */
    CALL_TOGETHER, /* kernels that are one operation */
    CALL_WHOLE,    /* and that use nothing of the program's beside what it tells */
};

/* NULL: call the real function and nothing else (recording is off, libraries are not believed, or a library call of
 * this thread is open). */
struct call *call_open(enum api api, enum call_use use);
/* False: what it launches need not be looked at (driver/fast_path.h), and nothing is told. */
static inline bool call_tells(const struct call *call) {
    return !call->unread;
}
/* The call touches `span` around start, in elements of `bits` bits. Nothing when the span is empty, or start no address
 * in the ledger. A write of a span with holes is an update, as what lies between is kept; so is scratch. A launch that
 * holds start finds the span also where it begins behind start. */
void call_touch(struct call *call, addr_t start, struct span span, unsigned bits, enum touch_mode mode);
/* The same around each of the `count` addresses that device memory holds from `array` on, which is read itself. Their
 * values are known when a copy brought them there; where others may have overwritten them the call hides addresses. */
void call_array(struct call *call, addr_t array, int64_t count, struct span span, unsigned bits, enum touch_mode mode);
/* As call_touch, but no farther than the framework's block around start, or the allocation: the span is a bound. */
void call_within(struct call *call, addr_t start, struct span span, unsigned bits, enum touch_mode mode);
/* Only around the addresses, not the array itself. */
void call_pointed(struct call *call, addr_t array, int64_t count, struct span span, unsigned bits,
                  enum touch_mode mode);
/* The best known block around each of the addresses. */
void call_pointed_blocks(struct call *call, addr_t array, int64_t count, enum touch_mode mode);
/* The call touches the best known block around p: how far it reaches is not told. */
void call_block(struct call *call, addr_t p, enum touch_mode mode);
/* What another call of this thread had at the front of its touches, and did not launch. */
void call_take(struct call *call, const struct touch *touches, uint32_t n);
/* All is told: the ledger is. What lies in no allocation is dropped. */
void call_told(struct call *call);
void call_close(struct call *call);

#endif
