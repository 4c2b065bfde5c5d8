/* What the tests of graphs share: a kernel's node, a graph and its instance. */
#ifndef EMU_GRAPH_H
#define EMU_GRAPH_H

#include "emu_api.h"

static inline CUDA_KERNEL_NODE_PARAMS scale_params(CUdeviceptr *p, float *factor, uint64_t *n) {
    static void *args[8][3];
    static int used;
    void **a = args[used++ % 8];
    a[0] = p;
    a[1] = factor;
    a[2] = n;
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel("scale"),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = a};
}

static inline CUgraph new_graph(void) {
    CUgraph g;
    OK(cuGraphCreate(&g, 0));
    return g;
}

static inline CUgraphExec instantiate(CUgraph g) {
    CUgraphExec e;
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    return e;
}

static inline void launch(CUgraphExec e) {
    OK(cuGraphLaunch(e, NULL));
    OK(cuCtxSynchronize());
}

#endif
