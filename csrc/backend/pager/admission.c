/* Operations are admitted once the pages that they touch are there, and settled once they were issued. */

#include <stdlib.h>

#include "backend/backend.h"
#include "backend/pager/call_scope.h"
#include "base/options.h"
#include "driver/context.h"
#include "driver/session.h"
#include "observe/stats.h"

enum { WAITED_NS = 1000 };                    /* what took less did not wait */
#define UNTRACKED UINT64_MAX                  /* in place of a ticket: not told, as nothing moved yet */
static __thread uint64_t tickets[DEVICE_MAX]; /* of the thread's operation, from admit to settle */
static __thread uint64_t waited_ns;           /* of it, up to now: it was held */

static void touch_room(struct pager *d, size_t wanted) {
    size_t room = d->admission.touch_room ? d->admission.touch_room : 64;
    while (room < wanted)
        room *= 2;
    struct ulms_engine_touch *touches =
        room > d->admission.touch_room ? realloc(d->admission.touches, room * sizeof *touches) : NULL;
    if (!touches)
        return;
    d->admission.touches = touches;
    d->admission.touch_room = room;
}

size_t pager_touches(struct pager *d, const struct op *op) {
    size_t n = op->count;
    if (n > d->admission.touch_room)
        touch_room(d, n);
    if (n > d->admission.touch_room) {
        pager_give_up(d, "no memory for an operation");
        pager_moves_wait(d, 0, UINT64_MAX, false);
        n = d->admission.touch_room;
    }
    for (size_t i = 0; i < n; i++) {
        const struct touch *t = &op->touches[i];
        d->admission.touches[i] =
            (struct ulms_engine_touch){t->start, t->bytes, t->mode | (t->sparse ? ULMS_TOUCH_SPARSE : 0)};
    }
    return n;
}

/* In whole pages, as these are what must be there. */
static void note_largest(struct pager *d, size_t touches) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < touches; i++) {
        const struct ulms_engine_touch *t = &d->admission.touches[i];
        bytes += t->bytes ? ((t->start + t->bytes - 1) / page_bytes - t->start / page_bytes + 1) * page_bytes : 0;
    }
    stats_most(COUNT_largest_bytes, &d->admission.largest, bytes);
}

static void use(struct pager *d, const struct op *op) {
    for (uint32_t i = 0; i < op->count; i++)
        pager_pages_used(&d->memory.ranges, op->touches[i].start, op->touches[i].start + op->touches[i].bytes);
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

static void ensure_usable(struct pager *d, struct op *op, uint64_t serial, uint64_t ticket, enum pager_use uses) {
    if (d->kind->ensure_usable)
        refuse_unless(d->kind->ensure_usable(d, op, serial, ticket, uses), op);
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

/* The operation's ticket, or UNTRACKED; 0: none, as nothing will move, or as it is sure to touch nothing here. first:
 * an operation whose pages went too far away while it was held is issued again, behind those that it waits for. */
static uint64_t admit_to(struct pager *d, struct op *op, bool first) {
    pager_lock(d);
    if (!call_scope_any(d))
        pager_turn_wait(d); /* before anything is judged: turns of others are long */
    pager_blocks_hear(d);   /* what the operation uses may have been born just before */
    refuse_unless(pager_moves_wait_reborn(d), op);
    enum pager_opacity opaque = d->kind->opaque ? d->kind->opaque(d, op) : PAGER_TRANSPARENT;
    enum pager_use uses = opaque ? PAGER_USES_ANY : PAGER_USES_ABSENT;
    uint64_t of_call = opaque ? 0 : call_scope_ticket(d);
    if (of_call) {
        pager_unlock(d);
        return of_call;
    }
    call_scope_end(d);
    bool insists = !is_admitted() && pager_insisting_begin(d, op);
    if (!is_admitted())
        refuse_unless(pager_frozen_wait(d), op);
    if (!pager_moves(d)) {
        if (opaque)
            refuse_unless(pager_opaque_begin(d, 0, opaque), op);
        ensure_usable(d, op, 0, 0, uses);
        if (opaque)
            pager_opaque_admitted(d);
        wait_for_discards(d, op);
        if (insists)
            pager_insisting_end(d);
        bool ended = pager_ended(d);
        if (!ended)
            __atomic_fetch_add(&d->admission.untracked, 1, __ATOMIC_SEQ_CST);
        pager_unlock(d);
        return ended ? 0 : UNTRACKED;
    }
    pager_context_see(d, false);
    if (ledger_plain(session.ledger, d->ordinal) != d->budget.plain)
        pager_budget_update(d);
    bool ordered = pager_order_begin(d);
    size_t touches = d->kind->touches(d, op);
    note_largest(d, touches);
    uint64_t serial = ulms_engine_issued(d->engine.core, pager_key(op), d->admission.touches, touches);
    bool runs = serial || may_touch_more(op) || opaque;
    uint64_t ticket = runs ? pager_window_issue(&d->window, serial) : 0;
    if (!ticket && runs)
        pager_give_up(d, "too many operations have not retired");
    if (serial)
        use(d, op);
    if (ordered) {
        pager_order_end(d, op, serial);
    } else if (serial) {
        pager_stir(d);
        int answer = pager_moves(d) ? pager_hold(d, op, serial, ticket, &waited_ns) : ULMS_HOLD;
        uses = answer == ULMS_RUN && !opaque ? PAGER_USES_PRESENT : uses;
        refuse_unless(answer != ULMS_HOLD || !pager_moves(d), op);
        if (first && !insists && !opaque && answer == ULMS_RUN_SHORT && pager_insists(d, op)) {
            pager_retired(d, ticket);
            pager_wake(d);
            pager_unlock(d);
            return admit_to(d, op, false);
        }
    }
    uint64_t began = opaque ? clock_ns() : 0;
    if (opaque)
        refuse_unless(pager_opaque_begin(d, ticket, opaque), op);
    ensure_usable(d, op, serial, ticket, uses);
    if (insists)
        pager_insisting_end(d);
    if (opaque)
        pager_opaque_admitted(d);
    if (opaque && ticket && clock_ns() - began >= WAITED_NS)
        waited_ns += pager_tell_held(d, op, began, 0);
    if (serial && !ordered && !opaque && (op->flags & (OP_WHOLE | OP_REFUSED)) == OP_WHOLE)
        call_scope_begin(d, ticket);
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
    section_begin();
    call_scope_look(op);
    uint64_t began = clock_ns();
    waited_ns = 0;
    struct pager *first = pager_turn_of_context(); /* who waits for its turn keeps nothing of another device */
    if (first) {
        pager_in_flight_wait(first);
        tickets[first->ordinal] = admit_to(first, op, true);
    }
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        if (d != first)
            tickets[d->ordinal] = admit_to(d, op, true);
    stats_add(COUNT_admit_ns, clock_ns() - began - waited_ns);
    section_end();
}

static void settle_to(struct pager *d, const struct op *op, uint64_t ticket) {
    if (ticket == UNTRACKED) {
        __atomic_fetch_sub(&d->admission.untracked, 1, __ATOMIC_SEQ_CST);
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
    section_begin();
    uint64_t began = clock_ns();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        uint64_t ticket = tickets[d->ordinal];
        tickets[d->ordinal] = 0;
        if (ticket)
            settle_to(d, op, ticket);
        pager_in_flight_issued(d, op);
    }
    stats_add(COUNT_settle_ns, clock_ns() - began);
    section_end();
}

/* It may have come to the driver, or not: it counts as one that did not. */
void pager_jumped(void) {
    static const struct op gone = {.kernels = 1, .status = CUDA_ERROR_UNKNOWN};
    pager_block_bypass_end();
    pager_still_end();
    pager_settle(&gone);
}
