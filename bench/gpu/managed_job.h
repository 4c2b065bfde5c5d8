/* Threads that make the driver's calls on managed memory: which, over what, through how many streams. */
#ifndef BENCH_MANAGED_JOB_H
#define BENCH_MANAGED_JOB_H

#include <cuda.h>

#include <pthread.h>
#include <vector>

#include "must.h"

static const size_t MIB = 1 << 20;
enum { STREAMS = 4 };

enum call { IN, OUT, DISCARD, DISCARD_AND_IN, ADVISE, UNADVISE, PREFER_HOST, PREFER_NOTHING, ACCESS, NO_ACCESS };
static const char *const names[] = {"in",
                                    "out",
                                    "discard",
                                    "discard and in",
                                    "advise",
                                    "take advice back",
                                    "prefer the host",
                                    "prefer nothing",
                                    "accessed by the device",
                                    "not accessed by it"};

static void issue(enum call call, CUdeviceptr at, size_t bytes, CUstream stream) {
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    size_t first = 0;
    switch (call) {
    case IN:
        MUST(cuMemPrefetchAsync(at, bytes, device, 0, stream));
        break;
    case OUT:
        MUST(cuMemPrefetchAsync(at, bytes, host, 0, stream));
        break;
    case DISCARD:
        MUST(cuMemDiscardBatchAsync(&at, &bytes, 1, 0, stream));
        break;
    case DISCARD_AND_IN:
        MUST(cuMemDiscardAndPrefetchBatchAsync(&at, &bytes, 1, &device, &first, 1, 0, stream));
        break;
    case ADVISE:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
        break;
    case UNADVISE:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
        break;
    case PREFER_HOST:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
        break;
    case PREFER_NOTHING:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
        break;
    case ACCESS:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
        break;
    case NO_ACCESS:
        MUST(cuMemAdvise(at, bytes, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device));
        break;
    }
}

/* Streams in turns, each waited for before it is used again. */
struct turns {
    CUstream stream[STREAMS];
    int count, next;
};

static turns turns_new(int count) {
    turns t = {{}, count, 0};
    for (int i = 0; i < count; i++)
        MUST(cuStreamCreate(&t.stream[i], CU_STREAM_NON_BLOCKING));
    return t;
}

static CUstream turn(turns &t) {
    CUstream stream = t.stream[t.next];
    t.next = (t.next + 1) % t.count;
    MUST(cuStreamSynchronize(stream));
    return stream;
}

static void turns_end(turns &t) {
    for (int i = 0; i < t.count; i++) {
        MUST(cuStreamSynchronize(t.stream[i]));
        MUST(cuStreamDestroy(t.stream[i]));
    }
}

/* One thread's calls: over a range, piece by piece. In one stream each is waited for. */
struct job {
    enum call call;
    CUdeviceptr start;
    size_t bytes, piece;
    CUcontext context;
    bool *stop;       /* NULL: once over the range; else there and back until it is set */
    double us, moved; /* filled in */
    pthread_t thread;
    int streams = 1;
};

static void *work(void *data) {
    struct job *j = (struct job *)data;
    MUST(cuCtxSetCurrent(j->context));
    turns streams = turns_new(j->streams);
    double start = now_us();
    enum call call = j->call;
    do {
        for (size_t at = 0; at < j->bytes && !(j->stop && __atomic_load_n(j->stop, __ATOMIC_RELAXED)); at += j->piece) {
            issue(call, j->start + at, j->piece, turn(streams));
            j->moved += j->piece;
        }
        call = call == IN ? OUT : call == OUT ? IN : call;
    } while (j->stop && !__atomic_load_n(j->stop, __ATOMIC_RELAXED));
    turns_end(streams);
    j->us = now_us() - start;
    return NULL;
}

static void run(std::vector<job> &jobs) {
    for (job &j : jobs)
        pthread_create(&j.thread, NULL, work, &j);
    for (job &j : jobs)
        pthread_join(j.thread, NULL);
}

#endif
