/* Devices, and what is asked about them. */
#include "context.h"
#include "cost.h"
#include "environment.h"
#include "memory.h"
#include "shared.h"

#include <stdio.h>
#include <string.h>

struct device devices[DEVICES_MAX];
int device_count;
int driver_version;

CUresult devices_open(void) {
    uint64_t count = environment_number("EMU_DEVICES", 1);
    uint64_t memory = environment_number("EMU_MEMORY", 8ull << 30);
    if (count == 0)
        return CUDA_ERROR_NO_DEVICE;
    CUresult result = memory_open();
    if (result != CUDA_SUCCESS)
        return result;
    device_count = (int)(count < DEVICES_MAX ? count : DEVICES_MAX);
    for (int i = 0; i < device_count; i++)
        devices[i] = (struct device){.ordinal = i, .memory = memory};
    shared_open();
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

#define CHECK_DEVICE(d)                                                                                                \
    do {                                                                                                               \
        if (!device_valid(d))                                                                                          \
            return CUDA_ERROR_INVALID_DEVICE;                                                                          \
    } while (0)
#define CHECK_POINTER(p)                                                                                               \
    do {                                                                                                               \
        if (!(p))                                                                                                      \
            return CUDA_ERROR_INVALID_VALUE;                                                                           \
    } while (0)

EXPORT CUresult cuDeviceGetCount(int *count) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(count);
    *count = device_count;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(device);
    CHECK_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_DEVICE(d);
    if (!name || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)length, "Emulated GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(bytes);
    CHECK_DEVICE(d);
    *bytes = devices[d].memory;
    return CUDA_SUCCESS;
}

static CUresult uuid(CUuuid *out, CUdevice d) {
    CHECK_POINTER(out);
    CHECK_DEVICE(d);
    memset(out, 0, sizeof *out);
    memcpy(out->bytes, "emulated-gpu-", 13);
    out->bytes[15] = (char)d;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *out, CUdevice d) {
    BEGIN(CALL_DRIVER);
    return uuid(out, d);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *out, CUdevice d) {
    BEGIN(CALL_DRIVER);
    return uuid(out, d);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_DEVICE(d);
    if (!text || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", d + 1);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *d, const char *text) {
    BEGIN(CALL_DRIVER);
    unsigned bus;
    if (!d || !text || (sscanf(text, "%*x:%x:%*x", &bus) != 1 && sscanf(text, "%x:%*x", &bus) != 1))
        return CUDA_ERROR_INVALID_VALUE;
    CHECK_DEVICE((int)bus - 1);
    *d = (int)bus - 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(major);
    CHECK_POINTER(minor);
    CHECK_DEVICE(d);
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice d, CUdevice peer) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(can);
    CHECK_DEVICE(d);
    CHECK_DEVICE(peer);
    *can = d != peer;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(value);
    CHECK_DEVICE(from);
    CHECK_DEVICE(to);
    *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED && from != to;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(value);
    CHECK_DEVICE(d);
    *value = type != CU_EXEC_AFFINITY_TYPE_SM_COUNT;
    return CUDA_SUCCESS;
}

/* As an H200 answers, except for what is not emulated. */
static int attribute_value(CUdevice_attribute attribute, CUdevice d) {
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
        return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        return 0x7fffffff;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
        return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
        return 49152;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return 232448;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return 233472;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
        return 65536;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1980000;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
    case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
        return 512;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 132;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return 3201000;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return 6144;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return 62914560;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return 2048;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 9;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return d + 1;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        return CU_MEM_HANDLE_TYPE_NONE;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return 0;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        return -1;
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
        return 1;
    default:
        return 0;
    }
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice d) {
    BEGIN(CALL_DRIVER);
    CHECK_POINTER(value);
    CHECK_DEVICE(d);
    if (attribute < 1)
        return CUDA_ERROR_INVALID_VALUE;
    bool lacks = environment_number("EMU_LACKS", 0) == (uint64_t)attribute;
    *value = lacks ? 0 : attribute_value(attribute, d);
    return CUDA_SUCCESS;
}
