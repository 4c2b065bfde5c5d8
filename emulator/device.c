/* Devices, and what is asked about them. */
#include "context.h"
#include "cost.h"
#include "environment.h"
#include "memory.h"
#include "shared.h"

#include <stdio.h>
#include <string.h>

struct device devices[DEVICES_MAX];
static int device_count;
int driver_version;

CUresult devices_open(void) {
    uint64_t count = environment_number("EMU_DEVICES", 1);
    uint64_t memory = environment_number("EMU_MEMORY", 8ull << 30);
    if (count == 0)
        return CUDA_ERROR_NO_DEVICE;
    TRY(memory_open());
    device_count = (int)(count < DEVICES_MAX ? count : DEVICES_MAX);
    for (int i = 0; i < device_count; i++)
        devices[i] = (struct device){.ordinal = i, .memory = memory};
    shared_open();
    shared_time_take();
    shared_self();
    shared_time_give();
    cost_open();
    return CUDA_SUCCESS;
}

void device_give(struct device *d, uint64_t bytes) {
    shared_give(d->ordinal, bytes);
}

bool device_valid(CUdevice ordinal) {
    return ordinal >= 0 && ordinal < device_count;
}

EXPORT int emu_device_memory(int device, uint64_t *used, uint64_t *total) {
    if (!device_valid(device))
        return -1;
    *used = shared_memory(device).used;
    *total = devices[device].memory;
    return 0;
}

EXPORT uint64_t emu_device_peak(int device) {
    return device_valid(device) ? shared_memory(device).most : 0;
}

EXPORT uint64_t emu_pages_peak(int device) {
    return device_valid(device) ? shared_memory(device).pages_most : 0;
}

/* --- the driver's questions --- */

CALL(cuDeviceGetCount, CALL_DRIVER, int *count) {
    TELL(count, device_count);
}

CALL(cuDeviceGet, CALL_DRIVER, CUdevice *device, int ordinal) {
    CHECK_DEVICE(ordinal);
    TELL(device, ordinal);
}

CALL(cuDeviceGetName, CALL_DRIVER, char *name, int length, CUdevice d) {
    CHECK_DEVICE(d);
    INVALID_IF(!name || length <= 0);
    snprintf(name, (size_t)length, "Emulated GPU");
    return CUDA_SUCCESS;
}

CALL(cuDeviceTotalMem_v2, CALL_DRIVER, size_t *bytes, CUdevice d) {
    CHECK_DEVICE(d);
    TELL(bytes, devices[d].memory);
}

CALL(cuDeviceGetUuid, CALL_DRIVER, CUuuid *out, CUdevice d) {
    INVALID_IF(!out);
    CHECK_DEVICE(d);
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, "emulated-gpu-", 13);
    out->bytes[15] = (char)d;
    return CUDA_SUCCESS;
}
SAME(cuDeviceGetUuid_v2, cuDeviceGetUuid);

/* As an H200 answers, except for what is not emulated; 0: all others. */
static const int attributes[] = {
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024,
    [CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] = 49152,
    [CU_DEVICE_ATTRIBUTE_WARP_SIZE] = 32,
    [CU_DEVICE_ATTRIBUTE_CLOCK_RATE] = 1980000,
    [CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = 132,
    [CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS] = 1,
    [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR] = 2048,
    [CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT] = 3,
    [CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING] = 1,
    [CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9,
    [CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY] = 1,
    [CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS] = 1,
    [CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR] = 1,
    [CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED] = 1,
    [CU_DEVICE_ATTRIBUTE_NUMA_ID] = -1,
};

CALL(cuDeviceGetAttribute, CALL_DRIVER, int *value, CUdevice_attribute attribute, CUdevice d) {
    CHECK_DEVICE(d);
    bool lacks = attribute >= sizeof attributes / sizeof *attributes ||
                 environment_number("EMU_LACKS", 0) == (uint64_t)attribute;
    TELL(value, lacks ? 0 : attributes[attribute]);
}
