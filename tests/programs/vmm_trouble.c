/* Programs in trouble, for the remapping backend. Each checks every word that it keeps, and ends at the first that is
 * wrong; memory that is refused it does without.
 *
 *   vmm_trouble large [DEVICES]   works through blocks one after the other, over much more memory than the budget
 *   vmm_trouble kernel            one kernel uses all of that memory
 *   vmm_trouble small             two blocks fit until small pieces, which are never replaced, take room of theirs
 *   vmm_trouble idle              small pieces need what large blocks held before
 *   vmm_trouble storm STEPS       so many allocations of mixed sizes come and go while pages move
 *   vmm_trouble storms STEPS      the same, of larger sizes, on each of several threads
 *
 * Prints "kept N" or "refused N" allocations, "pinned BYTES": the most of the host that handles held, and "failed N":
 * calls that were made to fail. Under ulms.so "counter NAME VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "emu.h"
#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoHAsync_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamCreate)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, WORDS = MIB / 4, BLOCKS = 20, BLOCK_MIB = 4, DEVICES = 2, ROUNDS = 3, LIVE = 40, THREADS = 4 };

static CUcontext context[DEVICES];
static _Thread_local CUstream stream[DEVICES];
static CUfunction function[DEVICES];
static atomic_int kept, refused;

/* 0: there is no more memory. */
static CUdeviceptr allocate(int device, size_t bytes, int async) {
    CUdeviceptr p = 0;
    CUresult status = async ? cuMemAllocAsync(&p, bytes, stream[device]) : cuMemAlloc_v2(&p, bytes);
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        refused++;
        return 0;
    }
    must(status, "allocating");
    kept++;
    return p;
}

/* Every word of it. */
static void expect(int device, CUdeviceptr p, unsigned value, size_t bytes) {
    unsigned *host = malloc(bytes);
    MUST(cuMemcpyDtoHAsync_v2(host, p, bytes, stream[device]));
    MUST(cuStreamSynchronize(stream[device]));
    for (size_t i = 0; i < bytes / 4; i++)
        if (host[i] != value) {
            printf("word %zu of %zu is %u, not %u\n", i, bytes / 4, host[i], value);
            exit(1);
        }
    free(host);
}

/* --- a kernel that adds 1 to every word of what it is given --- */

struct blocks {
    CUdeviceptr at[BLOCKS];
};

static void increase(struct emu_launch *l) {
    struct blocks b = EMU_ARG(l, struct blocks, 0);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned *to = b.at[i] ? emu_use(l, b.at[i], BLOCK_MIB * MIB, EMU_UPDATE) : NULL;
        for (size_t k = 0; to && k < BLOCK_MIB * WORDS; k++)
            to[k]++;
    }
}

static const struct emu_param parameter = {0, sizeof(struct blocks)};
static const struct emu_kernel kernel = {"increase", &parameter, 1, increase};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

static void launch(int device, struct blocks *b) {
    MUST(cuLaunchKernel(function[device], 1, 1, 1, 1, 1, 1, 0, stream[device], (void *[]){b}, NULL));
}

/* --- more than there is --- */

static void work(int devices, int at_once) {
    struct blocks all = {{0}};
    for (int i = 0; i < BLOCKS; i++) {
        int d = i % devices;
        MUST(cuCtxSetCurrent(context[d]));
        all.at[i] = allocate(d, BLOCK_MIB * MIB, 0);
        if (all.at[i])
            MUST(cuMemsetD32Async(all.at[i], 100 * (unsigned)i, BLOCK_MIB * WORDS, stream[d]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (at_once)
            launch(0, &all);
        for (int i = 0; !at_once && i < BLOCKS; i++) {
            MUST(cuCtxSetCurrent(context[i % devices]));
            launch(i % devices, &(struct blocks){{all.at[i]}});
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuCtxSetCurrent(context[i % devices]));
        if (all.at[i])
            expect(i % devices, all.at[i], 100 * (unsigned)i + ROUNDS, BLOCK_MIB * MIB);
    }
}

/* --- memory too small to be worth a page --- */

enum { SMALL = 64 << 10, SMALLS = 64 };

static void small(void) {
    CUdeviceptr piece[SMALLS];
    struct blocks two = {{allocate(0, BLOCK_MIB * MIB, 0), allocate(0, BLOCK_MIB * MIB, 0)}};
    for (int i = 0; i < 2; i++)
        MUST(cuMemsetD32Async(two.at[i], (unsigned)i, BLOCK_MIB * WORDS, stream[0]));
    for (unsigned i = 0; i < SMALLS; i++) {
        piece[i] = allocate(0, SMALL, 0);
        MUST(cuMemsetD32Async(piece[i], i, SMALL / 4, stream[0]));
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 2; i++)
            launch(0, &(struct blocks){{two.at[i]}});
    for (unsigned i = 0; i < 2; i++)
        expect(0, two.at[i], i + ROUNDS, BLOCK_MIB * MIB);
    for (unsigned i = 0; i < SMALLS; i++)
        expect(0, piece[i], i, SMALL);
}

enum { FREED = 12, NEEDS = FREED * BLOCK_MIB * MIB / SMALL };

static void idle(void) {
    static CUdeviceptr piece[NEEDS];
    CUdeviceptr block[FREED];
    for (int i = 0; i < FREED; i++)
        block[i] = allocate(0, BLOCK_MIB * MIB, 0);
    for (int i = 0; i < FREED; i++)
        MUST(cuMemFree_v2(block[i]));
    for (unsigned i = 0; i < NEEDS; i++)
        if ((piece[i] = allocate(0, SMALL, 0)))
            MUST(cuMemsetD32Async(piece[i], i, SMALL / 4, stream[0]));
    for (unsigned i = 0; i < NEEDS; i++)
        if (piece[i])
            expect(0, piece[i], i, SMALL);
}

/* --- a storm --- */

struct tensor {
    CUdeviceptr start;
    size_t bytes;
    unsigned value;
    int async;
};

static _Thread_local unsigned state = 12345;

static unsigned choose(unsigned n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

static void drop(struct tensor *t) {
    if (!t->start)
        return;
    expect(0, t->start, t->value, t->bytes);
    MUST(t->async ? cuMemFreeAsync(t->start, stream[0]) : cuMemFree_v2(t->start));
    t->start = 0;
}

/* Up to 12 MiB: about 64 KiB, doubled so often at least, and seldom much oftener. */
static size_t size(unsigned doublings) {
    unsigned a = choose(8), b = choose(8), fewer = a < b ? a : b;
    size_t most = (size_t)(64 << 10) << (fewer > doublings ? fewer : doublings);
    return 4 * (1 + choose((unsigned)(most / 4 + most / 8)));
}

static void storm(unsigned steps, unsigned lives, unsigned doublings) {
    struct tensor live[LIVE] = {{0}};
    for (unsigned step = 0; step < steps; step++) {
        struct tensor *t = &live[choose(lives)];
        drop(t);
        *t = (struct tensor){.bytes = size(doublings), .value = step, .async = choose(2)};
        t->start = allocate(0, t->bytes, t->async);
        if (t->start)
            MUST(cuMemsetD32Async(t->start, step, t->bytes / 4, stream[0]));
    }
    for (unsigned i = 0; i < lives; i++)
        drop(&live[i]);
}

/* Large ones, as these share pages. */
static void *storm_of_thread(void *steps) {
    static atomic_uint threads;
    MUST(cuCtxSetCurrent(context[0]));
    MUST(cuStreamCreate(&stream[0], CU_STREAM_NON_BLOCKING));
    state += atomic_fetch_add(&threads, 1);
    storm(*(unsigned *)steps, LIVE / THREADS, 6);
    return NULL;
}

static void storms(unsigned steps) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, storm_of_thread, &steps))
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void print_counts(void) {
    uint64_t used, most;
    emu_host_memory(&used, &most);
    printf("kept %d\nrefused %d\npinned %llu\n", atomic_load(&kept), atomic_load(&refused), (unsigned long long)most);
    printf("failed %llu\n", (unsigned long long)emu_failed());
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 1, devices = number == 2 ? 2 : 1;
    emu_spare("cuStreamSynchronize");
    print_counters_at_exit();
    MUST(cuInit(0));
    for (int d = devices; d-- > 0;) {
        CUmodule module;
        MUST(cuDevicePrimaryCtxRetain(&context[d], d));
        MUST(cuCtxSetCurrent(context[d]));
        MUST(cuStreamCreate(&stream[d], CU_STREAM_NON_BLOCKING));
        MUST(cuModuleLoadData(&module, &image));
        MUST(cuModuleGetFunction(&function[d], module, "increase"));
    }
    if (strcmp(what, "large") == 0)
        work(devices, 0);
    else if (strcmp(what, "kernel") == 0)
        work(1, 1);
    else if (strcmp(what, "small") == 0)
        small();
    else if (strcmp(what, "idle") == 0)
        idle();
    else if (strcmp(what, "storm") == 0)
        storm((unsigned)number, LIVE, 0);
    else if (strcmp(what, "storms") == 0)
        storms((unsigned)number);
    else
        return 2;
    print_counts();
    return 0;
}
