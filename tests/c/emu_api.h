/* The driver's functions that the tests of the emulator call, and what each of them begins with. */
#ifndef EMU_API_H
#define EMU_API_H

#include "driver.h" /* generated: types, and a function type for each symbol */
#include "emu.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

#define API(symbol) extern __typeof__(*(pfn_##symbol)0) symbol

API(cuInit);
API(cuDriverGetVersion);
API(cuDeviceGet);
API(cuDeviceGetCount);
API(cuDeviceGetName);
API(cuDeviceTotalMem_v2);
API(cuDeviceGetAttribute);
API(cuDeviceGetUuid_v2);
API(cuGetErrorName);
API(cuGetErrorString);
API(cuDevicePrimaryCtxRetain);
API(cuDevicePrimaryCtxRelease_v2);
API(cuDevicePrimaryCtxReset_v2);
API(cuDevicePrimaryCtxGetState);
API(cuCtxCreate_v2);
API(cuCtxCreate_v4);
API(cuCtxDestroy_v2);
API(cuCtxSetCurrent);
API(cuCtxGetCurrent);
API(cuCtxPushCurrent_v2);
API(cuCtxPopCurrent_v2);
API(cuCtxGetDevice);
API(cuCtxSynchronize);
API(cuMemAlloc_v2);
API(cuMemAllocPitch_v2);
API(cuMemFree_v2);
API(cuMemGetInfo_v2);
API(cuMemGetAddressRange_v2);
API(cuMemAllocManaged);
API(cuMemHostAlloc);
API(cuMemAllocHost_v2);
API(cuMemFreeHost);
API(cuMemHostRegister_v2);
API(cuMemHostUnregister);
API(cuMemHostGetDevicePointer_v2);
API(cuPointerGetAttribute);
API(cuPointerGetAttributes);
API(cuMemAllocAsync);
API(cuMemFreeAsync);
API(cuMemAllocFromPoolAsync);
API(cuMemPoolCreate);
API(cuMemPoolDestroy);
API(cuMemPoolGetAttribute);
API(cuDeviceGetDefaultMemPool);
API(cuArrayCreate_v2);
API(cuArray3DCreate_v2);
API(cuArrayDestroy);
API(cuArrayGetDescriptor_v2);
API(cuMipmappedArrayCreate);
API(cuMipmappedArrayGetLevel);
API(cuMipmappedArrayDestroy);
API(cuIpcGetMemHandle);
API(cuIpcOpenMemHandle_v2);
API(cuIpcCloseMemHandle);
API(cuMemAddressReserve);
API(cuMemAddressFree);
API(cuMemCreate);
API(cuMemRelease);
API(cuMemMap);
API(cuMemUnmap);
API(cuMemSetAccess);
API(cuMemGetAccess);
API(cuMemGetAllocationGranularity);
API(cuMemRetainAllocationHandle);
API(cuMemExportToShareableHandle);
API(cuMemImportFromShareableHandle);
API(cuMemGetAllocationPropertiesFromHandle);
API(cuMemcpy);
API(cuMemcpyAsync);
API(cuMemcpyHtoD_v2);
API(cuMemcpyHtoDAsync_v2);
API(cuMemcpyDtoH_v2);
API(cuMemcpyDtoHAsync_v2);
API(cuMemcpyDtoD_v2);
API(cuMemcpyDtoDAsync_v2);
API(cuMemcpyPeer);
API(cuMemcpyHtoA_v2);
API(cuMemcpyAtoH_v2);
API(cuMemcpyAtoD_v2);
API(cuMemcpy2D_v2);
API(cuMemcpy2DUnaligned_v2);
API(cuMemcpy3D_v2);
API(cuMemcpy3DAsync_v2);
API(cuMemcpyBatchAsync_v2);
API(cuMemcpy3DBatchAsync_v2);
API(cuMemsetD8_v2);
API(cuMemsetD16_v2);
API(cuMemsetD32_v2);
API(cuMemsetD8Async);
API(cuMemsetD32Async);
API(cuMemsetD2D8_v2);
API(cuMemsetD2D16_v2);
API(cuMemsetD2D32_v2);
API(cuMemPrefetchAsync);
API(cuMemPrefetchAsync_v2);
API(cuMemAdvise);
API(cuMemAdvise_v2);
API(cuMemPrefetchBatchAsync);
API(cuMemDiscardBatchAsync);
API(cuMemDiscardAndPrefetchBatchAsync);
API(cuMemRangeGetAttribute);
API(cuStreamCreate);
API(cuStreamCreateWithPriority);
API(cuStreamDestroy_v2);
API(cuStreamGetPriority);
API(cuStreamSynchronize);
extern __typeof__(*(pfn_cuStreamSynchronize)0) cuStreamSynchronize_ptsz;
API(cuStreamQuery);
extern __typeof__(*(pfn_cuStreamQuery)0) cuStreamQuery_ptsz;
API(cuStreamWaitEvent);
API(cuStreamWaitValue32_v2);
API(cuStreamWriteValue32_v2);
API(cuStreamWaitValue64_v2);
API(cuStreamWriteValue64_v2);
API(cuStreamBatchMemOp_v2);
API(cuLaunchHostFunc);
API(cuStreamAddCallback);
API(cuEventCreate);
API(cuEventDestroy_v2);
API(cuEventRecord);
API(cuEventRecordWithFlags);
API(cuEventQuery);
API(cuEventSynchronize);
API(cuEventElapsedTime);
API(cuModuleLoadData);
API(cuModuleUnload);
API(cuModuleGetFunction);
API(cuModuleGetGlobal_v2);
API(cuLibraryLoadData);
API(cuLibraryUnload);
API(cuLibraryGetKernel);
API(cuKernelGetFunction);
API(cuFuncGetName);
API(cuKernelGetName);
API(cuFuncGetParamInfo);
API(cuKernelGetParamInfo);
API(cuLaunchKernel);
extern __typeof__(*(pfn_cuLaunchKernel)0) cuLaunchKernel_ptsz;
API(cuLaunchKernelEx);
API(cuLaunchCooperativeKernel);
API(cuStreamBeginCapture_v2);
API(cuStreamBeginCaptureToGraph);
API(cuStreamEndCapture);
API(cuStreamIsCapturing);
API(cuStreamGetCaptureInfo_v2);
API(cuThreadExchangeStreamCaptureMode);
API(cuGraphCreate);
API(cuGraphDestroy);
API(cuGraphDestroyNode);
API(cuGraphClone);
API(cuGraphNodeFindInClone);
API(cuGraphAddKernelNode_v2);
API(cuGraphAddMemcpyNode);
API(cuGraphAddMemsetNode);
API(cuGraphAddHostNode);
API(cuGraphAddEmptyNode);
API(cuGraphAddChildGraphNode);
API(cuGraphAddEventRecordNode);
API(cuGraphAddEventWaitNode);
API(cuGraphAddMemAllocNode);
API(cuGraphAddMemFreeNode);
API(cuGraphAddNode_v2);
API(cuGraphGetNodes);
API(cuGraphGetRootNodes);
API(cuGraphGetEdges);
API(cuGraphNodeGetType);
API(cuGraphKernelNodeGetParams_v2);
API(cuGraphKernelNodeSetParams_v2);
API(cuGraphAddDependencies);
API(cuGraphInstantiateWithFlags);
API(cuGraphInstantiateWithParams);
API(cuGraphLaunch);
API(cuGraphExecDestroy);
API(cuGraphExecUpdate_v2);
API(cuGraphExecKernelNodeSetParams_v2);
API(cuGraphExecChildGraphNodeSetParams);
API(cuGraphNodeSetEnabled);
API(cuDeviceGetGraphMemAttribute);
API(cuDeviceGraphMemTrim);

/* Not in the tables with their parameters. */
extern CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
extern CUresult cuCtxDisablePeerAccess(CUcontext peer);
extern CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *out, size_t *n);
extern CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n);

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)

enum { MiB = 1 << 20 };

/* Opens the first device and makes its primary context current. */
static inline CUcontext begin(void) {
    CUcontext c;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    return c;
}

static inline CUdeviceptr device_memory(size_t bytes) {
    CUdeviceptr p;
    OK(cuMemAlloc_v2(&p, bytes));
    return p;
}

static inline CUdeviceptr managed_memory(size_t bytes) {
    CUdeviceptr p;
    OK(cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
    return p;
}

static inline void *pinned_memory(size_t bytes) {
    void *p;
    OK(cuMemHostAlloc(&p, bytes, 0));
    return p;
}

static inline CUstream new_stream(unsigned flags) {
    CUstream s;
    OK(cuStreamCreate(&s, flags));
    return s;
}

/* A kernel of the built-in image. */
static inline CUfunction kernel(const char *name) {
    static CUmodule m;
    CUfunction f;
    if (!m)
        OK(cuModuleLoadData(&m, EMU_BUILTIN));
    OK(cuModuleGetFunction(&f, m, name));
    return f;
}

#define LAUNCH(stream, name, ...)                                                                                      \
    cuLaunchKernel(kernel(name), 1, 1, 1, 1, 1, 1, 0, (stream), (void *[]){__VA_ARGS__}, NULL)

static inline CUresult fill(CUstream s, CUdeviceptr p, float value, uint64_t n) {
    return LAUNCH(s, "fill", &p, &value, &n);
}

static inline CUresult scale(CUstream s, CUdeviceptr p, float factor, uint64_t n) {
    return LAUNCH(s, "scale", &p, &factor, &n);
}

static inline float first_float(CUdeviceptr p) {
    float value;
    OK(cuMemcpyDtoH_v2(&value, p, sizeof value));
    return value;
}

/* Closes the stream until the word, in pinned memory, is 1. */
static inline _Atomic uint32_t *close_gate(CUstream s) {
    _Atomic uint32_t *word = pinned_memory(sizeof *word);
    *word = 0;
    OK(cuStreamWaitValue32_v2(s, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ));
    return word;
}

static inline void sleep_ms(int ms) {
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* Waits until the thread has slept for a while, and not for want of a processor; false: it does not within a minute.
 * The number is 0 until the thread has told its own (gettid). */
static inline bool falls_asleep(const _Atomic pid_t *thread) {
    long before = -1;
    for (int calm = 0, ms = 0; ms < 60000; ms++, sleep_ms(1)) {
        char path[64], line[128], state = 0;
        long switches = -1;
        snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)*thread);
        FILE *status = fopen(path, "re");
        while (status && fgets(line, sizeof line, status)) {
            sscanf(line, "State: %c", &state);
            sscanf(line, "voluntary_ctxt_switches: %ld", &switches);
        }
        if (status)
            fclose(status);
        calm = state == 'S' && switches == before ? calm + 1 : 0;
        before = switches;
        if (calm == 30)
            return true;
    }
    return false;
}

static inline size_t memory_used(void) {
    size_t available, total;
    OK(cuMemGetInfo_v2(&available, &total));
    return total - available;
}

#endif
