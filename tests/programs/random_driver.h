/* The driver's functions as the random program calls them: each call is counted, its error ends the program, and
 * failures are never injected into it, so that they hit only the calls that a library under test makes by itself.
 *
 * Calls are found by linking or, chosen once in a process, through cuGetProcAddress. */
#ifndef RANDOM_DRIVER_H
#define RANDOM_DRIVER_H

#include "driver.h"
#include "emu.h"

/* clang-format off */
#define CALLS(X) \
    X(cuInit) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize) \
    X(cuCtxCreate_v4) X(cuCtxDestroy_v2) \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) \
    X(cuLibraryLoadData) X(cuLibraryUnload) X(cuLibraryGetKernel) \
    X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemAllocAsync) X(cuMemAllocFromPoolAsync) \
    X(cuMemFree_v2) X(cuMemFreeAsync) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemHostAlloc) X(cuMemFreeHost) \
    X(cuMemGetInfo_v2) X(cuMemGetAddressRange_v2) X(cuPointerGetAttribute) X(cuPointerGetAttributes) \
    X(cuMemPrefetchAsync_v2) X(cuMemAdvise_v2) X(cuCtxGetDevice) \
    X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) \
    X(cuStreamCreate) X(cuStreamCreateWithPriority) X(cuStreamDestroy_v2) X(cuStreamSynchronize) X(cuStreamQuery) \
    X(cuStreamWaitEvent) X(cuStreamWriteValue32_v2) X(cuStreamWaitValue32_v2) \
    X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventSynchronize) \
    X(cuEventQuery) \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLaunchHostFunc) \
    X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoH_v2) \
    X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoD_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemcpyPeerAsync) \
    X(cuMemcpy2D_v2) X(cuMemcpy2DAsync_v2) X(cuMemcpy3D_v2) X(cuMemcpy3DAsync_v2) X(cuMemcpyBatchAsync_v2) X(cuMemcpy3DBatchAsync_v2) \
    X(cuArray3DCreate_v2) X(cuArrayDestroy) \
    X(cuMemsetD8_v2) X(cuMemsetD8Async) X(cuMemsetD16_v2) X(cuMemsetD16Async) X(cuMemsetD32_v2) \
    X(cuMemsetD32Async) X(cuMemsetD2D8_v2) X(cuMemsetD2D8Async) X(cuMemsetD2D32_v2) X(cuMemsetD2D32Async) \
    X(cuStreamBeginCapture_v2) X(cuStreamEndCapture) X(cuGraphCreate) X(cuGraphDestroy) X(cuGraphExecDestroy) \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphExecUpdate_v2) X(cuGraphAddKernelNode_v2) \
    X(cuGraphAddMemsetNode) X(cuGraphAddMemcpyNode) X(cuGraphAddHostNode) X(cuGraphAddChildGraphNode) X(cuGraphAddBatchMemOpNode) \
    X(cuGraphExecKernelNodeSetParams_v2) \
    X(cuGraphExecMemsetNodeSetParams) X(cuGraphExecMemcpyNodeSetParams) X(cuGraphExecHostNodeSetParams)
/* The forms that take the stream 0 for the thread's own. */
#define CALLS_PER_THREAD(X) \
    X(cuLaunchKernel, _ptsz) X(cuMemcpyAsync, _ptsz) X(cuMemsetD32Async, _ptsz) X(cuMemAllocAsync, _ptsz) \
    X(cuMemFreeAsync, _ptsz) X(cuStreamSynchronize, _ptsz)
/* clang-format on */

struct driver {
#define X(f) pfn_##f f;
    CALLS(X)
#undef X
#define X(f, suffix) pfn_##f f##suffix;
    CALLS_PER_THREAD(X)
#undef X
};

extern struct driver driver;

/* Finds the functions; `asked`: through cuGetProcAddress. Ends the process when one is not there. */
void driver_find(bool asked);
/* A call of this name comes next in this thread. */
void driver_count(const char *name);
void driver_check(CUresult result, const char *name, const char *file, int line);
/* How often each function was called since the last time, one a line. */
void driver_print_counts(FILE *out);

/* The result, whatever it is. No call may stand among the arguments of another. */
#define TRY(f, ...) (driver_count(#f), driver.f(__VA_ARGS__))
#define CU(f, ...)  driver_check(TRY(f, __VA_ARGS__), #f, __FILE__, __LINE__)
/* Not counted: for polling, whose number depends on time. */
#define POLL(f, ...) (emu_spare(#f), driver.f(__VA_ARGS__))

#endif
