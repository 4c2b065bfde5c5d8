/* A program that works through more memory than a budget lets it keep, again and again: all that it uses has to come,
 * and as much has to leave.
 *
 *   vmm_speed BLOCKS MIB ROUNDS
 *
 * Prints "round MS IN OUT" after each round: its time and the bytes that were copied over the link meanwhile; "calm NS"
 * and "moving NS": medians of what a launch took on a thread of its own, over memory that stays, before there was too
 * much and while pages moved; and "result N", which is the same whatever moves the memory. Under ulms.so "counter NAME
 * VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "counters.h"
#include "device.h"
#include "emu.h"

USE(cuMemAlloc_v2)
USE(cuMemcpyDtoH_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamSynchronize)

enum { BLOCKS_MAX = 1024, SAMPLE_WORDS = 65536, LAUNCHES = 4000, PAUSE = 20, SMALL = 4096, CALM_NS = 100000000 };

static CUcontext context;
static CUfunction function;
static CUdeviceptr block[BLOCKS_MAX];
static int blocks;
static uint64_t block_bytes;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* update(p, bytes, new): samples of it, each from itself, or from nothing when it is new */
static void update(struct emu_launch *l) {
    uint64_t bytes = EMU_ARG(l, uint64_t, 1), is_new = EMU_ARG(l, uint64_t, 2);
    unsigned *p = emu_use(l, EMU_ARG(l, uint64_t, 0), bytes, EMU_UPDATE);
    for (uint64_t i = 0; i < bytes / sizeof *p; i += SAMPLE_WORDS)
        p[i] = (is_new ? 0 : p[i]) * 1664525u + (unsigned)i + 1013904223u;
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}, {16, 8}};
static const struct emu_kernel kernel = {"update", parameters, 3, update};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

static void launch(CUstream stream, CUdeviceptr p, uint64_t bytes, uint64_t is_new) {
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&p, &bytes, &is_new}, NULL));
}

/* --- launches on a thread of their own --- */

struct launcher {
    pthread_t thread;
    CUdeviceptr small;
    bool stop;
    double took[LAUNCHES];
    int count;
};

static void *launch_small(void *data) {
    struct launcher *l = data;
    MUST(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    while (l->count < LAUNCHES && !__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
        double start = now_ns();
        launch(stream, l->small, SMALL, 1);
        l->took[l->count++] = now_ns() - start;
        if (l->count % PAUSE == 0)
            MUST(cuStreamSynchronize(stream));
    }
    MUST(cuStreamSynchronize(stream));
    return NULL;
}

static void begin(struct launcher *l) {
    l->count = 0;
    l->stop = false;
    if (pthread_create(&l->thread, NULL, launch_small, l))
        exit(1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void end(struct launcher *l, const char *name) {
    __atomic_store_n(&l->stop, true, __ATOMIC_RELAXED);
    pthread_join(l->thread, NULL);
    qsort(l->took, (size_t)l->count, sizeof *l->took, compare);
    printf("%s %.0f\n", name, l->took[l->count / 2]);
}

/* --- rounds --- */

static void round_of_blocks(CUstream stream) {
    struct emu_traffic before, after;
    emu_traffic(&before);
    double start = now_ns();
    for (int i = 0; i < blocks; i++)
        launch(stream, block[i], block_bytes, 0);
    MUST(cuStreamSynchronize(stream));
    double ms = (now_ns() - start) / 1e6;
    emu_traffic(&after);
    printf("round %.3f %llu %llu\n", ms, (unsigned long long)(after.copied_in - before.copied_in),
           (unsigned long long)(after.copied_out - before.copied_out));
}

static void print_result(void) {
    unsigned sum = 0, word;
    for (int i = 0; i < blocks; i++)
        for (uint64_t at = 0; at < block_bytes; at += block_bytes / 4) {
            MUST(cuMemcpyDtoH_v2(&word, block[i] + at, sizeof word));
            sum = sum * 31 + word;
        }
    printf("result %u\n", sum);
}

int main(int argc, char **argv) {
    static struct launcher launcher;
    CUmodule module;
    if (argc != 4 || (blocks = atoi(argv[1])) < 1 || blocks > BLOCKS_MAX)
        return 2;
    block_bytes = strtoull(argv[2], NULL, 0) << 20;
    context = use_device();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, "update"));
    CUstream stream = new_stream();
    MUST(cuMemAlloc_v2(&launcher.small, SMALL));
    begin(&launcher);
    nanosleep(&(struct timespec){0, CALM_NS}, NULL);
    end(&launcher, "calm");
    for (int i = 0; i < blocks; i++) {
        MUST(cuMemAlloc_v2(&block[i], block_bytes));
        launch(stream, block[i], block_bytes, 1);
    }
    MUST(cuStreamSynchronize(stream));
    begin(&launcher);
    for (int i = atoi(argv[3]); i > 0; i--)
        round_of_blocks(stream);
    end(&launcher, "moving");
    print_result();
    print_counters();
    return 0;
}
