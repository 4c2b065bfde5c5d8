/* Memory that is brought to the device for a thread of the program. That thread only waits, as long as patience lasts:
 * the driver may keep the prefetch until the program has done what comes next. */
#include <stdlib.h>

#include "backend/um/um.h"
#include "driver/session.h"
#include "observe/stats.h"

/* In the queue, or the placer's; of the waiting thread as long as `waited_for`. Under the lock. */
struct um_request {
    addr_t start;
    uint64_t bytes;
    CUcontext context; /* of the thread that asks */
    bool unkeep, done, waited_for;
    struct um_request *next;
};

/* A device's. Under the lock. */
struct um_placer {
    struct condition asked;
    struct um_request *first; /* by the thread: it, then what waits for it */
    struct um_place {
        CUcontext context; /* NULL: none */
        CUstream stream;
    } places[PAGER_CONTEXTS];
    bool serves;
    struct pager_worker worker;
};

/* Where the placer keeps its stream of the context. NULL: there is none. Under the lock. */
static struct um_place *place_of(struct um_placer *p, CUcontext context) {
    for (int i = 0; i < PAGER_CONTEXTS; i++)
        if (p->places[i].context == context)
            return &p->places[i];
    return NULL;
}

/* In the context, which is current. *kept: it serves again. */
static CUstream stream_of(struct pager *d, CUcontext context, bool *kept) {
    pager_lock(d);
    struct um_place *p = place_of(d->own, context);
    CUstream stream = p ? p->stream : NULL;
    pager_unlock(d);
    *kept = stream != NULL;
    if (stream || !(stream = pager_stream_new()))
        return stream;
    pager_lock(d);
    p = place_of(d->own, NULL);
    if (p)
        *p = (struct um_place){context, stream};
    pager_unlock(d);
    *kept = p != NULL;
    return stream;
}

/* Without the lock. */
static bool bring(struct pager *d, const struct um_request *r) {
    bool kept = false, current = REAL(cuCtxSetCurrent, 0)(r->context) == CUDA_SUCCESS;
    CUstream stream = current ? stream_of(d, r->context, &kept) : NULL;
    if (stream && r->unkeep)
        um_advise_mostly_read(r->start, r->bytes, d->ordinal, false);
    bool there = stream && um_prefetch(r->start, r->bytes, d->ordinal, stream) && pager_stream_finish(stream);
    if (stream && !kept)
        REAL(cuStreamDestroy_v2, 0)(stream);
    return there;
}

/* The memory may be gone by now. Under the lock. */
static void tell(struct pager *d, const struct um_request *r, bool there) {
    if (!there || r->unkeep || !pager_range_at(&d->memory.ranges, r->start))
        return;
    stats_add(COUNT_placed_bytes, r->bytes);
    ulms_engine_placed(d->engine.core, r->start, r->bytes);
}

static bool bring_unlocked(struct pager *d, const struct um_request *r) {
    pager_unlock(d);
    bool there = bring(d, r);
    pager_lock(d);
    return there;
}

/* Where pages move already nothing is placed. Trap: a page that left while the driver brought it is there again, though
 * the engine does not know; moves that are under way are given up, so that it takes such pages for resident. Under the
 * lock. */
static bool place(struct pager *d, const struct um_request *r) {
    bool there = pager_all_fits(d) && bring_unlocked(d, r);
    if (there)
        pager_moves_abandon(d, r->start, r->bytes);
    return there;
}

uint64_t um_still_comes(const struct pager *d) {
    const struct um_placer *p = d->own;
    const struct um_request *r = p ? p->first : NULL;
    return r && !r->unkeep && !pager_all_fits(d) ? r->bytes : 0;
}

static void *serve(void *data) {
    struct pager *d = data;
    struct um_placer *p = d->own;
    pager_lock(d);
    while (!pager_stops(d)) {
        struct um_request *r = p->first;
        if (!r) {
            pager_worker_sleep(d, &p->asked);
            continue;
        }
        tell(d, r, r->unkeep ? bring_unlocked(d, r) : place(d, r));
        p->first = r->next;
        r->done = true;
        if (!r->waited_for)
            free(r);
        pager_wake(d);
    }
    pager_unlock(d);
    return NULL;
}

/* Tried once. Under the lock. */
static bool start(struct pager *d) {
    struct um_placer *p = d->own;
    if (!p && !pager_stops(d) && (p = calloc(1, sizeof *p))) {
        d->own = p;
        session_stops_first();
        p->serves = !pager_worker_start(&p->worker, "ulms-place", serve, d);
    }
    return p && p->serves && !pager_stops(d);
}

static void append(struct um_placer *p, struct um_request *r) {
    struct um_request **at = &p->first;
    while (*at)
        at = &(*at)->next;
    *at = r;
    condition_tell_one(&p->asked);
}

void um_place(struct pager *d, addr_t start_at, uint64_t bytes, struct um_placing how) {
    struct um_request *r = malloc(sizeof *r);
    struct patience patience = {0};
    if (!r)
        return;
    *r = (struct um_request){
        .start = start_at, .bytes = bytes, .context = pager_current(), .unkeep = how.unkeep, .waited_for = true};
    pager_lock(d);
    bool served = r->context && start(d);
    if (served)
        append(d->own, r);
    bool waits = served && how.waits && !patience_gated() && !pager_gates_unseen();
    while (waits && !r->done && !pager_stops(d) && pager_wait(d, &patience))
        ;
    r->waited_for = false;
    if (!served || r->done)
        free(r);
    pager_unlock(d);
}

static bool places_in(const struct um_placer *p, CUcontext context) {
    const struct um_request *r = p->first;
    while (r && r->context != context)
        r = r->next;
    return r != NULL;
}

void um_placer_leave(struct pager *d, CUcontext going) {
    struct patience need = {.what = PATIENCE_NEED};
    struct um_placer *p = d->own;
    while (p && places_in(p, going) && !pager_stops(d) && pager_wait(d, &need))
        ;
    struct um_place *place = p ? place_of(p, going) : NULL;
    if (place)
        place->context = NULL;
}

void um_placer_stop(struct pager *d, uint64_t until_ns) {
    pager_lock(d);
    struct um_placer *p = d->own;
    if (p)
        condition_tell_all(&p->asked);
    pager_unlock(d);
    if (p)
        pager_worker_join(&p->worker, until_ns);
}
