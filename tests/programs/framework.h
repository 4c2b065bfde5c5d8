/* A program that keeps memory as PyTorch does tells of its blocks as PyTorch does. */
#ifndef PROGRAM_FRAMEWORK_H
#define PROGRAM_FRAMEWORK_H

#include <dlfcn.h>
#include <stdint.h>

struct c10_device {
    int8_t type, index;
};

/* A block at p of device 0 was given out, or, with -bytes, taken back. Nothing without ulms.so. */
static inline void report(uint64_t p, int64_t bytes) {
    enum { C10_CUDA = 1 };
    typedef void (*function)(void *, int64_t, size_t, size_t, struct c10_device);
    function tell = (function)dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    if (tell)
        tell((void *)(uintptr_t)p, bytes, 0, 0, (struct c10_device){C10_CUDA, 0});
}

#endif
