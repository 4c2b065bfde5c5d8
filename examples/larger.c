/* Fills more memory than a budget lets it keep, adds to each array the one before it, and looks at every number.
 *
 *     cc examples/larger.c -o larger -L"$(pump lib --emulator)" -l:libcuda.so.1
 *     pump run --memory 1GiB -- ./larger 8 256 <examples/axpy.ptx    # 8 arrays of 256 MiB */
#include <stdio.h>
#include <stdlib.h>
typedef unsigned long long pointer; /* what cuda.h declares */
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
int cuModuleLoadData(void **, const void *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(pointer *, size_t), cuMemsetD32_v2(pointer, int, size_t), cuMemcpyDtoH_v2(void *, pointer, size_t);
int cuLaunchKernel(void *, int, int, int, int, int, int, int, void *, void **, void **);
#define MUST(call) ((call) ? (fprintf(stderr, "%s failed\n", #call), exit(1)) : (void)0)

int main(int argc, char **argv) {
    int count = argc == 3 ? atoi(argv[1]) : 8, mib = argc == 3 ? atoi(argv[2]) : 16, wrong = 0;
    size_t n = (size_t)mib << 18;
    char ptx[4096] = {0};
    pointer *array = calloc(count, sizeof *array);
    float one = 1, *host = malloc(4 * n);
    void *context, *module, *axpy;
    MUST(cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context));
    MUST(!fread(ptx, 1, sizeof ptx - 1, stdin));
    if (cuModuleLoadData(&module, ptx)) /* no compiler: the emulated device */
        MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&axpy, module, "axpy"));
    for (int i = 0; i < count; i++)
        MUST(cuMemAlloc_v2(&array[i], 4 * n) || cuMemsetD32_v2(array[i], 0x3f800000, n)); /* 1.0f */
    for (int i = 1; i < count; i++) {
        void *arguments[] = {&one, &array[i - 1], &array[i], &n};
        MUST(cuLaunchKernel(axpy, (int)(n / 256), 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
    }
    for (int i = 0; i < count; i++) {
        MUST(cuMemcpyDtoH_v2(host, array[i], 4 * n));
        for (size_t k = 0; k < n; k++)
            wrong += host[k] != (float)(i + 1);
    }
    printf("%d arrays of %d MiB: %d wrong numbers\n", count, mib, wrong);
    return wrong != 0;
}
