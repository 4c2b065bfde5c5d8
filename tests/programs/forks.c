/* CUDA on either side of a fork. argv[1]: before (the parent used CUDA before it forks), after (the child is first).
 * Threads are counted before CUDA is initialised, where it is in use, and where a child begins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/abi.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr p, unsigned char value, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr p);

static void tell_threads(const char *when) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    int threads = 0;
    while (status && fgets(line, sizeof line, status))
        sscanf(line, "Threads: %d", &threads);
    if (status)
        fclose(status);
    printf("%s: %d threads\n", when, threads);
    fflush(stdout);
}

static int use_cuda(const char *who) {
    CUcontext context;
    CUdeviceptr p = 0;
    unsigned char back[4096] = {0};
    int r[7] = {0};
    r[0] = cuInit(0);
    r[1] = cuDevicePrimaryCtxRetain(&context, 0);
    r[2] = r[1] ? 0 : cuCtxSetCurrent(context);
    r[3] = cuMemAlloc_v2(&p, 1 << 20);
    r[4] = cuMemsetD8_v2(p, 7, 1 << 20);
    r[5] = cuMemcpyDtoH_v2(back, p, sizeof back);
    r[6] = cuMemFree_v2(p);
    printf("%s: %d %d %d %d %d %d %d, read %d\n", who, r[0], r[1], r[2], r[3], r[4], r[5], r[6], back[4095]);
    fflush(stdout);
    tell_threads(who);
    return r[0];
}

int main(int argc, char **argv) {
    int status;
    tell_threads("at first");
    if (argc > 1 && strcmp(argv[1], "before") == 0)
        use_cuda("parent before");
    pid_t child = fork();
    if (child == 0) {
        tell_threads("child at first");
        exit(use_cuda("child") ? 3 : 0);
    }
    waitpid(child, &status, 0);
    printf("child's status %d\n", WEXITSTATUS(status));
    use_cuda("parent after");
    return 0;
}
