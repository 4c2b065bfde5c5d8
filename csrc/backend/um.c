/* The contract's calls. While all memory fits, it is brought to the device once and that is all;
 * the first allocation too many makes the engine rule over all that is there. */
#include "backend/um.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "interpose/capture.h"
#include "interpose/session.h"
#include "launch/function.h"
#include "observe/stats.h"

static __thread uint64_t tickets[DEVICE_MAX]; /* of the thread's operation, from admit to settle */

/* --- memory --- */

/* For memory that is about to be told to the engine. Under the lock. */
static void make_room(struct um_device *d, uint64_t bytes) {
    um_budget_update(d, !d->moving && clock_ns() - d->budget.looked_ns > UM_LOOK_NS);
    if (!d->moving && !d->over && d->bytes + bytes > d->budget.bytes + d->fixed)
        um_start_moving(d, bytes);
}

void um_plain(int32_t device) {
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        um_lock(d);
        if (d->ordinal == device && d->bytes > 0)
            make_room(d, 0);
        um_unlock(d);
    }
}

void um_arrived(addr_t start, uint64_t bytes, int32_t device) {
    struct um_device *d = um_device_of(device);
    if (!d)
        return;
    um_lock(d);
    make_room(d, bytes);
    bool known = um_range_add(&d->ranges, start, bytes);
    if (known && !ulms_engine_allocated(d->engine, start, bytes)) {
        free(um_range_take(&d->ranges, start));
        known = false;
    }
    d->bytes += known ? bytes : 0;
    bool fits = known && !d->moving && !d->over;
    um_unlock(d);
    if (known)
        d->kind->place(d, start, bytes, fits);
}

void um_leaving(addr_t start, uint64_t bytes) {
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        um_lock(d);
        struct um_range *range = um_range_take(&d->ranges, start);
        if (range) {
            d->bytes -= range->bytes;
            ulms_engine_freed(d->engine, start, range->bytes);
            d->progress++;
            um_wake(d);
            um_moves_wait(d, start, bytes, false);
        }
        um_unlock(d);
        free(range);
    }
}

/* Memory given out during a capture is the graph's as long as it lives, whatever the framework says of it after. */
static bool of_capture(addr_t start, bool live) {
    static struct hash captured = HASH_EMPTY;
    if (live && capture_any()) {
        hash_put(&captured, start, &captured, NULL);
        return false;
    }
    return hash_take(&captured, start) && !live;
}

/* A page keeps its date of death only if every block on it is gone: the engine knows. What is born undoes it. */
void um_block(addr_t start, uint64_t bytes, bool live) {
    if (of_capture(start, live))
        return;
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        um_lock(d);
        if (um_page_at(&d->ranges, start)) {
            uint64_t died = live ? 0 : d->window.next ? d->window.next : 1;
            um_pages_died(&d->ranges, start, start + bytes, died);
            if (live)
                um_moves_wait(d, start, bytes, true);
            ulms_engine_block(d->engine, start, bytes, live);
            if (!live && d->moving)
                um_wake(d);
        }
        um_unlock(d);
    }
}

/* What was issued up to now is done, or nothing gets done any more: a context cannot go before. Under the lock. */
static void outlive(struct um_device *d) {
    struct um_patience patience = {0};
    uint64_t issued = d->window.next;
    while (d->moving && d->window.oldest < issued && um_wait(d, &patience))
        ;
}

void um_forget(uint64_t context) {
    CUcontext going = (CUcontext)(uintptr_t)context;
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        um_lock(d);
        outlive(d);
        /* the addresses of its memory may be somebody else's before we are told that it left */
        um_pages_died(&d->ranges, 0, UINT64_MAX, 0);
        um_moves_wait(d, 0, UINT64_MAX, true);
        if (d->context == going) {
            d->context = NULL;
            d->epoch++;
            um_moves_wait(d, 0, UINT64_MAX, false);
        }
        if (d->place_context == going)
            d->place_context = NULL;
        if (d->lane_context == going)
            d->lane_context = NULL;
        um_marks_forget(d, going);
        um_unlock(d);
    }
}

/* --- operations --- */

/* Kernels by their function, all else by the call. */
static uint64_t key_of(const struct op *op) {
    return op->function ? op->function : (uint64_t)1 << 32 | op->api;
}

size_t um_touches(struct um_device *d, const struct op *op) {
    for (uint32_t i = 0; i < op->count; i++) {
        const struct touch *t = &op->touches[i];
        d->touches[i] = (struct ulms_engine_touch){t->start, t->bytes, t->mode};
    }
    return op->count;
}

static void use(struct um_device *d, const struct op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        um_pages_died(&d->ranges, op->touches[i].start, op->touches[i].start + op->touches[i].bytes, 0);
}

static void count_held(const struct op *op, uint64_t ns) {
    const struct function *f = op->function ? function_at(op->function - 1) : NULL;
    stats_add(COUNT_held_ns, ns);
    if (f)
        __atomic_fetch_add(&((struct function *)(uintptr_t)f)->held_ns, ns, __ATOMIC_RELAXED);
}

/* Until the engine lets it run, or nothing has happened for so long that waiting is no use. */
static void hold(struct um_device *d, const struct op *op, uint64_t serial) {
    struct um_patience patience = {0};
    uint64_t started = clock_ns(), wait;
    int at_once = !(d->own_context || d->context) || um_stalled(d); /* nothing moves without a context */
    bool held = false;
    while (d->moving && ulms_engine_admit(d->engine, serial, at_once, &wait) == ULMS_HOLD) {
        held = true;
        if (!um_wait(d, &patience)) {
            log_debug("device %d: nothing moves: an operation runs without its pages", d->ordinal);
            at_once = 1;
        }
    }
    if (held)
        count_held(op, clock_ns() - started);
}

/* Pages that the operation writes and that were advised to be mostly read. */
struct unkeep {
    struct {
        addr_t start, end;
    } run[16];
    int count;
};

static void collect(struct um_page *p, addr_t at, void *data) {
    struct unkeep *u = data;
    if (!p->kept)
        return;
    if (u->count && u->run[u->count - 1].end == at) {
        u->run[u->count - 1].end += PAGE_BYTES;
    } else if (u->count < 16) {
        u->run[u->count].start = at;
        u->run[u->count++].end = at + PAGE_BYTES;
    } else {
        return; /* the write is right all the same, only slow */
    }
    p->kept = false;
    p->written = true;
}

static struct unkeep kept_and_written(struct um_device *d, const struct op *op) {
    struct unkeep u = {.count = 0};
    for (uint32_t i = 0; i < op->count; i++)
        if (op->touches[i].mode != TOUCH_READ)
            um_pages_visit(&d->ranges, op->touches[i].start, op->touches[i].start + op->touches[i].bytes, collect, &u);
    return u;
}

/* The driver may then have kept the host's copy: so it is brought again. */
static void unkeep(struct um_device *d, const struct unkeep *u) {
    for (int i = 0; i < u->count; i++) {
        uint64_t bytes = u->run[i].end - u->run[i].start;
        struct um_visit v = um_enter(NULL);
        um_advise_mostly_read(u->run[i].start, bytes, d->ordinal, false);
        um_leave(v);
        um_bring(d, u->run[i].start, bytes);
    }
}

/* What is being lost is not written before it is: also when nothing moves any more. */
static void outwait_discards(struct um_device *d, const struct op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        um_moves_wait(d, op->touches[i].start, op->touches[i].bytes, true);
}

/* The operation's ticket; 0: it has none, as nothing moves, or as it is sure to touch nothing here. */
static uint64_t admit_to(struct um_device *d, const struct op *op) {
    um_lock(d);
    if (!d->moving) {
        if (d->kind->passes)
            d->kind->passes(d, op, 0);
        outwait_discards(d, op);
        um_unlock(d);
        return 0;
    }
    if (!d->context && session_device() == d->ordinal)
        d->context = um_current();
    if (ledger_plain(session.ledger, d->ordinal) != d->budget.plain)
        um_budget_update(d, false);
    struct unkeep u = {.count = 0};
    if (!d->held)
        um_order_begin(d);
    uint64_t serial = ulms_engine_issued(d->engine, key_of(op), d->touches, d->kind->touches(d, op));
    uint64_t ticket = serial || op->kernels ? um_window_issue(&d->window, serial) : 0;
    if (!ticket && (serial || op->kernels))
        um_give_up(d, "too many operations have not retired");
    if (serial) {
        use(d, op);
        if (d->held) {
            um_wake(d);
            hold(d, op, serial);
        } else {
            um_order(d, op, serial);
        }
        u = kept_and_written(d, op);
    }
    if (d->kind->passes)
        d->kind->passes(d, op, serial);
    if (!d->held)
        um_order_end(d);
    if (!d->moving)
        outwait_discards(d, op);
    um_unlock(d);
    unkeep(d, &u);
    return ticket;
}

/* A kernel may touch what we do not see. */
static bool matters(const struct op *op) {
    return um_any_moving() && (op->count > 0 || op->kernels > 0);
}

void um_admit(struct op *op) {
    if (!matters(op))
        return;
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d))
        tickets[d->ordinal] = admit_to(d, op);
}

void um_settle(const struct op *op) {
    if (!matters(op))
        return;
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        uint64_t ticket = tickets[d->ordinal];
        tickets[d->ordinal] = 0;
        if (!ticket)
            continue;
        if (op->status == CUDA_SUCCESS) {
            um_mark(d, op, ticket);
            continue;
        }
        um_lock(d);
        um_retired(d, ticket);
        um_wake(d);
        um_unlock(d);
    }
}

/* --- the end --- */

void um_stop(void) {
    um_no_more_moving();
    for (struct um_device *d = um_device_next(NULL); d; d = um_device_next(d)) {
        um_lock(d);
        d->moving = false;
        d->over = true;
        __atomic_store_n(&d->stopping, true, __ATOMIC_RELAXED);
        um_publish(d);
        pthread_cond_broadcast(&d->marked);
        um_wake(d);
        um_unlock(d);
        um_workers_stop(d);
    }
}
