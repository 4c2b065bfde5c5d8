/* Threads that bring pages from the host to the file, while nothing uses them there, and back, where they are to be
 * used on the host. (What leaves the device for the file, or comes from it, a mover brings.) While one has a page that
 * counts as a move. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "backend/vmm/filer.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/session.h"

enum { LOOK_NS = 10000000, IDLE_NS = 1000000000, TRIES = 3 };

struct seat {
    CUcontext context;
    uint64_t epoch;
    CUstream stream;
};

/* --- what is next. Under the lock --- */

bool filer_is_filed(const struct pager *d, const struct job *j) {
    (void)d;
    return vmm_page_is_filed(&j->range->page[j->page]);
}

static bool moves(const struct pager *d, const struct job *j) {
    return pager_moves_any(d, j->range->start + j->page * page_bytes, page_bytes);
}

static bool may_return(const struct pager *d, const struct job *j) {
    return filer_is_filed(d, j) && !moves(d, j);
}

static bool may_go(const struct pager *d, const struct job *j) {
    const struct vmm_page *p = &j->range->page[j->page];
    return (vmm_page_at(p) == VMM_HOST || vmm_page_is_vacant(p)) && !p->fixed &&
           p->in_place_until <= d->window.oldest && !j->range->reserved && !moves(d, j);
}

bool filer_next(const struct pager *d, addr_t *at, addr_t end, struct job *j, filer_asks *is) {
    const struct spans *all = &d->memory.ranges;
    j->range = NULL;
    for (size_t i = spans_behind(all, *at); i < all->count && all->at[i].start < end; i++)
        for (addr_t p = larger(*at, all->at[i].start); p < all->at[i].end; p += page_bytes) {
            struct vmm_range *r = j->range;
            if (!r || p < r->start || p >= r->start + r->bytes)
                r = j->range = vmm_range_find(vmm_in(d), p);
            j->page = r ? (p - r->start) / page_bytes : 0;
            *at = p + page_bytes;
            if (r && is(d, j))
                return true;
        }
    return false;
}

/* On the device, with a copy on the host that saves the next copy. */
static bool has_copy(const struct pager *d, const struct job *j) {
    const struct vmm_page *p = &j->range->page[j->page];
    return vmm_page_at(p) == VMM_DEVICE && p->frame[VMM_HOST] != NO_FRAME && !moves(d, j);
}

static bool begin(struct pager *d, struct job *j) {
    j->move = pager_move_other(d, j->range->start + j->page * page_bytes);
    return j->move > 0;
}

/* Nothing that runs uses pages on the host but those that it is known to use. */
static bool is_still(const struct pager *d) {
    bool known = vmm_in(d)->beyond_host && vmm_goes_stale(d);
    return pager_moves(d) && !pager_opaque_runs(d) && (known || d->window.oldest == d->window.next);
}

/* No more goes. Under the lock. */
static void end_writing(const struct pager *d, struct filer *f, const char *why) {
    struct job j;
    addr_t at = 0;
    if (f->writing == 0 && !f->whole && filer_next(d, &at, UINT64_MAX, &j, may_go))
        vmm_file_fails(vmm_in(d), false, why);
    f->whole = f->writing == 0;
}

static bool take_to_write(struct pager *d, struct filer *f, struct job *j) {
    if (!f->fills || f->whole || f->recall < f->end)
        return false;
    if (!pager_moves(d)) /* nothing is away, or it is for good */
        end_writing(d, f, "nothing of the program moves any more");
    if (!is_still(d))
        return false;
    if (filer_next(d, &f->next, UINT64_MAX, j, may_go))
        return begin(d, j);
    f->whole = f->writing == 0;
    f->next = 0;
    return false;
}

static bool take_to_read(struct pager *d, struct filer *f, struct job *j) {
    if (f->recall >= f->end || pager_forgets())
        return false;
    if (filer_next(d, &f->recall, f->end, j, may_return))
        return begin(d, j);
    f->recall = f->end = 0;
    return false;
}

/* --- what is done with it --- */

static bool unmap_page(struct vmm *v, const struct job *j) {
    bool unmapped = false;
    for (int i = 0; i < TRIES && !unmapped; i++)
        unmapped = vmm_range_unmap(v, j->range, j->page, 1, VMM_UNMAPPED);
    return unmapped;
}

static bool write_page(struct vmm *v, const struct job *j, CUstream stream, bool *written) {
    struct vmm_page *p = &j->range->page[j->page];
    uint32_t slot = vmm_file_take(v);
    *written = slot != NO_SLOT && vmm_file_write(v, slot, vmm_page_alias(v, p, VMM_HOST), stream);
    if (*written && (vmm_page_at(p) == VMM_PLACEHOLDER || unmap_page(v, j))) {
        vmm_page_file(v, p, slot);
        vmm_page_drop(v, p, VMM_HOST);
        vmm_hold_places(v, j->range, j->page, 1);
        return true;
    }
    if (*written)
        vmm_file_fails(v, false, "the driver refuses to unmap");
    if (slot != NO_SLOT)
        page_file_give(v->file, slot);
    return false;
}

static bool read_page(struct vmm *v, const struct job *j, CUstream stream, bool *room) {
    struct vmm_page *p = &j->range->page[j->page];
    uint32_t frame;
    *room = frames_take(&v->pool[VMM_HOST].frames, &frame, 1, false);
    if (!*room)
        return false;
    if (!vmm_file_read(v, p->slot, vmm_alias(&v->pool[VMM_HOST], frame), stream) || !unmap_page(v, j)) {
        ulms_frames_give(&v->pool[VMM_HOST].frames, &frame, 1);
        return false;
    }
    p->frame[VMM_HOST] = frame;
    p->filled = true;
    vmm_page_file(v, p, NO_SLOT);
    vmm_range_map(v, j->range, j->page, 1, VMM_HOST);
    return true;
}

void filer_keep(const struct job *j, uint64_t until) {
    struct vmm_page *p = &j->range->page[j->page];
    p->in_place_until = larger(p->in_place_until, until);
}

/* Under the lock, which is released meanwhile. */
static bool write(struct pager *d, struct filer *f, const struct job *j, CUstream stream) {
    bool written, trims = f->fills;
    f->writing++;
    pager_unlock(d);
    bool good = write_page(vmm_in(d), j, stream, &written);
    if (good && trims)
        frames_trim(&vmm_in(d)->pool[VMM_HOST].frames, 0);
    pager_lock(d);
    f->writing--;
    f->whole = f->whole || !written;
    if (written && !good)
        filer_keep(j, d->window.next + 1);
    pager_move_done(d, j->move, good);
    return good;
}

/* Another page leaves the host, or its copy. False: none can. Likewise. */
static bool make_room(struct pager *d, struct filer *f, CUstream stream) {
    struct job j;
    addr_t at = 0;
    if (filer_next(d, &at, UINT64_MAX, &j, has_copy)) {
        vmm_page_drop(vmm_in(d), &j.range->page[j.page], VMM_HOST);
        return true;
    }
    at = 0;
    return is_still(d) && filer_next(d, &at, UINT64_MAX, &j, may_go) && begin(d, &j) && write(d, f, &j, stream);
}

static bool mover_moves(const struct pager *d) {
    const struct pager_move *m = d->moves.under_way;
    while (m && !m->m.kind)
        m = m->next;
    return m != NULL;
}

/* Pages leave the host just now, or have since that was `given`, or will as soon as somebody else is through who keeps
 * them from it. */
static bool room_may_come(const struct pager *d, const struct filer *f, uint64_t given) {
    if (f->writing > 0 || mover_moves(d) || frames_may_come(&vmm_in(d)->pool[VMM_HOST].frames, given))
        return true;
    return f->pausing == 0 && (pager_opaque_runs(d) || d->window.oldest + 1 < d->window.next);
}

/* Likewise. False: there is no room for it yet. */
static bool read(struct pager *d, struct filer *f, const struct job *j, CUstream stream) {
    bool good, room;
    uint64_t given;
    f->reading++;
    do {
        given = frames_given(&vmm_in(d)->pool[VMM_HOST].frames);
        pager_unlock(d);
        good = read_page(vmm_in(d), j, stream, &room);
        pager_lock(d);
    } while (!room && make_room(d, f, stream));
    f->reading--;
    bool over = room || !room_may_come(d, f, given);
    if (!room && over)
        log_warn(
            "device %d: what lies in the file is to be used on the host, which has no room for it: that is refused "
            "as out of memory (ULMS_MANAGED_LIMIT, ULMS_HIDDEN=known)",
            d->ordinal);
    f->recalled += good;
    f->failed += !good && over;
    pager_move_done(d, j->move, good);
    return over;
}

/* NULL: nothing can be copied now. */
static CUstream sit(struct seat *s, CUcontext context, uint64_t epoch) {
    if (s->context == context && s->epoch == epoch && s->stream)
        return s->stream;
    bool in = context && REAL(cuCtxSetCurrent, 0)(context) == CUDA_SUCCESS;
    *s = (struct seat){context, epoch, in ? pager_stream_new() : NULL};
    return s->stream;
}

/* Trap: the driver may wait for all that runs before it unpins memory, and what runs for what the program does next.
 * All of it is away, and no other device is used. */
static bool may_wait(const struct pager *d, const struct filer *f) {
    return f->fills && f->whole && f->writing == 0 && pager_next(NULL) == d && !pager_next(d);
}

static void *work(void *data) {
    struct pager *d = data;
    struct seat seat = {0};
    pager_lock(d);
    struct filer *f = vmm_in(d)->filer;
    while (!pager_stops(d)) {
        struct job j;
        bool works = f->recall < f->end || (f->fills && !f->whole);
        bool unused = may_wait(d, f) && vmm_stages_unused(), wanted = works || unused;
        CUcontext context = wanted && !pager_forgets() ? pager_context(d) : NULL;
        uint64_t epoch = d->contexts.epoch;
        CUstream stream = NULL;
        if (f->fills && works && !context && !pager_forgets())
            end_writing(d, f, "its context is gone");
        if (context) {
            pager_unlock(d);
            stream = sit(&seat, context, epoch);
            pager_lock(d);
        }
        bool same = stream && context == pager_context(d) && epoch == d->contexts.epoch;
        bool acts = false;
        if (same && take_to_read(d, f, &j)) {
            acts = read(d, f, &j, stream);
        } else if (same && take_to_write(d, f, &j)) {
            write(d, f, &j, stream);
            acts = true;
        } else if (same && unused) {
            pager_unlock(d);
            vmm_stages_end();
            pager_lock(d);
        }
        if (acts)
            pager_wake(d);
        else
            condition_wait(&f->work, &d->monitor.lock, clock_ns() + (wanted ? LOOK_NS : IDLE_NS));
    }
    pager_unlock(d);
    return NULL;
}

/* --- their life --- */

struct filer *filer_of(struct pager *d) {
    struct filer *f = vmm_in(d)->filer;
    if (f || !(f = calloc(1, sizeof *f)))
        return f;
    pager_lock(d);
    vmm_in(d)->filer = f;
    pager_unlock(d);
    session_stops_first();
    for (int i = 0; i < FILERS; i++) {
        const char *why = pager_worker_start(&f->worker[i], "ulms-file", work, d);
        f->idle = i == 0 || !why ? why : f->idle;
    }
    return f;
}

void vmm_filers_stop(void) {
    uint64_t until = clock_ns() + PAGER_MOVED_NS;
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d)) {
        pager_lock(d);
        struct filer *f = vmm_in(d) ? vmm_in(d)->filer : NULL;
        if (f)
            condition_tell_all(&f->work);
        pager_unlock(d);
        for (int i = 0; f && i < FILERS; i++)
            pager_worker_join(&f->worker[i], until);
    }
}
