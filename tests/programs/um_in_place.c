/* A program that reads all of its memory again and again, over more than a budget lets it keep; what it does in between
 * to memory that lies on the host by then:
 *
 *   settled  nothing
 *   updated  each sweep changes all of it
 *   written  some of it is written, once
 *   reused   some is freed in stream order, allocated again and written
 *   shrunk   small memory, which stays plain, takes from the budget
 *   grown    and gives it back
 *   fits     what is left needs no more than the budget
 *
 * After each it prints a sum of what it has seen, in the end one of all words, both the same without ulms.so; and "is
 * NAME BYTES PAGES": bytes that the last sweep used on the host, and pages that the driver was told to keep there; "is
 * not PAGES": and that are not there. Under ulms.so "counter NAME VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

#include "counters.h"
#include "device.h"
#include "emu.h"

USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoH_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamSynchronize)

enum {
    MIB = 1 << 20,
    PAGE = 2 * MIB,
    BLOCKS = 12,
    BLOCK = 4 * MIB,
    SMALLS = 8,
    SMALL = MIB - 512,
    SWEEPS = 60,
    SAMPLE = 1024
};

static CUstream stream;
static CUdeviceptr block[BLOCKS]; /* 0: none */
static CUdeviceptr sum;

/* look(p, sum): samples of a block */
static void run_look(struct emu_launch *l) {
    const unsigned *p = emu_use(l, EMU_ARG(l, uint64_t, 0), BLOCK, EMU_READ);
    unsigned *to = emu_use(l, EMU_ARG(l, uint64_t, 1), sizeof *to, EMU_UPDATE);
    for (unsigned i = 0; i < BLOCK / sizeof *p; i += SAMPLE)
        *to = (*to ^ p[i]) * 16777619u;
}

/* change(p, sum) */
static void run_change(struct emu_launch *l) {
    unsigned *p = emu_use(l, EMU_ARG(l, uint64_t, 0), BLOCK, EMU_UPDATE);
    for (unsigned i = 0; i < BLOCK / sizeof *p; i += SAMPLE)
        p[i] = p[i] * 1664525u + 1013904223u;
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}};
static const struct emu_kernel kernels[] = {{"look", parameters, 2, run_look}, {"change", parameters, 2, run_change}};
static const struct emu_image image = {EMU_MAGIC, kernels, 2, NULL, 0};

static CUfunction load(const char *name) {
    CUmodule module;
    CUfunction function;
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&function, module, name));
    return function;
}

static void launch(CUfunction function, CUdeviceptr p) {
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&p, &sum}, NULL));
}

static uint64_t sweep(CUfunction function) {
    struct emu_traffic before, after;
    emu_traffic(&before);
    for (int i = 0; i < BLOCKS; i++)
        if (block[i])
            launch(function, block[i]);
    MUST(cuStreamSynchronize(stream));
    emu_traffic(&after);
    return after.in_place - before.in_place;
}

/* Pages that the driver was told to keep on the host, and that are there, or on the device. */
static int advised(int where) {
    int pages = 0;
    for (int i = 0; i < BLOCKS; i++)
        for (CUdeviceptr p = block[i]; p && p < block[i] + BLOCK; p += PAGE)
            pages += emu_page(p) == where && emu_preferred(p) == EMU_HOST;
    return pages;
}

/* Of all samples that were looked at. */
static unsigned looked_at(void) {
    unsigned all;
    MUST(cuMemcpyDtoH_v2(&all, sum, sizeof all));
    return all;
}

static unsigned sum_of_all(void) {
    static unsigned host[BLOCK / sizeof(unsigned)];
    unsigned all = 0;
    for (int i = 0; i < BLOCKS; i++) {
        if (!block[i])
            continue;
        MUST(cuMemcpyDtoH_v2(host, block[i], BLOCK));
        for (size_t k = 0; k < BLOCK / sizeof *host; k++)
            all = (all ^ host[k]) * 16777619u;
    }
    return all;
}

/* With a function of its own, so that nothing of an earlier phase foretells this one. */
static void settle(const char *name, const char *kernel, int sweeps) {
    CUfunction function = load(kernel);
    uint64_t in_place = 0;
    for (int i = 0; i < sweeps; i++)
        in_place = sweep(function);
    printf("is %s %llu %d\n", name, (unsigned long long)in_place, advised(EMU_HOST));
    printf("is not %d\n", advised(0));
    printf("%s %08x\n", name, looked_at());
}

static void overwrite(int i, unsigned value) {
    MUST(cuMemsetD32Async(block[i], value, BLOCK / 4, stream));
}

static void reuse(int i) {
    MUST(cuMemFreeAsync(block[i], stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemAllocAsync(&block[i], BLOCK, stream));
}

static void take_small(CUdeviceptr *small) {
    for (int i = 0; i < SMALLS; i++)
        MUST(cuMemAlloc_v2(&small[i], SMALL));
}

static void give_small(const CUdeviceptr *small) {
    for (int i = 0; i < SMALLS; i++)
        MUST(cuMemFree_v2(small[i]));
}

int main(int argc, char **argv) {
    CUdeviceptr small[SMALLS];
    int sweeps = argc > 1 ? atoi(argv[1]) : SWEEPS;
    use_device();
    stream = new_stream();
    MUST(cuMemAlloc_v2(&sum, sizeof(unsigned)));
    MUST(cuMemsetD32Async(sum, 0, 1, stream));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemAllocAsync(&block[i], BLOCK, stream));
        overwrite(i, 100 + (unsigned)i);
    }
    settle("settled", "look", 3 * sweeps); /* both ways are tried meanwhile */
    settle("updated", "change", sweeps);
    CUfunction change = load("change");
    for (int i = 0; i < BLOCKS; i += 3)
        i % 2 ? overwrite(i, 200 + (unsigned)i) : launch(change, block[i]);
    settle("written", "look", sweeps);
    for (int i = 0; i < BLOCKS; i += 2) {
        reuse(i);
        overwrite(i, 300 + (unsigned)i);
    }
    MUST(cuStreamSynchronize(stream));
    printf("is not %d\n", advised(0));
    settle("reused", "look", sweeps);
    take_small(small);
    settle("shrunk", "look", sweeps);
    give_small(small);
    settle("grown", "look", sweeps);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 > 0) {
            MUST(cuMemFree_v2(block[i]));
            block[i] = 0;
        }
    settle("fits", "look", sweeps);
    printf("end %08x\n", sum_of_all());
    print_counters();
    return 0;
}
