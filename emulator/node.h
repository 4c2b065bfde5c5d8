/* Nodes' parameters: between the driver's structures and work. */
#ifndef EMU_NODE_H
#define EMU_NODE_H

#include "graph.h"

/* What a node with these parameters does. The address of an allocation is chosen here and put into *p. */
CUresult work_of_params(CUcontext c, CUgraphNodeParams *p, struct work *w);
/* The parameters of the node; pointers lead into it. */
CUresult params_of_node(CUgraphNode n, CUgraphNodeParams *p);
/* A node with these parameters after n others. */
CUresult node_add(CUgraph g, CUgraphNode *out, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t n,
                  CUgraphNodeParams *p);
/* Gives the work of a node, or of a place in a plan, new parameters of the same type. */
CUresult work_set_params(struct work *w, CUgraphNodeType type, CUgraphNodeParams *p);

static inline CUDA_KERNEL_NODE_PARAMS kernel_params_of_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
    return (CUDA_KERNEL_NODE_PARAMS){.func = p->func,
                                     .gridDimX = p->gridDimX,
                                     .gridDimY = p->gridDimY,
                                     .gridDimZ = p->gridDimZ,
                                     .blockDimX = p->blockDimX,
                                     .blockDimY = p->blockDimY,
                                     .blockDimZ = p->blockDimZ,
                                     .sharedMemBytes = p->sharedMemBytes,
                                     .kernelParams = p->kernelParams,
                                     .extra = p->extra};
}

static inline CUDA_MEMSET_NODE_PARAMS_v2 memset_params_of(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c) {
    return (CUDA_MEMSET_NODE_PARAMS_v2){.dst = p->dst,
                                        .pitch = p->pitch,
                                        .value = p->value,
                                        .elementSize = p->elementSize,
                                        .width = p->width,
                                        .height = p->height,
                                        .ctx = c};
}

#endif
