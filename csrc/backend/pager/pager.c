/* The contract's calls. While all memory fits, it is brought to the device once and that is all;
 * the first allocation too many makes the engine rule over all that is there. */
#include "backend/pager/pager.h"

#include <stdlib.h>

#include "backend/backend.h"
#include "backend/pager/call_scope.h"
#include "base/options.h"
#include "base/thread.h"
#include "driver/context.h"
#include "driver/session.h"
#include "observe/stats.h"

enum { WAITED_NS = 1000 };                    /* what took less did not wait */
#define UNTRACKED UINT64_MAX                  /* in place of a ticket: not told, as nothing moved yet */
static __thread uint64_t tickets[DEVICE_MAX]; /* of the thread's operation, from admit to settle */
static __thread uint64_t waited_ns;           /* of it, up to now: it was held */

/* --- memory --- */

void pager_make_room(struct pager *d, uint64_t bytes) {
    if (!pager_moves(d) && clock_ns() - d->budget.looked_ns > PAGER_LOOK_NS)
        pager_budget_look(d);
    else
        pager_budget_update(d);
    if (pager_all_fits(d) && !pager_fits(d, bytes))
        pager_start_moving(d, bytes);
}

bool pager_crowded(int32_t device, uint64_t bytes) {
    bool crowded = false;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        crowded = crowded || (d->ordinal == device && pager_all_fits(d) && !pager_fits(d, bytes));
        pager_unlock(d);
    }
    return crowded;
}

void pager_plain(int32_t device) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        if (d->ordinal == device && d->bytes > 0)
            pager_make_room(d, 0);
        pager_unlock(d);
    }
}

void pager_coming(int32_t device, int64_t bytes) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        if (d->ordinal == device)
            pager_budget_comes(d, bytes);
}

void pager_arrived(addr_t start, uint64_t bytes, int32_t device) {
    pager_returned(); /* room is made for it */
    struct pager *d = pager_of(device);
    if (!d)
        return;
    pager_lock(d);
    pager_make_room(d, bytes);
    pager_refit_again(d);
    struct pager_range *range = pager_range_add(&d->ranges, start, bytes);
    bool known = range != NULL;
    if (known)
        pager_range_inherit_advice(&d->still_advised, range);
    if (known && !ulms_engine_allocated(d->engine, start, bytes)) {
        free(pager_range_take(&d->ranges, start));
        known = false;
    }
    d->bytes += known ? bytes : 0;
    bool fits = known && pager_all_fits(d);
    if (known && d->kind->arrives)
        d->kind->arrives(d, start, bytes, fits);
    pager_unlock(d);
    if (known && d->kind->place)
        d->kind->place(d, start, bytes, fits);
}

void pager_freeing(addr_t start, uint64_t bytes) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        struct pager_range *range = pager_range_take(&d->ranges, start);
        if (range) {
            d->bytes -= range->freed ? 0 : range->bytes;
            ulms_engine_freed(d->engine, start, range->bytes);
            pager_progressed(d);
            pager_wake(d);
            pager_moves_wait(d, start, bytes, false);
            pager_range_remember_advice(&d->still_advised, range);
        }
        pager_unlock(d);
    }
}

/* Until it leaves it keeps its places, unless others need them: its pages are the first to leave. */
static void die(struct pager *d, struct pager_range *r) {
    pager_pages_died(&d->ranges, r->start, r->start + r->bytes, 1);
    ulms_engine_block(d->engine, r->start, r->bytes, true); /* where there never was a block none can end */
    ulms_engine_block(d->engine, r->start, r->bytes, false);
    pager_wake(d);
}

bool pager_free_deferred(addr_t start, uint64_t bytes, bool unused) {
    bool heard = true;
    (void)bytes;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        struct pager_range *r = pager_range_at(&d->ranges, start);
        if (r) {
            d->bytes -= r->freed || !unused ? 0 : r->bytes; /* until then it holds its place */
            r->freed = r->freed || unused;
            heard = unused && !pager_all_fits(d); /* what begins to move was all used just before */
            if (heard)
                die(d, r);
        }
        pager_unlock(d);
    }
    return heard;
}

/* What was issued up to now is done, or nothing gets done any more: a context cannot go before. Under the lock. */
static void wait_for_issued(struct pager *d) {
    struct patience patience = {0};
    uint64_t issued = d->window.next;
    while (pager_moves(d) && d->window.oldest < issued && pager_wait(d, &patience))
        ;
}

/* As long as patience lasts: a move of another context's may be behind a gate of the program's own. Under the lock. */
static void wait_for_workers(struct pager *d, CUcontext going) {
    bool theirs = d->context == going && !d->own[0].context; /* some use just this one */
    struct patience wish = {0}, need = {.what = PATIENCE_NEED};
    while ((d->under_way || d->looking) && !pager_stops(d) && pager_wait(d, &wish))
        ;
    while (theirs && (d->under_way || d->looking) && !pager_stops(d) && pager_wait(d, &need))
        ;
}

static uint32_t going_count; /* contexts; atomic */

bool pager_forgets(void) {
    return __atomic_load_n(&going_count, __ATOMIC_SEQ_CST) > 0;
}

void pager_forget(uint64_t context) {
    CUcontext going = (CUcontext)(uintptr_t)context;
    pager_returned();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        wait_for_issued(d);
        pager_unlock(d);
    }
    __atomic_fetch_add(&going_count, 1, __ATOMIC_SEQ_CST);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        /* the addresses of its memory may be somebody else's before we are told that it left */
        pager_pages_died(&d->ranges, 0, UINT64_MAX, 0);
        if (d->kind->placer_leaves)
            d->kind->placer_leaves(d, going);
        wait_for_workers(d, going); /* what was handed out begins still */
        pager_moves_wait(d, 0, UINT64_MAX, d->context != going);
        if (d->context == going) {
            d->context = NULL;
            d->epoch++;
        }
        for (int i = 0; i < PAGER_CONTEXTS; i++)
            if (d->places[i].context == going)
                d->places[i].context = NULL;
        if (d->lane_context == going)
            d->lane_context = NULL;
        pager_marks_forget(d, going);
        pager_unlock(d);
    }
}

void pager_forgotten(uint64_t gone) {
    (void)gone;
    __atomic_fetch_sub(&going_count, 1, __ATOMIC_SEQ_CST);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_wake(d);
        pager_unlock(d);
    }
}

/* --- operations --- */

static void touch_room(struct pager *d, size_t wanted) {
    size_t room = d->touch_room ? d->touch_room : 64;
    while (room < wanted)
        room *= 2;
    struct ulms_engine_touch *touches = room > d->touch_room ? realloc(d->touches, room * sizeof *touches) : NULL;
    if (!touches)
        return;
    d->touches = touches;
    d->touch_room = room;
}

size_t pager_touches(struct pager *d, const struct op *op) {
    size_t n = op->count;
    if (n > d->touch_room)
        touch_room(d, n);
    if (n > d->touch_room) {
        pager_give_up(d, "no memory for an operation");
        pager_moves_wait(d, 0, UINT64_MAX, false);
        n = d->touch_room;
    }
    for (size_t i = 0; i < n; i++) {
        const struct touch *t = &op->touches[i];
        d->touches[i] = (struct ulms_engine_touch){t->start, t->bytes, t->mode | (t->sparse ? ULMS_TOUCH_SPARSE : 0)};
    }
    return n;
}

/* In whole pages, as these are what must be there. A counter is a sum of what threads add: it grows to the most. */
static void note_largest(struct pager *d, size_t touches) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < touches; i++) {
        const struct ulms_engine_touch *t = &d->touches[i];
        bytes += t->bytes ? ((t->start + t->bytes - 1) / page_bytes - t->start / page_bytes + 1) * page_bytes : 0;
    }
    if (bytes > d->largest) {
        stats_add(COUNT_largest_bytes, bytes - d->largest);
        d->largest = bytes;
    }
}

static void use(struct pager *d, const struct op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        pager_pages_used(&d->ranges, op->touches[i].start, op->touches[i].start + op->touches[i].bytes);
}

/* It waited for what has to end, and that did not. */
static void refuse_unless(bool ended, struct op *op) {
    if (ended)
        return;
    op->flags |= OP_REFUSED;
    op->status = CUDA_ERROR_OUT_OF_MEMORY;
}

/* What is being lost is not written before it is: also when nothing moves any more. */
static void wait_for_discards(struct pager *d, struct op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        refuse_unless(pager_moves_wait(d, op->touches[i].start, op->touches[i].bytes, true), op);
}

static void ensure_usable(struct pager *d, struct op *op, uint64_t serial, enum pager_use uses) {
    if (d->kind->ensure_usable)
        refuse_unless(d->kind->ensure_usable(d, op, serial, uses), op);
}

/* It may touch what it does not show: a kernel may, and so may a graph of which not all is known. */
static bool may_touch_more(const struct op *op) {
    return op->kernels > 0 || op->flags & (OP_BLIND | OP_HIDES);
}

/* Another device has admitted it: what waits for that one waits for this thread. */
static bool is_admitted(void) {
    bool is = false;
    for (const struct pager *d = pager_next(NULL); d && !is; d = pager_next(d))
        is = tickets[d->ordinal] > 0;
    return is;
}

/* The operation's ticket, or UNTRACKED; 0: none, as nothing will move, or as it is sure to touch nothing here. */
static uint64_t admit_to(struct pager *d, struct op *op) {
    pager_lock(d);
    refuse_unless(pager_moves_wait_reborn(d), op);
    enum pager_opacity opaque = d->kind->opaque ? d->kind->opaque(d, op) : PAGER_TRANSPARENT;
    enum pager_use uses = opaque ? PAGER_USES_ANY : PAGER_USES_ABSENT;
    uint64_t of_call = opaque ? 0 : call_scope_ticket(d);
    if (of_call) {
        pager_unlock(d);
        return of_call;
    }
    call_scope_end(d);
    if (!is_admitted())
        refuse_unless(pager_frozen_wait(d), op);
    if (!pager_moves(d)) {
        if (opaque)
            refuse_unless(pager_opaque_begin(d, 0, opaque), op);
        ensure_usable(d, op, 0, uses);
        if (opaque)
            pager_opaque_admitted(d);
        wait_for_discards(d, op);
        bool ended = pager_ended(d);
        if (!ended)
            __atomic_fetch_add(&d->untracked, 1, __ATOMIC_SEQ_CST);
        pager_unlock(d);
        return ended ? 0 : UNTRACKED;
    }
    if (!d->context && context_device() == d->ordinal)
        d->context = pager_current();
    if (ledger_plain(session.ledger, d->ordinal) != d->budget.plain)
        pager_budget_update(d);
    if (!d->held)
        pager_order_begin(d);
    size_t touches = d->kind->touches(d, op);
    note_largest(d, touches);
    uint64_t serial = ulms_engine_issued(d->engine, pager_key(op), d->touches, touches);
    bool runs = serial || may_touch_more(op) || opaque;
    uint64_t ticket = runs ? pager_window_issue(&d->window, serial) : 0;
    if (!ticket && runs)
        pager_give_up(d, "too many operations have not retired");
    if (serial) {
        use(d, op);
        if (d->held) {
            pager_stir(d);
            int answer = pager_moves(d) ? pager_hold(d, op, serial, ticket, &waited_ns) : ULMS_HOLD;
            uses = answer == ULMS_RUN && !opaque ? PAGER_USES_PRESENT : uses;
            refuse_unless(answer != ULMS_HOLD || !pager_moves(d), op);
        } else {
            pager_order(d, op, serial);
        }
    }
    uint64_t began = opaque ? clock_ns() : 0;
    if (opaque)
        refuse_unless(pager_opaque_begin(d, ticket, opaque), op);
    ensure_usable(d, op, serial, uses);
    if (opaque)
        pager_opaque_admitted(d);
    if (opaque && ticket && clock_ns() - began >= WAITED_NS)
        waited_ns += pager_tell_held(d, op, began, 0);
    if (serial && !opaque && (op->flags & (OP_WHOLE | OP_REFUSED)) == OP_WHOLE)
        call_scope_begin(d, ticket);
    if (!d->held)
        pager_order_end(d);
    if (!pager_moves(d))
        wait_for_discards(d, op);
    pager_unlock(d);
    if (serial && d->kind->prepare)
        d->kind->prepare(d, op);
    return ticket;
}

static bool matters(const struct op *op) {
    return op->count > 0 || may_touch_more(op);
}

void pager_admit(struct op *op) {
    if (!matters(op) || pager_bypass_begin())
        return;
    call_scope_look(op);
    uint64_t began = clock_ns();
    waited_ns = 0;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        tickets[d->ordinal] = admit_to(d, op);
    stats_add(COUNT_admit_ns, clock_ns() - began - waited_ns);
}

static void settle_to(struct pager *d, const struct op *op, uint64_t ticket) {
    if (ticket == UNTRACKED) {
        __atomic_fetch_sub(&d->untracked, 1, __ATOMIC_SEQ_CST);
        return;
    }
    if (op->status == CUDA_SUCCESS) {
        pager_mark(d, op, ticket);
        return;
    }
    pager_lock(d);
    pager_retired(d, ticket);
    pager_wake(d);
    pager_unlock(d);
}

void pager_settle(const struct op *op) {
    if (__builtin_expect(op_gates(op), 0) && op->status == CUDA_SUCCESS)
        pager_mark_gate(op);
    if (!matters(op) || pager_bypass_end())
        return;
    uint64_t began = clock_ns();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        uint64_t ticket = tickets[d->ordinal];
        tickets[d->ordinal] = 0;
        if (ticket)
            settle_to(d, op, ticket);
    }
    stats_add(COUNT_settle_ns, clock_ns() - began);
}

/* It may have come to the driver, or not: it counts as one that did not. */
void pager_jumped(void) {
    static const struct op gone = {.kernels = 1, .status = CUDA_ERROR_UNKNOWN};
    pager_block_bypass_end();
    pager_still_end();
    pager_settle(&gone);
}

/* --- the end --- */

void pager_abandon(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        phase_enter(&d->phase, PHASE_STOPPING);
}

static void begin_stop(struct pager *d) {
    pager_lock(d);
    phase_enter(&d->phase, PHASE_STOPPING);
    pager_marks_wake(d);
    for (int lane = 0; lane < LANES; lane++)
        pthread_cond_broadcast(&d->lanes[lane].work);
    pthread_cond_broadcast(&d->asked);
    pager_take_back(d);
    pager_wake(d);
    pager_unlock(d);
}

/* All moves that are under way, of all devices, have so long together: with ULMS_VERIFY=1 one takes long, on a busy
 * machine longer. */
void pager_stop(void) {
    pager_no_more_moving();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        begin_stop(d);
    /* behind a gate that nobody will open no thread of ours ends */
    bool gated = patience_gated(), lasts = gated && ulms_options.mode == MODE_UM;
    struct timespec soon = pager_soon(gated || pager_gates_unseen() ? PAGER_GATED_NS : PAGER_JOIN_NS);
    struct timespec moved = pager_soon(lasts ? PAGER_GATED_NS : PAGER_MOVED_NS);
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_workers_stop(d, &soon, &moved);
        pager_lock(d);
        pager_publish(d);
        pager_unlock(d);
    }
}
