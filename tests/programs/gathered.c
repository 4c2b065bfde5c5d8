/* A decoder's memory: each step gathers two rows of a table, and reads all of its weights, which fit a budget alone.
 * The table is gathered from by a kernel with the name of PyTorch's, or with one that nobody knows.
 *
 *   gathered known|unknown STEPS
 *
 * Prints a sum of what it has seen, the same without ulms.so. Under it its counters. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "device.h"
#include "emu.h"

USE(cuMemAlloc_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyHtoD_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, TABLE = 64 * MIB, WEIGHTS = 12, WEIGHT = 4 * MIB, ROW = 4096, ROWS = 2, SAMPLE = 1024 };

#define KNOWN "_ZN2at6native24vectorized_gather_kernelILi16ElEEvPcS2_PT0_illllb"

static CUstream stream;
static CUdeviceptr table, rows, weight[WEIGHTS], sum;

/* gather(rows, table, first) */
static void run_gather(struct emu_launch *l) {
    uint64_t first = EMU_ARG(l, uint64_t, 2);
    char *to = emu_use(l, EMU_ARG(l, uint64_t, 0), (uint64_t)ROWS * ROW, EMU_WRITE);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t at = (first + 977 * i) * ROW % TABLE;
        memcpy(to + i * ROW, emu_use(l, EMU_ARG(l, uint64_t, 1) + at, ROW, EMU_READ), ROW);
    }
}

/* look(p, sum, bytes): samples */
static void run_look(struct emu_launch *l) {
    uint64_t bytes = EMU_ARG(l, uint64_t, 2);
    const unsigned *p = emu_use(l, EMU_ARG(l, uint64_t, 0), bytes, EMU_READ);
    unsigned *to = emu_use(l, EMU_ARG(l, uint64_t, 1), sizeof *to, EMU_UPDATE);
    for (uint64_t i = 0; i < bytes / sizeof *p; i += SAMPLE)
        *to = (*to ^ p[i]) * 16777619u;
}

static const struct emu_param parameters[] = {{0, 8}, {8, 8}, {16, 8}};
static const struct emu_kernel kernels[] = {
    {KNOWN, parameters, 3, run_gather}, {"gather", parameters, 3, run_gather}, {"look", parameters, 3, run_look}};
static const struct emu_image image = {EMU_MAGIC, kernels, 3, NULL, 0};

static void launch(CUfunction function, CUdeviceptr a, CUdeviceptr b, uint64_t n) {
    MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&a, &b, &n}, NULL));
}

static CUdeviceptr memory(size_t bytes, unsigned word) {
    CUdeviceptr p;
    MUST(cuMemAlloc_v2(&p, bytes));
    MUST(cuMemsetD32Async(p, word, bytes / sizeof word, stream));
    return p;
}

/* Each row of the table says which it is. */
static void number_rows(void) {
    static unsigned host[TABLE / sizeof(unsigned)];
    for (size_t i = 0; i < TABLE / sizeof *host; i++)
        host[i] = (unsigned)(i * sizeof *host / ROW);
    MUST(cuStreamSynchronize(stream)); /* it does not wait for others */
    MUST(cuMemcpyHtoD_v2(table, host, sizeof host));
}

int main(int argc, char **argv) {
    CUmodule module;
    CUfunction gather, look;
    unsigned seen;
    if (argc != 3)
        return 2;
    int steps = atoi(argv[2]);
    use_device();
    stream = new_stream();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&gather, module, strcmp(argv[1], "known") ? "gather" : KNOWN));
    MUST(cuModuleGetFunction(&look, module, "look"));
    sum = memory(sizeof(unsigned), 0);
    rows = memory((size_t)ROWS * ROW, 0);
    table = memory(TABLE, 0);
    number_rows();
    for (int i = 0; i < WEIGHTS; i++)
        weight[i] = memory(WEIGHT, 100 + (unsigned)i);
    for (int step = 0; step < steps; step++) {
        launch(gather, rows, table, (uint64_t)(step * 4099));
        launch(look, rows, sum, (uint64_t)ROWS * ROW);
        for (int i = 0; i < WEIGHTS; i++)
            launch(look, weight[i], sum, WEIGHT);
        MUST(cuStreamSynchronize(stream));
    }
    MUST(cuMemcpyDtoH_v2(&seen, sum, sizeof seen));
    printf("sum %08x\n", seen);
    print_counters();
    return 0;
}
