/* Launches of kernels: what they were given, copied when they were issued. */
#ifndef EMU_LAUNCH_H
#define EMU_LAUNCH_H

#include "module.h"
#include "stream.h"

struct launch {
    CUfunction function;
    uint32_t shape[7]; /* grid, block, dynamic shared memory */
    size_t bytes;
    _Alignas(16) unsigned char arguments[];
};

/* A launch of the function, with its arguments in either form. CUDA_ERROR_INVALID_VALUE when they make no sense. */
CUresult launch_make(CUcontext c, CUfunction handle, const uint32_t shape[7], void **params, void **extra,
                     struct launch **out);
struct launch *launch_copy(const struct launch *l);
const char *launch_name(const struct launch *l);
/* An argument holds an address in [start, end). */
bool launch_shows(const struct launch *l, uint64_t start, uint64_t end);
void launch_run(const struct launch *l, struct emu_launch *r);

#endif
