/* What keeps works that share a block apart: streams, events, and waiting on the host. */
#include "random_program.h"

#include <sched.h>

static void merge(struct clocks *to, const struct clocks *from) {
    for (int t = 0; t < STREAMS; t++)
        if (from->of[t] > to->of[t])
            to->of[t] = from->of[t];
}

static bool blocks_with_legacy(int s) {
    return s == PER_THREAD || s == BLOCKING;
}

/* All that what comes next into s follows. */
static struct clocks before(const struct actor *a, int s) {
    struct clocks c = a->knows[s];
    merge(&c, &a->host);
    c.of[s] = a->clock[s];
    return c;
}

/* The rule of the legacy stream, for the work that comes next into s. */
static void order_with_legacy(struct actor *a, int s) {
    for (int t = 0; t < STREAMS; t++) {
        if ((s == LEGACY && blocks_with_legacy(t)) || (t == LEGACY && blocks_with_legacy(s))) {
            struct clocks c = before(a, t);
            merge(&a->knows[s], &c);
        }
    }
}

static int record(struct actor *a, int s) {
    int e = (int)(a->next_event++ % EVENTS);
    a->event[e].knows = before(a, s);
    if (one_in(a, 4))
        CU(cuEventRecordWithFlags, a->event[e].handle, a->stream[s], 0);
    else
        CU(cuEventRecord, a->event[e].handle, a->stream[s]);
    return e;
}

void stream_follow(struct actor *a, int s, int other) {
    int e = record(a, other);
    CU(cuStreamWaitEvent, a->stream[s], a->event[e].handle, 0);
    merge(&a->knows[s], &a->event[e].knows);
}

static void poll_until(CUresult result, const char *name) {
    if (result != CUDA_ERROR_NOT_READY)
        driver_check(result, name, __FILE__, __LINE__);
    sched_yield();
}

void host_wait_stream(struct actor *a, int s, uint32_t form) {
    CUresult result;
    struct clocks done = before(a, s);
    int e = form % 5 < 2 ? record(a, s) : 0;
    switch (form % 5) {
    case 0:
        CU(cuEventSynchronize, a->event[e].handle);
        break;
    case 1:
        while ((result = POLL(cuEventQuery, a->event[e].handle)) != CUDA_SUCCESS)
            poll_until(result, "cuEventQuery");
        break;
    case 2:
        while ((result = POLL(cuStreamQuery, a->stream[s])) != CUDA_SUCCESS)
            poll_until(result, "cuStreamQuery");
        break;
    case 3:
        if (s == PER_THREAD) {
            CU(cuStreamSynchronize_ptsz, NULL);
            break;
        }
        /* fall through */
    default:
        CU(cuStreamSynchronize, a->stream[s]);
    }
    merge(&a->host, &done);
}

/* Nobody may wait for a whole context in which another actor captures. */
void host_wait_all(struct actor *a) {
    if (a->actors == 1)
        CU(cuCtxSynchronize);
    for (int s = 0; s < STREAMS && a->actors > 1; s++)
        CU(cuStreamSynchronize, a->stream[s]);
    for (int s = 0; s < STREAMS; s++)
        a->host.of[s] = a->clock[s];
}

void host_wait_uses(struct actor *a, const struct block *b, bool writers_only) {
    const struct clocks *needs = writers_only ? &b->wrote : &b->used;
    for (int t = 0; t < STREAMS; t++)
        if (needs->of[t] > a->host.of[t])
            host_wait_stream(a, t, (uint32_t)random_below(a, 5));
}

static void follow(struct actor *a, int s, int other) {
    if (a->no_waiting || !one_in(a, 4))
        stream_follow(a, s, other);
    else
        host_wait_stream(a, other, (uint32_t)random_below(a, 5));
}

void order_before(struct actor *a, int s, const struct use *use, int uses) {
    if (a->capturing)
        return;
    order_with_legacy(a, s);
    for (int i = 0; i < uses; i++) {
        const struct clocks *needs = use[i].writes ? &use[i].block->used : &use[i].block->wrote;
        for (int t = 0; t < STREAMS; t++)
            if (needs->of[t] > before(a, s).of[t])
                follow(a, s, t);
    }
}

void order_after(struct actor *a, int s, const struct use *use, int uses) {
    if (a->capturing)
        return;
    a->clock[s]++;
    for (int i = 0; i < uses; i++) {
        use[i].block->used.of[s] = a->clock[s];
        if (use[i].writes)
            use[i].block->wrote.of[s] = a->clock[s];
    }
}

void order_inherit(struct block *b, const struct block *other) {
    merge(&b->wrote, &other->used);
    merge(&b->used, &other->used);
}

/* --- life --- */

static void stream_make(struct actor *a, int s) {
    unsigned flags = s == BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    if (one_in(a, 3))
        CU(cuStreamCreateWithPriority, &a->stream[s], flags, 0);
    else
        CU(cuStreamCreate, &a->stream[s], flags);
}

void streams_make(struct actor *a) {
    a->stream[LEGACY] = one_in(a, 2) ? NULL : CU_STREAM_LEGACY;
    a->stream[PER_THREAD] = CU_STREAM_PER_THREAD;
    for (int s = BLOCKING; s < STREAMS; s++)
        stream_make(a, s);
    for (int e = 0; e < EVENTS; e++)
        CU(cuEventCreate, &a->event[e].handle, one_in(a, 3) ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
}

void streams_unmake(struct actor *a) {
    for (int s = BLOCKING; s < STREAMS; s++)
        CU(cuStreamDestroy_v2, a->stream[s]);
    for (int e = 0; e < EVENTS; e++)
        CU(cuEventDestroy_v2, a->event[e].handle);
}

/* The old one may still have work; the new one follows it. */
void stream_renew(struct actor *a, int s) {
    int e = record(a, s);
    CU(cuStreamDestroy_v2, a->stream[s]);
    stream_make(a, s);
    CU(cuStreamWaitEvent, a->stream[s], a->event[e].handle, 0);
}
