/* Two ranks in one thread, a device each, over more memory than a budget lets them keep: layers are computed and
 * reduced, as data-parallel training does, then gathered, scattered and sent on.
 *
 * ranks LAYERS MIB STEPS [late] prints a sum for each buffer, and counters. late: a framework has told of a block, and
 * as much memory as there was is allocated in the middle of the first group. */
#include <stdlib.h>

#include "counters.h"
#include "device.h"
#include "framework.h"
#include "library.h"

extern CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
USE(cuCtxSynchronize)
USE(cuMemAlloc_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoDAsync_v2)
USE(cuMemcpyDtoH_v2)
extern ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ranks, const int *devices);
USE(ncclGroupStart)
USE(ncclGroupEnd)
USE(ncclAllReduce)
USE(ncclAllGather)
USE(ncclReduceScatter)
USE(ncclSend)
USE(ncclRecv)

enum { RANKS = 2, LAYERS_MAX = 16 };
#define SURE(call)                                                                                                     \
    do {                                                                                                               \
        if (call) {                                                                                                    \
            fprintf(stderr, "%s\n", #call);                                                                            \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static CUcontext context[RANKS];
static CUstream stream[RANKS];
static ncclComm_t comm[RANKS];
static CUdeviceptr weight[RANKS][LAYERS_MAX], gradient[RANKS][LAYERS_MAX];
static size_t bytes;
static bool late;

static void *at(CUdeviceptr p, size_t offset) {
    return (void *)(uintptr_t)(p + offset);
}

static void to_rank(int rank) {
    MUST(cuCtxSetCurrent(context[rank]));
}

static void compute(int rank, int layer, int step) {
    to_rank(rank);
    MUST(cuMemcpyDtoDAsync_v2(gradient[rank][layer], weight[rank][layer], bytes / 2, stream[rank]));
    MUST(cuMemsetD32Async(gradient[rank][layer] + bytes / 2, (unsigned)(31 * step + 7 * layer + rank), bytes / 8,
                          stream[rank]));
}

/* Also filled. */
static void allocate(int rank, CUdeviceptr *out, int n) {
    to_rank(rank);
    for (int i = 0; i < n; i++) {
        MUST(cuMemAlloc_v2(&out[i], bytes));
        MUST(cuMemsetD32Async(out[i], (unsigned)(100 * rank + i), bytes / 4, stream[rank]));
    }
}

/* Once: as much for each rank as it has. */
static void allocate_more(int layers) {
    static CUdeviceptr more[2 * LAYERS_MAX];
    for (int rank = 0; rank < RANKS && late; rank++)
        allocate(rank, more, 2 * layers);
    late = false;
}

/* Each layer's gradient, in place; a group of two at times. */
static void reduce(int layers, int layer, int also) {
    size_t count = bytes / 4;
    SURE(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        void *g = at(gradient[rank][layer], 0), *other = at(gradient[rank][also], 0);
        SURE(ncclAllReduce(g, g, count, ncclInt32, ncclSum, comm[rank], stream[rank]));
        if (also != layer)
            SURE(ncclAllReduce(other, other, count, ncclInt32, ncclSum, comm[rank], stream[rank]));
        allocate_more(layers);
    }
    SURE(ncclGroupEnd());
}

/* Halves of a gradient are reduced into a weight, in place gathered, and sent to the other rank. */
static void exchange(int layer) {
    size_t half = bytes / 8;
    SURE(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        SURE(ncclReduceScatter(at(gradient[rank][layer], 0), at(weight[rank][layer], (size_t)rank * bytes / 2), half,
                               ncclInt32, ncclSum, comm[rank], stream[rank]));
    SURE(ncclGroupEnd());
    SURE(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++)
        SURE(ncclAllGather(at(weight[rank][layer], (size_t)rank * bytes / 2), at(weight[rank][layer], 0), half,
                           ncclInt32, comm[rank], stream[rank]));
    SURE(ncclGroupEnd());
    SURE(ncclGroupStart());
    for (int rank = 0; rank < RANKS; rank++) {
        SURE(ncclSend(at(weight[rank][layer], 0), half, ncclInt32, 1 - rank, comm[rank], stream[rank]));
        SURE(ncclRecv(at(gradient[rank][layer], 0), half, ncclInt32, 1 - rank, comm[rank], stream[rank]));
    }
    SURE(ncclGroupEnd());
}

static void print_sum(const char *name, int rank, int layer, CUdeviceptr p) {
    uint32_t *host = malloc(bytes);
    uint64_t sum = 0;
    MUST(cuMemcpyDtoH_v2(host, p, bytes));
    for (size_t i = 0; i < bytes / sizeof *host; i++)
        sum = sum * 31 + host[i];
    printf("%s %d of %d: %llx\n", name, layer, rank, (unsigned long long)sum);
    free(host);
}

int main(int argc, char **argv) {
    if (argc < 4 || atoi(argv[1]) > LAYERS_MAX)
        return 2;
    int layers = atoi(argv[1]), steps = atoi(argv[3]);
    bytes = (size_t)atoi(argv[2]) << 20;
    late = argc > 4;
    print_counters_at_exit();
    MUST(cuInit(0));
    for (int rank = 0; rank < RANKS; rank++) {
        MUST(cuDevicePrimaryCtxRetain(&context[rank], rank));
        to_rank(rank);
        stream[rank] = new_stream();
        allocate(rank, weight[rank], layers);
        allocate(rank, gradient[rank], layers);
    }
    if (late)
        report(weight[0][0], (int64_t)bytes);
    for (int rank = 0; rank < RANKS; rank++) {
        to_rank(rank);
        MUST(cuCtxEnablePeerAccess(context[1 - rank], 0));
    }
    SURE(ncclCommInitAll(comm, RANKS, NULL));
    for (int step = 0; step < steps; step++)
        for (int i = 0; i < layers; i++) {
            compute(0, i, step);
            compute(1, i, step);
            reduce(layers, i, i % 2 ? i : (i + 1) % layers);
            exchange(i);
        }
    for (int rank = 0; rank < RANKS; rank++) {
        to_rank(rank);
        MUST(cuCtxSynchronize());
        for (int i = 0; i < layers; i++) {
            print_sum("weight", rank, i, weight[rank][i]);
            print_sum("gradient", rank, i, gradient[rank][i]);
        }
    }
    return 0;
}
