/* An NCCL of one process, whose kernels wait for one another on the devices and use the other ranks' buffers in place,
 * as the real one's do. What they are to do lies in pinned memory: no argument shows a buffer. */
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emu.h"
#include "must.h"
#include "nccl/abi.h"

USE(cuCtxGetCurrent)
USE(cuCtxSetCurrent)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuMemHostAlloc)
USE(cuDevicePrimaryCtxRetain)

enum { RANKS_MAX = 4, CALLS_MAX = 8, STUCK_S = 30 };
enum kind { REDUCE_ALL, GATHER_ALL, REDUCE_SCATTER, SEND, RECEIVE };

struct asked {
    enum kind kind;
    const void *send;
    void *receive;
    size_t count;
    int peer;
};

/* In pinned memory, one a rank and group. */
struct work {
    int ranks, rank, calls;
    struct asked call[CALLS_MAX];
    struct work *all[RANKS_MAX];
    int *arrived; /* of this group: kernels, twice */
};

struct ncclComm {
    int ranks, rank, calls;
    struct ncclComm **all;
    CUcontext context;
    CUfunction function;
    CUdeviceptr own;
    CUstream stream;
    struct asked call[CALLS_MAX];
};

static __thread int depth;
static __thread struct ncclComm *first; /* of the ranks that have been called in the group */

/* On the device: all kernels of the group run. */
static void meet(struct work *w, int ranks) {
    time_t end = time(NULL) + STUCK_S;
    __atomic_fetch_add(w->arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(w->arrived, __ATOMIC_SEQ_CST) < ranks) {
        sched_yield();
        if (time(NULL) > end) {
            fprintf(stderr, "a kernel waits for one that does not come\n");
            _exit(3);
        }
    }
}

static void add(struct emu_launch *l, uint32_t *to, const void *from, size_t offset, size_t count) {
    const uint32_t *x = emu_use(l, (uint64_t)(uintptr_t)from + offset * sizeof *to, count * sizeof *to, EMU_READ);
    for (size_t i = 0; i < count; i++)
        to[i] += x[i];
}

/* Elements that the rank receives. */
static size_t received(const struct work *w, const struct asked *a) {
    return a->kind == SEND ? 0 : a->kind == GATHER_ALL ? a->count * (size_t)w->ranks : a->count;
}

/* What the peer sends to the rank in the same place: the one call of either that goes there. */
static const void *sent_to(const struct work *w, const struct work *peer) {
    for (int i = 0; i < peer->calls; i++)
        if (peer->call[i].kind == SEND && peer->call[i].peer == w->rank)
            return peer->call[i].send;
    return NULL;
}

static void compute(struct emu_launch *l, const struct work *w, int i, uint32_t *to) {
    const struct asked *a = &w->call[i];
    size_t rank = (size_t)w->rank;
    for (int p = 0; p < w->ranks && a->kind != SEND; p++) {
        const void *send = w->all[p]->call[i].send;
        if (a->kind == REDUCE_ALL)
            add(l, to, send, 0, a->count);
        else if (a->kind == GATHER_ALL)
            add(l, to + (size_t)p * a->count, send, 0, a->count);
        else if (a->kind == REDUCE_SCATTER)
            add(l, to, send, rank * a->count, a->count);
        else if (p == a->peer)
            add(l, to, sent_to(w, w->all[p]), 0, a->count);
    }
}

/* ring(work, own memory): nothing is written before all have read. */
static void ring(struct emu_launch *l) {
    struct work *w = (struct work *)(uintptr_t)EMU_ARG(l, uint64_t, 0);
    uint32_t *to[CALLS_MAX];
    emu_use(l, EMU_ARG(l, CUdeviceptr, 1), sizeof(int), EMU_READ);
    meet(w, w->ranks);
    for (int i = 0; i < w->calls; i++) {
        to[i] = calloc(received(w, &w->call[i]) + 1, sizeof *to[i]);
        compute(l, w, i, to[i]);
    }
    meet(w, 2 * w->ranks);
    for (int i = 0; i < w->calls; i++) {
        size_t bytes = received(w, &w->call[i]) * sizeof *to[i];
        if (bytes)
            memcpy(emu_use(l, (uint64_t)(uintptr_t)w->call[i].receive, bytes, EMU_WRITE), to[i], bytes);
        free(to[i]);
    }
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}};
static const struct emu_kernel kernel = {"ring", parameters, 2, ring};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

static void *pinned(size_t bytes) {
    void *p;
    MUST(cuMemHostAlloc(&p, bytes, 0));
    memset(p, 0, bytes);
    return p;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ranks, const int *devices) {
    struct ncclComm **all = calloc((size_t)ranks, sizeof *all);
    CUcontext before;
    CUmodule module;
    MUST(cuCtxGetCurrent(&before));
    for (int rank = 0; rank < ranks; rank++) {
        struct ncclComm *c = all[rank] = comm[rank] = calloc(1, sizeof *c);
        *c = (struct ncclComm){.ranks = ranks, .rank = rank, .all = all};
        MUST(cuDevicePrimaryCtxRetain(&c->context, devices ? devices[rank] : rank));
        MUST(cuCtxSetCurrent(c->context));
        MUST(cuModuleLoadData(&module, &image));
        MUST(cuModuleGetFunction(&c->function, module, "ring"));
        MUST(cuMemAlloc_v2(&c->own, 1 << 20));
    }
    MUST(cuCtxSetCurrent(before));
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count) {
    *count = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank) {
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
    depth++;
    return ncclSuccess;
}

static void run(struct ncclComm *clique) {
    struct work *works = pinned((size_t)clique->ranks * sizeof *works);
    int *arrived = pinned(sizeof *arrived);
    CUcontext before;
    MUST(cuCtxGetCurrent(&before));
    for (int rank = 0; rank < clique->ranks; rank++) {
        struct ncclComm *c = clique->all[rank];
        works[rank] = (struct work){.ranks = c->ranks, .rank = rank, .calls = c->calls, .arrived = arrived};
        memcpy(works[rank].call, c->call, sizeof c->call);
        for (int p = 0; p < c->ranks; p++)
            works[rank].all[p] = &works[p];
        c->calls = 0;
    }
    for (int rank = 0; rank < clique->ranks; rank++) {
        struct ncclComm *c = clique->all[rank];
        struct work *work = &works[rank];
        MUST(cuCtxSetCurrent(c->context));
        MUST(cuLaunchKernel(c->function, 1, 1, 1, 1, 1, 1, 0, c->stream, (void *[]){&work, &c->own}, NULL));
    }
    MUST(cuCtxSetCurrent(before));
}

ncclResult_t ncclGroupEnd(void) {
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth == 0 && first) {
        run(first);
        first = NULL;
    }
    return ncclSuccess;
}

/* In a group, of which all ranks are. */
static ncclResult_t ask(ncclComm_t comm, CUstream stream, struct asked a) {
    if (depth == 0 || comm->calls == CALLS_MAX)
        return ncclInvalidUsage;
    first = comm;
    comm->stream = stream;
    comm->call[comm->calls++] = a;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
    (void)type, (void)op;
    return ask(comm, stream, (struct asked){REDUCE_ALL, send, receive, count, 0});
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
    (void)type;
    return ask(comm, stream, (struct asked){GATHER_ALL, send, receive, count, 0});
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
    (void)type, (void)op;
    return ask(comm, stream, (struct asked){REDUCE_SCATTER, send, receive, count, 0});
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    (void)type;
    return ask(comm, stream, (struct asked){SEND, send, NULL, count, peer});
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    (void)type;
    return ask(comm, stream, (struct asked){RECEIVE, NULL, receive, count, peer});
}
