/* The calls that move managed memory, or say that it is dead. */
#include "capture.h"
#include "cost.h"
#include "managed.h"
#include "stream.h"

#include <stdlib.h>

/* A device's number or EMU_HOST; false: no such place. */
static bool place_of(const CUmemLocation *l, int *place) {
    switch (l->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *place = l->id;
        return device_valid(l->id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *place = EMU_HOST;
        return true;
    default:
        return false;
    }
}

static struct device *device_at(int place) {
    return place == EMU_HOST ? NULL : &devices[place];
}

/* --- execution --- */

struct step {
    const struct range *range;
    int place;
    bool discard, moves;
    struct emu_launch *r;
    uint64_t absent, present; /* bytes, when asked */
    int areas;
};

static bool move_area(struct area *a, uint64_t start, uint64_t end, void *data) {
    struct step *s = data;
    if (a->kind != AREA_MANAGED)
        return true; /* freed, and something else there, since it was checked */
    if (s->discard)
        managed_discard(a, start, end);
    if (s->moves)
        managed_move(a, start, end, device_at(s->place), s->r);
    return true;
}

/* Its bytes have still to cross the link. */
static void pay(const struct move *m, struct emu_launch *r) {
    r->to_host = m->to_host;
    r->prefetch_bytes = m->prefetch_bytes;
    r->evict_bytes = m->evict_bytes;
}

void move_run(const struct move *m, struct emu_launch *r) {
    if (m->ran) {
        pay(m, r);
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        int place = m->places ? m->places[i] : EMU_HOST;
        struct step s = {.range = &m->ranges[i], .place = place, .discard = m->discard, .moves = m->places, .r = r};
        r->to_host = place == EMU_HOST;
        area_visit(m->ranges[i].start, m->ranges[i].bytes, NULL, move_area, &s);
    }
}

/* --- issue --- */

static bool count_area(struct area *a, uint64_t start, uint64_t end, void *data) {
    struct step *s = data;
    if (a->kind != AREA_MANAGED || s->areas++ > 0) /* a call takes no range over two allocations */
        return false;
    if (s->moves) {
        uint64_t absent = managed_absent(a, start, end, device_at(s->place));
        s->absent += absent;
        s->present += end - start > absent ? end - start - absent : 0;
    }
    return true;
}

static double call_ns(const struct step *s) {
    if (s->discard)
        return (double)s->range->bytes * rate(s->moves ? RATE_DISCARD_AND_PREFETCH : RATE_DISCARD);
    double in = s->place == EMU_HOST ? rate(RATE_PREFETCH_OUT) : rate(RATE_PREFETCH_IN);
    return rate(RATE_PREFETCH_RESIDENT_CALL) + (double)s->present * rate(RATE_PREFETCH_RESIDENT) +
           (s->absent ? rate(RATE_PREFETCH_CALL) + (double)s->absent * in : 0);
}

/* A stream that is not idle gets to it when its time has come. */
static void run_now(CUstream s, struct move *m) {
    struct emu_launch r = {.context = s->context, .stream = s, .device = s->context->device, .clock = cost_now()};
    move_run(m, &r);
    m->ran = true;
    m->to_host = r.to_host;
    m->prefetch_bytes = r.prefetch_bytes;
    m->evict_bytes = r.evict_bytes;
}

/* Takes over ranges and places. */
static CUresult issue(CUstream s, struct move m) {
    double cost = 0;
    bool good = m.ranges && m.count > 0;
    for (size_t i = 0; good && i < m.count; i++) {
        struct step step = {
            .range = &m.ranges[i], .place = m.places ? m.places[i] : EMU_HOST, .discard = m.discard, .moves = m.places};
        bool covered = false;
        good = m.ranges[i].bytes > 0 && area_visit(m.ranges[i].start, m.ranges[i].bytes, &covered, count_area, &step) &&
               covered;
        cost += call_ns(&step);
    }
    struct work w = {.kind = WORK_MOVE, .move = m};
    if (!good) {
        work_release(&w);
        return CUDA_ERROR_INVALID_VALUE;
    }
    /* Its page work is the calling thread's; the bytes move meanwhile. */
    pthread_mutex_lock(&managed_gate);
    if (stream_idle(s) && !capture_is_on(s))
        run_now(s, &w.move);
    CUresult result = stream_issue(s, &w);
    pthread_mutex_unlock(&managed_gate);
    cost_call(cost);
    return result;
}

static CUresult prefetch(CUstream s, CUdeviceptr start, size_t bytes, int place) {
    struct move m = {.count = 1, .ranges = malloc(sizeof *m.ranges), .places = malloc(sizeof *m.places)};
    if (!m.ranges || !m.places) {
        free(m.ranges);
        free(m.places);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m.ranges = (struct range){start, bytes};
    *m.places = place;
    return issue(s, m);
}

CALL_ON(cuMemPrefetchAsync, CUdeviceptr start, size_t bytes, CUdevice device, CUstream stream) {
    if (device != CU_DEVICE_CPU && !device_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(s, start, bytes, device == CU_DEVICE_CPU ? EMU_HOST : device);
}

CALL_ON(cuMemPrefetchAsync_v2, CUdeviceptr start, size_t bytes, CUmemLocation location, unsigned flags,
        CUstream stream) {
    int place;
    INVALID_IF(flags);
    if (!place_of(&location, &place))
        return CUDA_ERROR_INVALID_DEVICE;
    return prefetch(s, start, bytes, place);
}

/* The location of range i: of the last index that is not behind it. */
static bool places_of(struct move *m, const CUmemLocation *locations, const size_t *starts, size_t n) {
    if (!locations || !starts || n == 0 || n > m->count || starts[0] != 0)
        return false;
    m->places = calloc(m->count, sizeof *m->places);
    bool good = m->places != NULL;
    for (size_t i = 0, k = 0; good && i < m->count; i++) {
        while (k + 1 < n && starts[k + 1] <= i)
            k++;
        good = place_of(&locations[k], &m->places[i]);
    }
    return good;
}

static CUresult batch(CUstream s, const CUdeviceptr *starts, const size_t *bytes, size_t n,
                      const CUmemLocation *locations, const size_t *location_starts, size_t location_count,
                      unsigned long long flags, bool moves, bool discard) {
    INVALID_IF(!starts || !bytes || n == 0 || flags);
    struct move m = {.count = n, .ranges = calloc(n, sizeof *m.ranges), .discard = discard};
    for (size_t i = 0; m.ranges && i < n; i++)
        m.ranges[i] = (struct range){starts[i], bytes[i]};
    if (moves && (!m.ranges || !places_of(&m, locations, location_starts, location_count))) {
        free(m.ranges);
        free(m.places);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return issue(s, m);
}

CALL_ON(cuMemPrefetchBatchAsync, CUdeviceptr *starts, size_t *bytes, size_t n, CUmemLocation *locations,
        size_t *location_starts, size_t location_count, unsigned long long flags, CUstream stream) {
    return batch(s, starts, bytes, n, locations, location_starts, location_count, flags, true, false);
}

CALL_ON(cuMemDiscardBatchAsync, CUdeviceptr *starts, size_t *bytes, size_t n, unsigned long long flags,
        CUstream stream) {
    return batch(s, starts, bytes, n, NULL, NULL, 0, flags, false, true);
}

CALL_ON(cuMemDiscardAndPrefetchBatchAsync, CUdeviceptr *starts, size_t *bytes, size_t n, CUmemLocation *locations,
        size_t *location_starts, size_t location_count, unsigned long long flags, CUstream stream) {
    return batch(s, starts, bytes, n, locations, location_starts, location_count, flags, true, true);
}
