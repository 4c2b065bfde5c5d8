/* What goes with something else. argv[1]: arrays (with their context, again and again), old (these, with the call of
 * CUDA 3), fork (a child frees what its parent has). Prints what the driver answers. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuCtxCreate_v4)
USE(cuCtxDestroy)
USE(cuCtxDestroy_v2)
USE(cuArrayCreate_v2)
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)

enum { TIMES = 12, WIDE = 1 << 20, BLOCK = 32 << 20 };

static void arrays(pfn_cuCtxDestroy_v2 destroy) {
    const CUDA_ARRAY_DESCRIPTOR flat = {
        .Width = WIDE, .Height = 8, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    for (int i = 0; i < TIMES; i++) {
        CUcontext context;
        CUarray array;
        MUST(cuCtxCreate_v4(&context, NULL, 0, 0));
        MUST(cuArrayCreate_v2(&array, &flat));
        MUST(destroy(context));
    }
}

static void in_a_child(void) {
    CUcontext context;
    CUdeviceptr p;
    int status = -1;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc_v2(&p, BLOCK));
    pid_t child = fork();
    if (child == 0)
        _exit(cuMemFree_v2(p) == CUDA_SUCCESS);
    waitpid(child, &status, 0);
    printf("freed in the child: %d\n", WEXITSTATUS(status));
    MUST(cuMemFree_v2(p));
}

int main(int argc, char **argv) {
    MUST(cuInit(0));
    if (argc > 1 && strcmp(argv[1], "arrays") == 0)
        arrays(cuCtxDestroy_v2);
    else if (argc > 1 && strcmp(argv[1], "old") == 0)
        arrays(cuCtxDestroy);
    else
        in_a_child();
    printf("done\n");
    return 0;
}
