/* A library whose constructor allocates, once another thread has been told that it runs, and some time later. */
#include <stdbool.h>
#include <unistd.h>

#include "cuda/abi.h"

enum { MIB = 1 << 20, A_WHILE_US = 300000 };

CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);

extern CUcontext program_context;
extern bool program_loading;

__attribute__((constructor)) static void load(void) {
    CUdeviceptr p;
    __atomic_store_n(&program_loading, true, __ATOMIC_RELEASE);
    usleep(A_WHILE_US);
    if (cuCtxSetCurrent(program_context) || cuMemAlloc_v2(&p, 4 * MIB))
        _exit(1);
}
