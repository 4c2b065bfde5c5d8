/* One thread launches kernels that use the whole budget, and waits for none; another one launches a few beside it.
 *
 * Prints how many milliseconds the longest launch of the other one took. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "emu.h"

USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BLOCK = 16 * MIB, KERNEL_US = 400, LAUNCHES = 3, MOMENT_US = 200000 };

static void use(struct emu_launch *l) {
    for (int i = 0; i < 2; i++)
        emu_use(l, EMU_ARG(l, uint64_t, i), BLOCK, EMU_WRITE);
    usleep(KERNEL_US);
}

static const struct emu_param parameters[] = {{0, sizeof(uint64_t)}, {sizeof(uint64_t), sizeof(uint64_t)}};
static const struct emu_kernel kernels[] = {{"use", parameters, 2, use}};
static const struct emu_image image = {EMU_MAGIC, kernels, 1, NULL, 0};

static CUcontext context;
static CUfunction function;
static CUdeviceptr block[3];
static atomic_bool over;

static void launch(CUstream s, CUdeviceptr *a, CUdeviceptr *b) {
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){a, b}, NULL));
}

static void *fill(void *unused) {
    MUST(cuCtxSetCurrent(context));
    for (CUstream s = new_stream(); !over;)
        launch(s, &block[0], &block[1]);
    return unused;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

int main(void) {
    pthread_t filler;
    CUmodule module;
    double longest = 0;
    context = use_device();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, "use"));
    for (int i = 0; i < 3; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    CUstream s = new_stream();
    pthread_create(&filler, NULL, fill, NULL);
    for (int i = 0; i < LAUNCHES; i++) {
        usleep(MOMENT_US);
        double began = now_ms();
        launch(s, &block[2], &block[2]);
        double took = now_ms() - began;
        longest = took > longest ? took : longest;
        MUST(cuStreamSynchronize(s));
    }
    over = true;
    pthread_join(filler, NULL);
    printf("%.1f\n", longest);
    return 0;
}
