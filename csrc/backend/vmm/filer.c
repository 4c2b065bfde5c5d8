/* Threads that bring pages from the host to the file, while nothing uses them there, and back, where they are to be
 * used on the host. (What leaves the device for the file, or comes from it, a mover brings.) While one has a page that
 * counts as a move. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/vmm/extent.h"
#include "backend/vmm/memory.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/session.h"

enum { FILERS = 3, LOOK_NS = 10000000 };

/* Under the device's lock, but for its threads. */
struct filer {
    struct pager_worker worker[FILERS];
    struct condition work;
    bool fills;                /* pages go to the file: */
    addr_t next;               /* from there on they were not looked at yet */
    bool whole;                /* no more does */
    unsigned writing;          /* pages that go just now */
    addr_t recall, end;        /* what of these addresses lies in the file is to come to the host */
    uint64_t recalled, failed; /* pages that did, and did not */
};

/* A page that a thread of these has. */
struct job {
    struct vmm_range *range;
    size_t page;
    uint64_t move;
};

struct seat {
    CUcontext context;
    uint64_t epoch;
    CUstream stream;
};

/* --- what is next. Under the lock --- */

static bool is_filed(const struct pager *d, const struct job *j) {
    (void)d;
    return vmm_page_is_filed(&j->range->page[j->page]);
}

static bool moves(const struct pager *d, const struct job *j) {
    return pager_moves_any(d, j->range->start + j->page * page_bytes, page_bytes);
}

static bool may_return(const struct pager *d, const struct job *j) {
    return is_filed(d, j) && !moves(d, j);
}

static bool may_go(const struct pager *d, const struct job *j) {
    const struct vmm_page *p = &j->range->page[j->page];
    uint8_t at = vmm_page_at(p);
    return (at == VMM_HOST || at == VMM_STALE) && !p->fixed && p->in_place_until <= d->window.oldest &&
           !j->range->reserved && !moves(d, j);
}

/* The first page of [*at, end) that is so; moves *at behind it. */
static bool next_page(const struct pager *d, addr_t *at, addr_t end, struct job *j,
                      bool (*is)(const struct pager *, const struct job *)) {
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

static bool begin(struct pager *d, struct job *j) {
    j->move = pager_move_other(d, j->range->start + j->page * page_bytes);
    return j->move > 0;
}

/* Nothing that runs uses pages on the host but those that it is known to use. */
static bool is_still(const struct pager *d) {
    bool known = vmm_in(d)->beyond_host && vmm_goes_stale(d);
    return pager_moves(d) && !pager_opaque_runs(d) && (known || d->window.oldest == d->window.next);
}

static bool take_to_write(struct pager *d, struct filer *f, struct job *j) {
    if (!f->fills || f->whole || f->recall < f->end)
        return false;
    f->whole = !pager_moves(d) && f->writing == 0; /* nothing is away */
    if (!is_still(d))
        return false;
    if (next_page(d, &f->next, UINT64_MAX, j, may_go))
        return begin(d, j);
    f->whole = f->writing == 0;
    f->next = 0;
    return false;
}

static bool take_to_read(struct pager *d, struct filer *f, struct job *j) {
    if (f->recall >= f->end || pager_forgets())
        return false;
    if (next_page(d, &f->recall, f->end, j, may_return))
        return begin(d, j);
    f->recall = f->end = 0;
    return false;
}

/* --- what is done with it --- */

static bool write_page(struct vmm *v, const struct job *j, CUstream stream, bool *written) {
    struct vmm_page *p = &j->range->page[j->page];
    uint32_t slot = vmm_file_take(v);
    *written = slot != NO_SLOT && vmm_file_write(v, slot, vmm_page_alias(v, p, VMM_HOST), stream);
    if (*written && vmm_range_unmap(v, j->range, j->page, 1, VMM_UNMAPPED)) {
        vmm_page_file(v, p, slot);
        vmm_page_drop(v, p, VMM_HOST);
        vmm_hold_places(v, j->range, j->page, 1);
        return true;
    }
    if (slot != NO_SLOT)
        page_file_give(&v->file, slot);
    return false;
}

static bool read_page(struct vmm *v, const struct job *j, CUstream stream, bool *room) {
    struct vmm_page *p = &j->range->page[j->page];
    uint32_t frame;
    *room = frames_take(&v->pool[VMM_HOST].frames, &frame, 1, false);
    if (!*room)
        return false;
    if (!vmm_file_read(v, p->slot, vmm_alias(&v->pool[VMM_HOST], frame), stream) ||
        !vmm_range_unmap(v, j->range, j->page, 1, VMM_UNMAPPED)) {
        ulms_frames_give(&v->pool[VMM_HOST].frames, &frame, 1);
        return false;
    }
    p->frame[VMM_HOST] = frame;
    p->filled = true;
    vmm_page_file(v, p, NO_SLOT);
    vmm_range_map(v, j->range, j->page, 1, VMM_HOST);
    return true;
}

/* On the host, until the next operation has retired. Under the lock. */
static void keep(const struct pager *d, const struct job *j) {
    j->range->page[j->page].in_place_until = d->window.next + 1;
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
        keep(d, j);
    pager_move_done(d, j->move, good);
    return good;
}

/* Another page leaves the host. False: none can. Likewise. */
static bool make_room(struct pager *d, struct filer *f, CUstream stream) {
    struct job j;
    addr_t at = 0;
    return is_still(d) && next_page(d, &at, UINT64_MAX, &j, may_go) && begin(d, &j) && write(d, f, &j, stream);
}

/* Other operations use the host, and will not for long. */
static bool more_may_go(const struct pager *d) {
    return !pager_opaque_runs(d) && d->window.oldest + 1 < d->window.next;
}

/* Likewise. False: there is no room for it yet. */
static bool read(struct pager *d, struct filer *f, const struct job *j, CUstream stream) {
    bool good, room;
    do {
        pager_unlock(d);
        good = read_page(vmm_in(d), j, stream, &room);
        pager_lock(d);
    } while (!room && make_room(d, f, stream));
    bool over = room || !more_may_go(d);
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

static void *work(void *data) {
    struct pager *d = data;
    struct seat seat = {0};
    pager_lock(d);
    struct filer *f = vmm_in(d)->filer;
    while (!pager_stops(d)) {
        struct job j;
        bool wanted = f->recall < f->end || (f->fills && !f->whole);
        CUcontext context = wanted && !pager_forgets() ? pager_context(d) : NULL;
        uint64_t epoch = d->contexts.epoch;
        CUstream stream = NULL;
        if (wanted && !context && !pager_forgets())
            f->whole = f->writing == 0; /* nothing can be copied */
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
        }
        if (acts)
            pager_wake(d);
        else
            condition_wait(&f->work, &d->monitor.lock, wanted ? clock_ns() + LOOK_NS : 0);
    }
    pager_unlock(d);
    return NULL;
}

/* --- who asks --- */

bool vmm_may_file(const struct pager *d) {
    const struct vmm *v = vmm_in(d);
    const struct filer *f = v ? v->filer : NULL;
    return f && (v->beyond_host || f->fills || f->writing > 0 || page_file_pages(&v->file) > 0);
}

bool vmm_any_filed(const struct pager *d, addr_t start, addr_t end) {
    struct job j;
    return page_file_pages(&vmm_in(d)->file) > 0 && next_page(d, &start, end, &j, is_filed);
}

static bool is_away(const struct pager *d, const struct job *j) {
    (void)d;
    return vmm_page_at(&j->range->page[j->page]) != VMM_DEVICE;
}

/* Pages of [start, end). Under the lock. */
static void keep_all(const struct pager *d, addr_t start, addr_t end) {
    for (struct job j; next_page(d, &start, end, &j, is_away);)
        keep(d, &j);
}

static void keep_none(const struct pager *d) {
    addr_t at = 0;
    for (struct job j; next_page(d, &at, UINT64_MAX, &j, is_away);)
        j.range->page[j.page].in_place_until = 0;
}

bool vmm_recall(struct pager *d, addr_t start, addr_t end) {
    struct filer *f = vmm_in(d) ? vmm_in(d)->filer : NULL;
    struct patience patience = {.what = PATIENCE_NEED};
    uint64_t failed = f ? f->failed : 0, recalled = f ? f->recalled : 0;
    if (f)
        keep_all(d, start, end);
    while (f && (f->writing > 0 || vmm_any_filed(d, start, end))) {
        if (pager_stops(d) || f->failed != failed)
            return false;
        bool asked = f->recall < f->end;
        f->recall = asked ? smaller(f->recall, start) : start;
        f->end = larger(f->end, end);
        condition_tell_all(&f->work);
        if (!pager_wait(d, &patience)) {
            if (f->recalled == recalled)
                return false;
            recalled = f->recalled;
        }
    }
    return true;
}

/* The folder, or one in it, is what the program allows. */
static bool is_allowed(const char *folder) {
    char *most = *ulms_options.file_folder ? realpath(ulms_options.file_folder, NULL) : NULL;
    char *it = most ? realpath(folder, NULL) : NULL;
    size_t n = most ? strlen(most) : 0;
    bool allowed = it && strncmp(it, most, n) == 0 && (n == 1 || !it[n] || it[n] == '/');
    if (!most || (it && !allowed))
        log_warn("host memory does not go to a file in %s: ULMS_FILE_DIR does not allow it", folder);
    else if (!it)
        log_warn("host memory does not go to a file in %s: %s", folder, strerror(errno));
    free(most);
    free(it);
    return allowed;
}

static struct filer *filer_new(struct pager *d) {
    struct filer *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    pager_lock(d);
    vmm_in(d)->filer = f;
    pager_unlock(d);
    session_stops_first();
    for (int i = 0; i < FILERS; i++)
        pager_worker_start(&f->worker[i], "ulms-file", work, d);
    return f;
}

/* On one thread. */
void vmm_file(struct pager *d, const char *folder) {
    struct vmm *v = vmm_in(d);
    struct filer *f = v ? v->filer : NULL;
    bool fills = v && folder && is_allowed(folder) && (f || (f = filer_new(d)));
    if (!f)
        return;
    if (fills && !page_file_begin(&v->file, folder, v->pool[VMM_HOST].frames.capacity)) {
        log_warn("host memory does not go to a file in %s: %s", folder, strerror(errno));
        fills = false;
    }
    pager_lock(d);
    if (fills)
        keep_none(d);
    f->fills = fills;
    f->whole = false;
    f->next = 0;
    condition_tell_all(&f->work);
    pager_unlock(d);
    if (!fills && !v->beyond_host)
        page_file_end(&v->file);
}

/* All of it is reserved now: what the disk has no room for is refused as out of memory when it is allocated. */
void vmm_file_beyond(struct pager *d) {
    struct vmm *v = vmm_in(d);
    uint32_t spare = d->engine.run_pages, slots = (uint32_t)(session.file_limit / page_bytes) + spare;
    bool begun = page_file_begin(&v->file, ulms_options.file_folder, v->pool[VMM_HOST].frames.capacity + slots);
    uint32_t have = begun ? page_file_reserve(&v->file, slots) : 0;
    if (have < slots) {
        session.file_limit = have > spare ? (have - spare) * page_bytes : 0;
        ledger_limit_managed(session.ledger, session.managed_limit + session.file_limit);
        log_warn("ULMS_FILE_LIMIT is %llu MiB: the disk of %s has room for no more (%s)",
                 (unsigned long long)(session.file_limit >> 20), ulms_options.file_folder, strerror(errno));
    }
    v->beyond_host = have > spare && filer_new(d) != NULL;
}

bool vmm_files(const struct pager *d) {
    return vmm_in(d) && vmm_in(d)->filer && vmm_in(d)->filer->fills;
}

bool vmm_insists(struct pager *d, const struct op *op) {
    bool any = vmm_in(d) && page_file_pages(&vmm_in(d)->file) > 0, filed = false;
    for (size_t i = 0, n = any ? vmm_touches(d, op) : 0; i < n && !filed; i++) {
        const struct ulms_engine_touch *t = &d->admission.touches[i];
        filed = vmm_any_filed(d, t->start, t->start + t->bytes);
    }
    return filed;
}

void vmm_load(const struct pager *d, struct backend_load *load) {
    const struct filer *f = vmm_in(d) ? vmm_in(d)->filer : NULL;
    if (!f)
        return;
    load->filed = (uint64_t)page_file_pages(&vmm_in(d)->file) * page_bytes;
    load->files = f->fills && (!f->whole || f->writing > 0);
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

void vmm_fork_child(void) {
    for (struct pager *d = pager_next(NULL); d; d = pager_next(d))
        if (vmm_in(d))
            page_file_fork_child(&vmm_in(d)->file);
}
