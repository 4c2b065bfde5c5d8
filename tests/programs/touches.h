/* What the parts of the program share. */
#ifndef PROGRAM_TOUCHES_H
#define PROGRAM_TOUCHES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "emu.h"

/* A formatter would give each name a deeper indent. */
/* clang-format off */
#define USES(X) \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemAlloc_v2) \
    X(cuMemAllocPitch_v2) X(cuMemcpyHtoD_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoD_v2) X(cuMemcpy) \
    X(cuMemcpyAsync) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyPeer) X(cuMemcpy2D_v2) X(cuMemcpy2DAsync_v2) \
    X(cuMemcpy3D_v2) X(cuMemsetD8_v2) X(cuMemsetD16_v2) X(cuMemsetD32Async) X(cuMemsetD2D8_v2) \
    X(cuMemsetD2D32Async) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLibraryLoadData) \
    X(cuLibraryGetKernel) X(cuStreamCreate) X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) \
    X(cuGraphCreate) X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphAddKernelNode_v2) \
    X(cuGraphAddMemsetNode) X(cuGraphAddMemcpyNode) X(cuGraphAddChildGraphNode) \
    X(cuGraphExecKernelNodeSetParams_v2) X(cuGraphExecUpdate_v2) X(cuGraphNodeSetEnabled) \
    X(cuGraphGetNodes) X(cuGraphNodeGetType) X(cuGraphDestroyNode) X(cuGraphKernelNodeSetParams_v2) \
    X(cuGraphMemsetNodeSetParams) X(cuGraphMemcpyNodeSetParams) X(cuMemcpyBatchAsync_v2) X(cuMemBatchDecompressAsync) X(cuStreamWriteValue32_v2) X(cuStreamWaitValue32_v2) X(cuStreamWaitValue64) X(cuLaunchHostFunc) \
    X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) X(cuMemcpy3DBatchAsync) X(cuMemcpy3DBatchAsync_v2) \
    X(cuMemcpyBatchAsync) X(cuLaunchCooperativeKernelMultiDevice) X(cuGraphAddNode) \
    X(cuGraphAddNode_v2) X(cuStreamSynchronize) X(cuStreamBatchMemOp_v2) X(cuGraphAddBatchMemOpNode) \
    X(cuGraphExecBatchMemOpNodeSetParams) X(cuGraphBatchMemOpNodeSetParams) \
    X(cuArray3DCreate_v2) X(cuArrayDestroy)
/* clang-format on */
#define X(f) extern __typeof__(*(pfn_##f)NULL) f;
USES(X)
#undef X

enum { N = 1000, ROWS = 7, WIDTH = 100 };

struct axpy {
    float a;
    CUdeviceptr x, y;
    uint64_t n;
};

extern CUcontext context, far_context; /* of the first device and of the second */
extern CUstream stream, far_stream;

void check(CUresult status, int line);
#define OK(call) check((call), __LINE__)

/* Waits for the step's operations and prints what they touched. */
void end_of(const char *name, int kernels);
/* Of the built-in kernels. */
CUfunction kernel(const char *name);

/* touches_graph.c: graphs in every way they come about. */
void graphs(CUdeviceptr x, CUdeviceptr y);
void any_nodes(CUdeviceptr x, CUdeviceptr y);
void changed(CUdeviceptr x, CUdeviceptr y, CUdeviceptr a, CUdeviceptr b);
void words(CUdeviceptr a, CUdeviceptr b);

#endif
