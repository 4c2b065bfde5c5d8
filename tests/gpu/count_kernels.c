/* Counts the kernels that run in a process, by the vendor's profiler interface. Loaded by the driver through
 * CUDA_INJECTION64_PATH; at exit writes the count to the file named by COUNT_KERNELS. */
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long kernels, copies, memsets, dropped;

static void hand_out(uint8_t **buffer, size_t *size, size_t *records) {
    *size = 8 << 20;
    *buffer = aligned_alloc(8, *size);
    *records = 0;
}

static void take_back(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    size_t lost = 0;
    (void)size;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            __atomic_fetch_add(&kernels, 1, __ATOMIC_RELAXED);
        else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
            __atomic_fetch_add(&copies, 1, __ATOMIC_RELAXED);
        else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET)
            __atomic_fetch_add(&memsets, 1, __ATOMIC_RELAXED);
    }
    if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS)
        __atomic_fetch_add(&dropped, lost, __ATOMIC_RELAXED);
    free(buffer);
}

static void tell(void) {
    const char *path = getenv("COUNT_KERNELS");
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "{\"kernels\": %lu, \"copies\": %lu, \"memsets\": %lu, \"dropped\": %lu}\n", kernels, copies, memsets,
            dropped);
    fclose(file);
}

int InitializeInjection(void) {
    cuptiActivityRegisterCallbacks(hand_out, take_back);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
    atexit(tell);
    return 1;
}
