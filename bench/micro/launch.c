/* Launches in a loop, for test_launch_bench.py: 12 parameters, 675 bytes, 8 of them addresses. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/abi.h"
#include "emu.h"

enum { PARAMETERS = 12, ADDRESSES = 8, SETS = 64, BATCH = 256, BLOCK = 512 };

typedef CUresult (*launch_function)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                    CUstream, void **, void **);

/* Functions of the driver itself, and a word of pinned memory that holds streams back. */
struct bench_driver {
    CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*synchronize)(CUstream);
    uint32_t *gate;
    CUdeviceptr gate_address;
};

static void nothing(struct emu_launch *launch) {
    (void)launch;
}

/* Eight addresses between three structures and a few odd bytes, as compilers lay out tensor kernels. */
static const struct emu_param layout[PARAMETERS] = {{0, 8},   {8, 512}, {520, 8}, {528, 8}, {536, 80}, {616, 8},
                                                    {624, 8}, {632, 8}, {640, 8}, {648, 8}, {656, 16}, {672, 3}};
static const int address_at[ADDRESSES] = {0, 2, 3, 5, 6, 7, 8, 9};

static const struct emu_kernel kernel = {"twelve", layout, PARAMETERS, nothing};
const struct emu_image bench_image = {"EMUIMAGE", &kernel, 1, NULL, 0};

static char storage[SETS][680];
static void *arguments[SETS][PARAMETERS];

/* Every set points into eight blocks picked at random from `blocks` blocks of 512 bytes that start at `base`. */
void bench_arguments(CUdeviceptr base, unsigned long blocks) {
    srand(1);
    for (int s = 0; s < SETS; s++) {
        memset(storage[s], 1, sizeof storage[s]);
        for (int p = 0; p < PARAMETERS; p++)
            arguments[s][p] = storage[s] + layout[p].offset;
        for (int a = 0; a < ADDRESSES; a++) {
            unsigned long block = ((unsigned long)rand() << 16 ^ (unsigned long)rand()) % blocks;
            CUdeviceptr p = base + block * BLOCK + (unsigned long)(rand() % 4) * 128;
            memcpy(arguments[s][address_at[a]], &p, sizeof p);
        }
    }
}

void **bench_set(unsigned i) {
    return arguments[i % SETS];
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds a launch: the median over batches. Each batch waits behind a closed gate, so that the device does not
 * run, and take a processor and locks, while launches are timed; it is smaller than the launch queue. */
double bench_launch(launch_function launch, const struct bench_driver *driver, CUfunction f, CUstream stream,
                    int batches) {
    static uint32_t passed;
    double *took = malloc((size_t)batches * sizeof *took);
    for (int b = 0; b < batches; b++) {
        passed++;
        driver->wait_value(stream, driver->gate_address, passed, CU_STREAM_WAIT_VALUE_GEQ);
        for (int i = 0; i < SETS; i++)
            launch(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments[i], NULL);
        double start = now_ns();
        for (int i = 0; i < BATCH; i++)
            launch(f, 1, 1, 1, 1, 1, 1, 0, stream, arguments[i % SETS], NULL);
        took[b] = (now_ns() - start) / BATCH;
        __atomic_store_n(driver->gate, passed, __ATOMIC_RELEASE);
        driver->synchronize(stream);
    }
    qsort(took, (size_t)batches, sizeof *took, ascending);
    double median = took[batches / 2];
    free(took);
    return median;
}

/* Writes set i again, as it is: a program has just written the arguments that it gives. */
void bench_rewrite(unsigned i) {
    unsigned set = i % SETS;
    for (size_t i = 0; i < sizeof storage[set]; i++)
        ((volatile char *)storage[set])[i] = storage[set][i];
    for (int p = 0; p < PARAMETERS; p++)
        ((void *volatile *)arguments[set])[p] = arguments[set][p];
}
