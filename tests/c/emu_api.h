/* The driver's functions, and what the tests of the emulator begin with. */
#ifndef EMU_API_H
#define EMU_API_H

#include "driver.h" /* generated: types, and a function type for each symbol */
#include "emu.h"
#include "emulator_rows.h"
#include "test.h"

#include <pthread.h>
#include <time.h>

#define API(symbol, exported) extern __typeof__(*(pfn_##symbol)0) exported;
EMULATOR_CALLS(API)

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
