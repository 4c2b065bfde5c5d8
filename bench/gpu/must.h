/* What the programs that call the driver share: plain C, and C++ of CUDA's compiler. What it refuses ends them. */
#ifndef BENCH_MUST_H
#define BENCH_MUST_H

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call) must((call), #call)
static inline void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: error %d\n", what, (int)result);
    exit(1);
}

static inline double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

#endif
