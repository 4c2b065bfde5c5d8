/* What the nodes of a graph do. Parameters that grew with CUDA's versions are declared as far as every version has
 * them: they are only met inside CUgraphNodeParams, whose size is fixed. */
#ifndef ULMS_CUDA_ABI_NODE_H
#define ULMS_CUDA_ABI_NODE_H

#include "graph.h"

typedef struct {
    CUfunction func;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;

typedef struct {
    CUfunction func;
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef CUDA_KERNEL_NODE_PARAMS_v2 CUDA_KERNEL_NODE_PARAMS;
typedef CUDA_KERNEL_NODE_PARAMS_v2 CUDA_KERNEL_NODE_PARAMS_v3;

typedef struct {
    int flags;
    int reserved;
    CUcontext copyCtx;
    CUDA_MEMCPY3D copyParams;
} CUDA_MEMCPY_NODE_PARAMS;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned int value;
    unsigned int elementSize;
    size_t width;
    size_t height;
    CUcontext ctx;
} CUDA_MEMSET_NODE_PARAMS_v2;

typedef struct {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef CUDA_HOST_NODE_PARAMS CUDA_HOST_NODE_PARAMS_v2;

typedef struct {
    CUcontext ctx;
    unsigned int count;
    CUstreamBatchMemOpParams *paramArray;
    unsigned int flags;
} CUDA_BATCH_MEM_OP_NODE_PARAMS_v2;

typedef CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 CUDA_BATCH_MEM_OP_NODE_PARAMS;

typedef struct {
    CUmemPoolProps poolProps;
    const CUmemAccessDesc *accessDescs;
    size_t accessDescCount;
    size_t bytesize;
    CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS_v2;

typedef CUDA_MEM_ALLOC_NODE_PARAMS_v2 CUDA_MEM_ALLOC_NODE_PARAMS;

typedef struct {
    CUdeviceptr dptr;
} CUDA_MEM_FREE_NODE_PARAMS;

typedef struct {
    CUgraphConditionalHandle handle;
    CUgraphConditionalNodeType type;
    unsigned int size;
    CUgraph *phGraph_out;
    CUcontext ctx;
} CUDA_CONDITIONAL_NODE_PARAMS;

typedef struct {
    CUgraph graph;
} CUDA_CHILD_GRAPH_NODE_PARAMS;

typedef struct {
    CUevent event;
} CUDA_EVENT_RECORD_NODE_PARAMS;

typedef CUDA_EVENT_RECORD_NODE_PARAMS CUDA_EVENT_WAIT_NODE_PARAMS;

typedef struct {
    size_t count;
    CUdeviceptr *dsts;
    CUdeviceptr *srcs;
    size_t *sizes;
    CUmemcpyAttributes *attrs;
    size_t *attrsIdxs;
    size_t numAttrs;
    CUcontext ctx;
} CUDA_MEMCPY_BATCH_NODE_PARAMS;

/* Semaphore and fabric nodes touch no memory that we know: their parameters stay unread. */
typedef struct {
    CUgraphNodeType type;
    int reserved0[3];
    union {
        long long reserved1[29];
        CUDA_KERNEL_NODE_PARAMS_v3 kernel;
        CUDA_MEMCPY_NODE_PARAMS memcpy;
        CUDA_MEMSET_NODE_PARAMS_v2 memset;
        CUDA_HOST_NODE_PARAMS_v2 host;
        CUDA_CHILD_GRAPH_NODE_PARAMS graph;
        CUDA_EVENT_WAIT_NODE_PARAMS eventWait;
        CUDA_EVENT_RECORD_NODE_PARAMS eventRecord;
        CUDA_MEM_ALLOC_NODE_PARAMS_v2 alloc;
        CUDA_MEM_FREE_NODE_PARAMS free;
        CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 memOp;
        CUDA_CONDITIONAL_NODE_PARAMS conditional;
        CUDA_MEMCPY_BATCH_NODE_PARAMS memcpyBatch;
    };
    long long reserved2;
} CUgraphNodeParams;

/* Told by the driver which nodes of a graph a second capture cannot change. */
typedef int CUgraphRecaptureStatus;

typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node, const CUgraphNodeParams *originalParams,
                                             const CUgraphNodeParams *recaptureParams, CUgraphRecaptureStatus status);

#endif
