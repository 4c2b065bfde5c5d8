/* What may move, and when: the operations and moves of remapped memory. docs/vmm.md has what is guaranteed.
 *
 * An operation's pages are pinned from its admission to its end: they are not mapped anew meanwhile. So all that may be
 * touched has to be known, or must not move. */
#include "backend/pager/call_scope.h"
#include "backend/vmm/deferred_release.h"
#include "backend/vmm/extent.h"
#include "backend/vmm/own_handles.h"
#include "backend/vmm/verify.h"
#include "base/log.h"
#include "driver/session.h"
#include "launch/function.h"

/* --- operations --- */

/* The driver would not map it, or not unmap it where it is another's. */
static bool is_lost(const struct vmm_page *p) {
    uint8_t at = vmm_page_at(p);
    return at != VMM_DEVICE && at != VMM_HOST;
}

/* It may touch anything. What a library's call told is all that it touches, whatever its kernels are handed: those of
 * cuDNN have pinned memory of its own where they report errors. */
static bool hides(const struct op *op) {
    bool opaque = op->flags & (OP_BLIND | OP_HIDES) || op->count == TOUCH_MAX;
    opaque = opaque || (op->kernels > 0 && ulms_options.hidden == HIDDEN_ANY);
    for (uint32_t i = 0; !opaque && op->kernels > 0 && !vmm_is_told(op) && i < op->count; i++)
        opaque = ledger_is_host_written(session.ledger, op->touches[i].start);
    return opaque;
}

static void tell_untrusted(const struct pager *d, const struct op *op) {
    const struct function *f = op->function ? function_at(op->function - 1) : NULL;
    const struct kernel_verdict *v = f && f->code ? kernel_code_verdict(f->code) : NULL;
    bool says = v && v->reason;
    log_info("device %d: %s may follow addresses that lie in memory%s%s%s: what is away is mapped from now on, which "
             "takes longer; not with ULMS_HIDDEN=known, for who knows that no kernel does",
             d->ordinal, f ? f->name : "a kernel of a graph", says ? " (" : "", says ? v->reason : "", says ? ")" : "");
}

/* A kernel that is not trusted comes. While nothing moves nothing is away. Under the lock. */
static bool needs_mapped(struct pager *d, const struct op *op) {
    if (!(op->flags & OP_ROAMS) || !pager_moves(d) || !vmm_in(d) || vmm_in(d)->all_mapped)
        return false;
    return ulms_options.hidden == HIDDEN_FOLLOWED && !vmm_verifies();
}

/* Until all that is away is mapped. Under the lock. */
static bool needs_all_mapped(struct pager *d, const struct op *op) {
    if (!__atomic_exchange_n(&vmm_in(d)->untrusted, true, __ATOMIC_RELAXED))
        tell_untrusted(d, op);
    vmm_in(d)->all_mapped = !vmm_in(d)->stale_content && !d->moves.under_way;
    return !vmm_in(d)->all_mapped;
}

static enum pager_opacity opacity(struct pager *d, const struct op *op) {
    if (hides(op))
        return PAGER_OPAQUE;
    if (!needs_mapped(d, op))
        return PAGER_TRANSPARENT;
    if (op->flags & OP_UNREAD) /* which will be over soon */
        return PAGER_OPAQUE;
    return needs_all_mapped(d, op) ? PAGER_PAUSES_MOVES : PAGER_TRANSPARENT;
}

/* Its vacated pages are used where they lie now: not before they are mapped there. False: they are not. */
static bool wait_mapped(struct pager *d, const struct op *op) {
    size_t n = d->moves.under_way ? vmm_touches(d, op) : 0;
    bool mapped = true, waited;
    for (size_t i = 0; i < n; i++) {
        mapped =
            pager_moves_wait_mapped(d, d->admission.touches[i].start, d->admission.touches[i].bytes, &waited) && mapped;
        if (waited)
            vmm_touches(d, op); /* another operation's, after waiting */
    }
    return mapped;
}

/* All memory is what the program takes it for, whatever an operation does with it that it did not show. */
static void make_all_usable(struct pager *d) {
    vmm_map_stale(d, 0, UINT64_MAX);
    vmm_written(d);
    if (vmm_in(d))
        vmm_in(d)->all_mapped = __atomic_load_n(&vmm_in(d)->untrusted, __ATOMIC_RELAXED);
}

/* Once nothing moves any more, all of it is what the program takes it for. */
static void end_moves(struct pager *d) {
    if (pager_ended(d) && vmm_in(d) && !vmm_in(d)->never_stale && pager_moves_wait(d, 0, UINT64_MAX, false)) {
        vmm_map_stale(d, 0, UINT64_MAX);
        vmm_in(d)->never_stale = true;
    }
}

/* Without the engine nothing pins its pages: then nothing may move any more, and what does has to end. False: it does
 * not. */
static bool make_usable(struct pager *d, const struct op *op, uint64_t serial, enum pager_use uses) {
    if (vmm_verifies())
        vmm_verify_admitted(d, vmm_touches(d, op), uses == PAGER_USES_ANY);
    if (uses == PAGER_USES_ANY)
        make_all_usable(d);
    if (pager_moves(d) && serial) {
        bool mapped = wait_mapped(d, op);
        size_t n = mapped && uses == PAGER_USES_ABSENT ? vmm_touches(d, op) : 0;
        for (size_t i = 0; i < n; i++)
            vmm_map_stale(d, d->admission.touches[i].start,
                          d->admission.touches[i].start + d->admission.touches[i].bytes);
        return mapped;
    }
    size_t n = vmm_touches(d, op);
    bool over = true;
    for (size_t i = 0; i < n && pager_moves(d); i++)
        if (vmm_any_page(d, d->admission.touches[i].start, d->admission.touches[i].bytes, vmm_may_move))
            pager_give_up(d, "no memory for an operation");
    for (size_t i = 0; i < n && !pager_moves(d); i++)
        if (pager_moves_any(d, d->admission.touches[i].start, d->admission.touches[i].bytes)) {
            over = pager_moves_wait(d, d->admission.touches[i].start, d->admission.touches[i].bytes, false) && over;
            vmm_touches(d, op); /* another operation's, after waiting */
        }
    end_moves(d);
    return over;
}

static bool any_lost(const struct pager *d) {
    bool lost = false;
    for (size_t i = 0; i < d->memory.ranges.count && !lost; i++) {
        const struct spans_row *r = &d->memory.ranges.at[i];
        lost = vmm_any_page(d, r->start, r->end - r->start, is_lost);
    }
    return lost;
}

static bool touches_lost(struct pager *d, const struct op *op) {
    bool lost = false;
    for (size_t i = 0, n = vmm_touches(d, op); i < n && !lost; i++)
        lost = vmm_any_page(d, d->admission.touches[i].start, d->admission.touches[i].bytes, is_lost);
    return lost;
}

/* What the operation may use lies no more in the file: also of pages that it is to use on the host. False: it does. */
static bool recall(struct pager *d, const struct op *op, uint64_t ticket, enum pager_use uses) {
    bool all = uses == PAGER_USES_ANY || pager_ended(d) || !vmm_goes_stale(d) || vmm_verifies();
    bool pauses = uses == PAGER_USES_ANY;
    uint64_t until = ticket ? ticket + 1 : d->window.next;
    bool good = !all || vmm_recall(d, 0, UINT64_MAX, until, pauses);
    for (size_t i = 0; good && !all && i < vmm_touches(d, op); i++) { /* another operation's, after waiting */
        addr_t start = d->admission.touches[i].start / page_bytes * page_bytes;
        addr_t end = d->admission.touches[i].start + d->admission.touches[i].bytes;
        good = vmm_recall(d, start, end, until, pauses);
    }
    return good;
}

static bool ensure_usable(struct pager *d, const struct op *op, uint64_t serial, uint64_t ticket, enum pager_use uses) {
    if ((vmm_may_file(d) && !recall(d, op, ticket, uses)) || !make_usable(d, op, serial, uses))
        return false;
    return !vmm_in(d) || !__atomic_load_n(&vmm_in(d)->loses, __ATOMIC_RELAXED) ||
           !(uses == PAGER_USES_ANY ? any_lost(d) : touches_lost(d, op));
}

static void admit(struct op *op) {
    if (vmm_verifies())
        vmm_verify_issued(op);
    pager_admit(op);
}

/* --- moves --- */

struct vacating {
    struct pager *device;
    uint64_t id;
};

static void on_vacated(void *data) {
    const struct vacating *l = data;
    pager_lock(l->device);
    pager_move_vacated(l->device, l->id);
    pager_wake(l->device);
    pager_unlock(l->device);
}

_Static_assert((int)PAGER_RUN_PAGES <= (int)VMM_MOVES, "a run has at most a move a page");

/* The pages that follow one another in a range move as one. Returns how many pieces there are. */
static size_t join(struct vmm *v, const struct pager_move *m, struct pager_piece *piece) {
    const struct vmm_range *range = NULL;
    size_t n = 0;
    for (const struct pager_piece *p = m->piece; p < m->piece + m->pieces; p++) {
        bool same = range && p->start < range->start + range->bytes;
        if (same && p->start == piece[n - 1].start + piece[n - 1].bytes)
            piece[n - 1].bytes += p->bytes;
        else
            piece[n++] = *p;
        range = same ? range : vmm_range_find(v, p->start);
    }
    return n;
}

static bool issue(struct pager *d, const struct pager_move *m, CUstream stream) {
    bool fill = m->m.kind == ULMS_FILL;
    /* what an operation did not show may have made one that looks clean dirty */
    bool any = ulms_options.hidden == HIDDEN_ANY;
    bool unused = m->discard || (vmm_goes_stale(d) && !(m->m.flags & ULMS_MOVE_IN_PLACE));
    pager_lock(d);
    /* Then the driver gets the frame: the mover maps the page elsewhere, or one thread would map all of them later. */
    bool shrinks = frames_bytes(&vmm_in(d)->pool[VMM_DEVICE].frames) > vmm_frames_allowed(d);
    bool vacates = !fill && unused && !vmm_verifies(), parks = vacates && shrinks;
    if (parks)
        vmm_placeholder_coming(d, true);
    vmm_in(d)->stale_content = vmm_in(d)->stale_content || (vacates && !m->discard);
    bool waited, mapped = pager_moves_wait_mapped(d, m->m.start, m->m.bytes, &waited);
    pager_unlock(d);
    struct pager_piece piece[PAGER_RUN_PAGES];
    struct vmm_move part[PAGER_RUN_PAGES];
    bool files = vmm_goes_stale(d) && !vmm_verifies() && vmm_in(d)->beyond_host;
    size_t n = join(vmm_in(d), m, piece);
    for (size_t i = 0; i < n; i++)
        part[i] = (struct vmm_move){.start = piece[i].start,
                                    .bytes = piece[i].bytes,
                                    .to = fill ? VMM_DEVICE : VMM_HOST,
                                    .copy = !m->discard,
                                    .clean = !any && m->m.flags & ULMS_MOVE_CLEAN,
                                    .file = files,
                                    .keep = !any && m->m.flags & ULMS_MOVE_KEEP,
                                    .stale = vacates && !shrinks,
                                    .parks = parks,
                                    .look = vmm_verifies() ? vmm_verify_look : NULL};
    enum vmm_moved moved = VMM_STAYED;
    if (mapped)
        moved = vmm_move(vmm_in(d), part, n, stream, on_vacated, &(struct vacating){d, m->m.id});
    for (size_t i = 0; i < n && mapped && vmm_verifies(); i++)
        vmm_verify_moved(vmm_in(d), &part[i], stream);
    pager_lock(d);
    if (parks)
        vmm_placeholder_coming(d, false);
    if (moved == VMM_STUCK)
        pager_give_up(d, "the driver does not tell what is copied");
    pager_unlock(d);
    return moved == VMM_MOVED;
}

/* Under the device's lock; claims change without it, so that what is said may be old by now: then the wrong page
 * leaves. */
static uint64_t holder(void *data, uint64_t start) {
    struct vmm *v = vmm_in(data);
    struct vmm_range *r = vmm_range_find(v, start);
    return r ? ulms_frames_holder(&v->pool[VMM_DEVICE].frames, &r->page[(start - r->start) / page_bytes].claim) : 0;
}

/* What an operation did not show may have made a page that looks dead alive. */
static bool discards(void) {
    return ulms_options.hidden != HIDDEN_ANY;
}

static void capture_unknown(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        pager_give_up(d, "the driver does not tell what is captured");
        end_moves(d);
        pager_unlock(d);
    }
}

static void stop(void) {
    pager_stop();
    vmm_filers_stop();
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        if (vmm_in(d) && !pager_moves_any(d, 0, UINT64_MAX))
            vmm_map_stale(d, 0, UINT64_MAX);
        pager_unlock(d);
    }
    frame_prefetchers_stop();
}

/* While some of a lane map pages, the copies of another fill the link. */
static const struct pager_kind vmm_kind = {.fallback = "stays where it is, on the device or on the host",
                                           .movers = {.in = 3, .out = 3},
                                           .ahead = 32 << 20,
                                           .runs = 2,
                                           .arrives = vmm_arrives,
                                           .occupied = vmm_occupied,
                                           .padding = vmm_padding,
                                           .issue = issue,
                                           .waits = true,
                                           .holder = holder,
                                           .insists = vmm_insists,
                                           .lends = vmm_placeholder_bytes,
                                           .is_away = vmm_is_away,
                                           .file = vmm_file,
                                           .let_go = vmm_let_go,
                                           .load = vmm_load,
                                           .divided = vmm_divided,
                                           .discards = discards,
                                           .opaque = opacity,
                                           .touches = vmm_touches,
                                           .ensure_usable = ensure_usable};

const struct backend backend_vmm = {.name = "vmm",
                                    .kind = &vmm_kind,
                                    .admit = admit,
                                    .settle = pager_settle,
                                    .returned = pager_returned,
                                    .fast_path = true,
                                    .serves = vmm_serves,
                                    .provide = vmm_provide,
                                    .holds = vmm_holds,
                                    .arrived = vmm_arrived,
                                    .crowded = pager_crowded,
                                    .room = pager_room,
                                    .plain = vmm_plain,
                                    .granted = vmm_granted,
                                    .shares = &pager_shares,
                                    .coming = vmm_coming,
                                    .freeing = vmm_freeing,
                                    .free_deferred = vmm_free_deferred,
                                    .release = vmm_free,
                                    .context_synced = vmm_context_synced,
                                    .own = &vmm_own,
                                    .held = vmm_held,
                                    .relieve = vmm_relieve,
                                    .pin_reachable = vmm_pin_reachable,
                                    .share = vmm_share,
                                    .capture_unknown = capture_unknown,
                                    .block_before = pager_block_before,
                                    .block = pager_block,
                                    .forget = pager_forget,
                                    .forgotten = vmm_forgotten,
                                    .jumped = pager_jumped,
                                    .still_begin = pager_still_begin,
                                    .still_end = pager_still_end,
                                    .fork_child = vmm_fork_child,
                                    .abandon = pager_abandon,
                                    .stop = stop};
