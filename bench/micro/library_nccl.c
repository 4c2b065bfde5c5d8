/* Reductions and gathers of NCCL, each launched by itself. */
#include "library_calls.h"

enum { COUNT = BLOCK / 16, RANKS = 4 };

static ncclComm_t comm[RANKS];

ncclResult_t ncclCommInitAll(ncclComm_t *comm, int ranks, const int *devices);

__attribute__((noinline)) static void call_reduce(void *function, const struct operands *o) {
    ((pfn_ncclAllReduce)function)(o->at[0], o->at[1], COUNT, ncclFloat32, ncclSum, comm[1], NULL);
}

__attribute__((noinline)) static void call_gather(void *function, const struct operands *o) {
    ((pfn_ncclAllGather)function)(o->at[0], o->at[1], COUNT, ncclFloat32, comm[1], NULL);
}

const struct bench_call *nccl_calls(void) {
    static const struct bench_call calls[] = {
        {"ncclAllReduce", call_reduce}, {"ncclAllGather", call_gather}, {NULL, NULL}};
    check((int)ncclCommInitAll(comm, RANKS, NULL));
    return calls;
}
