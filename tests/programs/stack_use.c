/* What calls that do much use of a stack, from the first one on: "stack NAME BYTES" for each, the most of several. Over
 * a small budget pages begin to move, tables bring addresses to the device, and graphs are captured and launched.
 *
 *   stack_use [HOLDER]   HOLDER: the library made of loader_holder.c, whose constructor runs all the while */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "loader_held.h"
#include "painted.h"

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);

USE(cuCtxSynchronize)
USE(cuDevicePrimaryCtxRelease_v2)
USE(cuGraphDestroy)
USE(cuGraphExecDestroy)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuLaunchKernel)
USE(cuMemAddressFree)
USE(cuMemAddressReserve)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemAllocHost_v2)
USE(cuMemAllocManaged)
USE(cuMemAllocPitch_v2)
USE(cuMemCreate)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemGetInfo_v2)
USE(cuMemMap)
USE(cuMemRelease)
USE(cuMemSetAccess)
USE(cuMemUnmap)
USE(cuMemcpyDtoD_v2)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpyHtoDAsync_v2)
USE(cuMemsetD32Async)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BLOCK = 4 * MIB, BLOCKS = 12, TABLE = 32 << 10, ROUNDS = 4 };

static CUcontext context;
static CUstream stream;
static CUmodule module;
static CUfunction kernel;
static CUdeviceptr block[BLOCKS], other, reserved;
static CUmemGenericAllocationHandle handle;
static CUgraph graph;
static CUgraphExec exec;
static uint64_t table[MIB / 8];
static int round_now; /* which of the rounds */
static bool loader;   /* it is held */

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc access_all = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void ask_nvml(void) {
    nvmlDevice_t device;
    nvmlMemory_t memory;
    if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || nvmlDeviceGetMemoryInfo(device, &memory))
        exit(2);
}
static void init(void) {
    MUST(cuInit(0));
}
static void make(void) {
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    stream = new_stream();
}
static void load(void) {
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&kernel, module, "scale"));
}
static void allocate(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    for (int i = 0; i < MIB / 8; i++)
        table[i] = block[i % BLOCKS] + (unsigned)i;
}
static void launch(void) {
    uint64_t n = 1024;
    float by = 1;
    for (int i = 0; i < BLOCKS; i++) {
        void *arguments[] = {&block[i], &by, &n};
        MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    }
}
static void set(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemsetD32Async(block[i], 0, BLOCK / 4, stream));
}
static void bring_table(void) {
    MUST(cuMemcpyHtoD_v2(block[round_now], table, TABLE));
}
static void bring_more(void) {
    MUST(cuMemcpyHtoDAsync_v2(block[round_now], table, MIB, stream));
}
static void copy(void) {
    MUST(cuMemcpyDtoD_v2(block[round_now], block[round_now + BLOCKS / 2], BLOCK));
}
static void read_back(void) {
    MUST(cuMemcpyDtoHAsync_v2(table, block[BLOCKS - 1], 64, stream));
}
static void capture(void) {
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch();
    set();
    MUST(cuMemcpyHtoDAsync_v2(block[0], table, TABLE, stream));
    MUST(cuStreamEndCapture(stream, &graph));
}
static void instantiate(void) {
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
}
static void launch_graph(void) {
    MUST(cuGraphLaunch(exec, stream));
}
static void drop_graph(void) {
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphDestroy(graph));
}
static void ask(void) {
    size_t free_bytes, total;
    MUST(cuMemGetInfo_v2(&free_bytes, &total));
}
static void wait_for_stream(void) {
    MUST(cuStreamSynchronize(stream));
}
static void wait_for_all(void) {
    MUST(cuCtxSynchronize());
}
static void order(void) {
    MUST(cuMemAllocAsync(&other, BLOCK, stream));
    MUST(cuMemsetD32Async(other, 0, BLOCK / 4, stream));
    MUST(cuMemFreeAsync(other, stream));
}
static void pitched(void) {
    size_t pitch;
    MUST(cuMemAllocPitch_v2(&other, &pitch, 1000, 1000, 4));
    MUST(cuMemFree_v2(other));
}
static void managed(void) {
    MUST(cuMemAllocManaged(&other, BLOCK, CU_MEM_ATTACH_GLOBAL));
    MUST(cuMemFree_v2(other));
}
static void map(void) {
    MUST(cuMemAddressReserve(&reserved, BLOCK, 0, 0, 0));
    MUST(cuMemCreate(&handle, BLOCK, &prop, 0));
    MUST(cuMemMap(reserved, BLOCK, 0, handle, 0));
    MUST(cuMemSetAccess(reserved, BLOCK, &access_all, 1));
}
static void unmap(void) {
    MUST(cuMemUnmap(reserved, BLOCK));
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(reserved, BLOCK));
}
static void refuse(void) {
    CUdeviceptr none;
    if (cuMemAlloc_v2(&none, (size_t)1 << 50) == CUDA_SUCCESS)
        exit(2);
}
static void release(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemFree_v2(block[i]));
}
static void leave(void) {
    MUST(cuDevicePrimaryCtxRelease_v2(0));
}

#define STEP(function, rounds) {#function, function, rounds}
static const struct step {
    const char *name;
    void (*run)(void);
    int rounds;
} steps[] = {
    STEP(ask_nvml, 1),
    STEP(init, 1),
    STEP(make, 1),
    STEP(load, 1),
    STEP(map, 1),
    STEP(unmap, 1),
    STEP(allocate, 1),
    STEP(launch, ROUNDS),
    STEP(set, ROUNDS),
    STEP(bring_table, ROUNDS),
    STEP(bring_more, ROUNDS),
    STEP(copy, ROUNDS),
    STEP(launch, ROUNDS),
    STEP(read_back, ROUNDS),
    STEP(wait_for_stream, 1),
    STEP(capture, 1),
    STEP(instantiate, 1),
    STEP(launch_graph, ROUNDS),
    STEP(order, ROUNDS),
    STEP(wait_for_all, 1),
    STEP(drop_graph, 1),
    STEP(ask, ROUNDS),
    STEP(pitched, 1),
    STEP(managed, 1),
    STEP(map, 1),
    STEP(unmap, 1),
    STEP(refuse, 2),
    STEP(release, 1),
    STEP(leave, 1),
};

static void run(void *step) {
    ((const struct step *)step)->run();
}

static void *measure(void *unused) {
    for (const struct step *s = steps; s < steps + sizeof steps / sizeof *steps; s++) {
        size_t most = 0;
        if (loader && s->run == ask_nvml)
            continue; /* NVML looks for the driver itself */
        for (round_now = 0; round_now < s->rounds; round_now++) {
            size_t used = painted_use(run, (void *)s);
            most = used > most ? used : most;
        }
        printf("stack %s %zu\n", s->name, most);
    }
    return unused;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    loader = argc > 1;
    if (loader)
        loader_hold(argv[1], false);
    painted_run(measure);
    if (loader)
        loader_let_go();
    return 0;
}
