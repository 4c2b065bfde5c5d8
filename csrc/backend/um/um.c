/* Managed memory in the place of plain memory. */
#include "backend/um/um.h"

#include "backend/backend.h"
#include "backend/pager/call_scope.h"
#include "base/log.h"
#include "driver/session.h"

/* Where the CPU and the device may not use managed memory at the same time, the driver neither moves it on request nor
 * lets it exceed the device. */
static bool can_serve(int32_t device) {
    if (pager_device_has(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device))
        return true;
    log_warn("device %d has no concurrent access to managed memory: nothing is replaced there, as with "
             "ULMS_BACKEND=observe",
             device);
    return false;
}

static bool serves(int32_t device) {
    return pager_serves(device, can_serve);
}

static bool provide(addr_t *start, uint64_t bytes, int32_t device) {
    CUdeviceptr made = 0;
    (void)device;
    struct pager_visit v = pager_enter(NULL); /* another thread's capture stays what it is */
    bool done =
        capture_allows(v.relaxed) && REAL(cuMemAllocManaged, 0)(&made, bytes, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS;
    pager_leave(v);
    *start = made;
    return done;
}

/* What was freed in stream order, and is used again, has not left. */
static void arrived(addr_t start, uint64_t bytes, int32_t device) {
    pager_freeing(start, bytes);
    pager_arrived(start, bytes, device, 0);
}

/* The program's own managed memory lies where the program's use of it brings it. What is allocated in stream order is
 * not waited for, as the driver does not. */
static void place(struct pager *d, addr_t start, uint64_t bytes, bool fits) {
    struct allocation a;
    if (fits && ledger_find(session.ledger, start, &a) && a.kind != MEMORY_MANAGED)
        um_place(d, start, bytes, (struct um_placing){.waits = a.kind != MEMORY_ASYNC});
}

/* What lies on the host is used there from now on. Where that is refused kernels would bring it, unknown to the
 * engine: then it has not left. */
static bool leave_in_place(struct pager *d, const struct pager_move *m, CUstream stream) {
    bool ok = pager_stream_finish(stream);
    const struct pager_piece *end = m->piece + m->pieces;
    for (const struct pager_piece *p = m->piece; ok && p < end; p++)
        ok = um_advise_in_place(p->start, p->bytes, d->ordinal, true);
    for (const struct pager_piece *p = m->piece; !ok && p < end; p++)
        um_advise_in_place(p->start, p->bytes, d->ordinal, false);
    return ok;
}

static bool issue(struct pager *d, const struct pager_move *m, CUstream stream) {
    int32_t to = m->m.kind == ULMS_FILL ? d->ordinal : DEVICE_NONE;
    bool ok = true;
    for (const struct pager_piece *p = m->piece; p < m->piece + m->pieces; p++) {
        if (m->keep || m->unkeep)
            um_advise_mostly_read(p->start, p->bytes, d->ordinal, m->keep);
        if (m->recall)
            um_advise_in_place(p->start, p->bytes, d->ordinal, false);
        ok = (m->discard ? um_discard(p->start, p->bytes, stream) : um_prefetch(p->start, p->bytes, to, stream)) && ok;
    }
    return ok && (!m->in_place || leave_in_place(d, m, stream));
}

static uint64_t occupied(const struct pager *d) {
    struct ulms_engine_stats now = {0};
    if (d->engine.core)
        ulms_engine_stats(d->engine.core, &now);
    return now.resident_bytes;
}

/* The engine takes them for gone. */
static void load(const struct pager *d, struct backend_load *load) {
    load->held += um_still_comes(d);
}

/* Pages that the operation writes and that were advised to be mostly read. */
struct unkeep {
    struct pager_piece run[16];
    int count;
};

static void collect(struct pager_page *p, addr_t at, void *data) {
    struct unkeep *u = data;
    if (p->advice != ULMS_ADVICE_KEPT)
        return;
    struct pager_piece *last = u->count ? &u->run[u->count - 1] : NULL;
    if (last && last->start + last->bytes == at) {
        last->bytes += page_bytes;
    } else if (u->count < 16) {
        u->run[u->count++] = (struct pager_piece){at, page_bytes};
    } else {
        return; /* the write is right all the same, only slow */
    }
    p->advice = ULMS_ADVICE_WRITTEN;
}

static struct unkeep kept_and_written(struct pager *d, const struct op *op) {
    struct unkeep u = {.count = 0};
    for (uint32_t i = 0; i < op->count; i++)
        if (op->touches[i].mode != TOUCH_READ)
            pager_pages_visit(&d->memory.ranges, op->touches[i].start, op->touches[i].start + op->touches[i].bytes,
                              collect, &u);
    return u;
}

/* The driver may then have kept the host's copy: so it is brought again. */
static void prepare(struct pager *d, const struct op *op) {
    pager_lock(d);
    struct unkeep u = kept_and_written(d, op);
    pager_unlock(d);
    for (int i = 0; i < u.count; i++)
        um_place(d, u.run[i].start, u.run[i].bytes, (struct um_placing){.unkeep = true, .waits = true});
}

/* A fill takes its mover no longer than its call; what leaves does. */
static const struct pager_kind um_kind = {.managed = true,
                                          .fallback = "is left to the driver's own paging",
                                          .movers = {.in = 1, .out = 7},
                                          .ahead = 64 << 20,
                                          .runs = 1,
                                          .place = place,
                                          .placer_stops = um_placer_stop,
                                          .placer_leaves = um_placer_leave,
                                          .occupied = occupied,
                                          .load = load,
                                          .issue = issue,
                                          .fills_at_once = true,
                                          .discards = um_can_discard,
                                          .prepare = prepare,
                                          .touches = pager_touches};

const struct backend backend_um = {.name = "um",
                                   .kind = &um_kind,
                                   .admit = pager_admit,
                                   .settle = pager_settle,
                                   .returned = pager_returned,
                                   .fast_path = true,
                                   .serves = serves,
                                   .provide = provide,
                                   .arrived = arrived,
                                   .crowded = pager_crowded,
                                   .room = pager_room,
                                   .plain = pager_plain,
                                   .granted = pager_granted,
                                   .shares = &pager_shares,
                                   .coming = pager_coming,
                                   .freeing = pager_freeing,
                                   .free_deferred = pager_free_deferred,
                                   .block_before = pager_block_before,
                                   .block = pager_block,
                                   .forget = pager_forget,
                                   .forgotten = pager_forgotten,
                                   .jumped = pager_jumped,
                                   .abandon = pager_abandon,
                                   .stop = pager_stop};
