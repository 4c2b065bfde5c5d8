/* Two devices, each with more memory than its budget holds, that use one another's.
 *
 *   peers kernels   one runs kernels over the other's memory and its own, while the other uses memory of its own
 *   peers copies    memory is copied across both ways, by calls of either device
 *
 * Ends at the first word that is wrong. Under ulms.so "counter NAME VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "counters.h"
#include "device.h"
#include "emu.h"
#include "part.h"

extern CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
USE(cuCtxSynchronize)
USE(cuMemAlloc_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyPeer)
USE(cuMemcpyPeerAsync)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamSynchronize)

enum { DEVICES = 2, BLOCKS = 6, BLOCK_BYTES = 4 << 20, WORDS = BLOCK_BYTES / 4, ROUNDS = 3 };

static CUcontext context[DEVICES];
static CUstream stream[DEVICES];
static CUfunction function[DEVICES];
static CUdeviceptr block[DEVICES][BLOCKS];
static unsigned value[DEVICES][BLOCKS]; /* every word of that block */

/* --- a kernel: y += x --- */

static void add(struct emu_launch *l) {
    const unsigned *x = emu_use(l, EMU_ARG(l, CUdeviceptr, 1), BLOCK_BYTES, EMU_READ);
    unsigned *y = emu_use(l, EMU_ARG(l, CUdeviceptr, 0), BLOCK_BYTES, EMU_UPDATE);
    for (size_t i = 0; i < WORDS; i++)
        y[i] += x[i];
}

static const struct emu_param parameters[] = {{0, sizeof(CUdeviceptr)}, {sizeof(CUdeviceptr), sizeof(CUdeviceptr)}};
static const struct emu_kernel kernel = {"add", parameters, 2, add};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

/* The device adds a block of one to a block of another, or the same. */
static void launch(int device, int to, int y, int from, int x) {
    MUST(cuCtxSetCurrent(context[device]));
    MUST(cuLaunchKernel(function[device], 1, 1, 1, 1, 1, 1, 0, stream[device],
                        (void *[]){&block[to][y], &block[from][x]}, NULL));
    value[to][y] += value[from][x];
}

static void synchronize(int device) {
    MUST(cuCtxSetCurrent(context[device]));
    MUST(cuCtxSynchronize());
}

/* --- parts --- */

static void kernels(void) {
    for (int i = 0; i < ROUNDS * BLOCKS; i++) {
        int here = i % BLOCKS, other = (i + 2) % BLOCKS, next = (i + 3) % BLOCKS;
        launch(1, 1, here, 0, here);
        launch(1, 0, here, 1, here);
        launch(0, 0, other, 0, next);
        synchronize(0);
        synchronize(1);
    }
}

static void copy(int device, int to, int i) {
    int from = 1 - to, j = (i + 1) % BLOCKS;
    MUST(cuCtxSetCurrent(context[device]));
    MUST(cuMemcpyPeer(block[to][i], context[to], block[from][i], context[from], BLOCK_BYTES));
    MUST(cuCtxSynchronize());
    MUST(cuMemcpyPeerAsync(block[from][j], context[from], block[to][i], context[to], BLOCK_BYTES, stream[device]));
    MUST(cuStreamSynchronize(stream[device]));
    value[to][i] = value[from][j] = value[from][i];
}

static void copies(void) {
    for (int i = 0; i < ROUNDS * BLOCKS; i++) {
        copy(i / 2 % DEVICES, i % DEVICES, i % BLOCKS);
        launch(0, 0, i % BLOCKS, 0, (i + 2) % BLOCKS);
        launch(1, 1, (i + 3) % BLOCKS, 1, i % BLOCKS);
        synchronize(0);
        synchronize(1);
    }
}

static void expect(int device, int i) {
    static unsigned host[WORDS];
    MUST(cuCtxSetCurrent(context[device]));
    MUST(cuMemcpyDtoHAsync_v2(host, block[device][i], BLOCK_BYTES, stream[device]));
    MUST(cuStreamSynchronize(stream[device]));
    for (size_t word = 0; word < WORDS; word++)
        if (host[word] != value[device][i]) {
            printf("word %zu of block %d of device %d is %x, not %x\n", word, i, device, host[word], value[device][i]);
            exit(1);
        }
}

static void open_device(int device) {
    CUmodule module;
    MUST(cuDevicePrimaryCtxRetain(&context[device], device));
    MUST(cuCtxSetCurrent(context[device]));
    stream[device] = new_stream();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function[device], module, "add"));
    for (int i = 0; i < BLOCKS; i++) {
        value[device][i] = (unsigned)(1 + device * BLOCKS + i);
        MUST(cuMemAlloc_v2(&block[device][i], BLOCK_BYTES));
        MUST(cuMemsetD32Async(block[device][i], value[device][i], WORDS, stream[device]));
    }
    MUST(cuStreamSynchronize(stream[device]));
}

int main(int argc, char **argv) {
    static const struct part parts[] = {{"kernels", kernels}, {"copies", copies}, {NULL, NULL}};
    print_counters_at_exit();
    MUST(cuInit(0));
    open_device(0);
    open_device(1);
    MUST(cuCtxEnablePeerAccess(context[0], 0));
    int status = run_part(parts, argc, argv);
    for (int device = 0; device < DEVICES; device++)
        for (int i = 0; i < BLOCKS; i++)
            expect(device, i);
    return status;
}
