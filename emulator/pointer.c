/* What is asked about an address. */
#include "memory.h"
#include "physical.h"
#include "vmm.h"

#include <string.h>

static bool is_host(const struct area *a) {
    return a->kind == AREA_PINNED || a->kind == AREA_REGISTERED;
}

static int ordinal(const struct area *a) {
    if (a->device)
        return a->device->ordinal;
    return a->context ? a->context->device->ordinal : -2;
}

#define ANSWER(type, value)                                                                                            \
    do {                                                                                                               \
        type answer = (value);                                                                                         \
        memcpy(data, &answer, sizeof answer);                                                                          \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

static CUresult attribute(void *data, CUpointer_attribute id, uint64_t address, const struct area *a) {
    uint64_t start = a->start, bytes = a->bytes;
    switch (id) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ANSWER(CUcontext, a->kind == AREA_POOL ? NULL : a->context); /* pools are of devices */
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ANSWER(unsigned, is_host(a) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        ANSWER(CUdeviceptr, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host(a) && a->kind != AREA_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        ANSWER(uint64_t, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        ANSWER(unsigned, a->sync);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        ANSWER(unsigned long long, a->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ANSWER(unsigned, a->kind == AREA_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int, ordinal(a));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        ANSWER(unsigned, a->kind == AREA_PLAIN);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        ANSWER(uint64_t, start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        ANSWER(size_t, bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ANSWER(unsigned, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        ANSWER(uint64_t, a->kind == AREA_VMM ? physical_handle_types(a->physical) : CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        ANSWER(unsigned, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        ANSWER(unsigned,
               a->kind == AREA_VMM ? a->rights[ordinal(a) < 0 ? 0 : ordinal(a)] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ANSWER(CUmemoryPool, a->pool);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (a->kind != AREA_VMM)
        vmm_reservation(address, &start, &bytes);
    if (id == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)
        ANSWER(size_t, bytes);
    ANSWER(CUdeviceptr, start);
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute id, CUdeviceptr address) {
    BEGIN(CALL_CONTEXT);
    struct area a;
    if (!data || !area_find(address, &a))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, id, address, &a);
}

/* What an address has not gets zeros, and an unknown address is no error, as the driver answers. */
EXPORT CUresult cuPointerGetAttributes(unsigned n, CUpointer_attribute *ids, void **data, CUdeviceptr address) {
    BEGIN(CALL_CONTEXT);
    struct area a;
    if (!ids || !data)
        return CUDA_ERROR_INVALID_VALUE;
    bool known = area_find(address, &a);
    for (unsigned i = 0; i < n; i++) {
        if (known && attribute(data[i], ids[i], address, &a) == CUDA_SUCCESS)
            continue;
        bool wide = ids[i] == CU_POINTER_ATTRIBUTE_CONTEXT || ids[i] == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ||
                    ids[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER || ids[i] == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
                    ids[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR || ids[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
                    ids[i] == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES ||
                    ids[i] == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE || ids[i] == CU_POINTER_ATTRIBUTE_MAPPING_SIZE ||
                    ids[i] == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR || ids[i] == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
        int none = ids[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? -2 : 0;
        memset(data[i], 0, wide ? 8 : 4);
        memcpy(data[i], &none, sizeof none);
    }
    return CUDA_SUCCESS;
}

static bool set_sync(struct area *a, void *data) {
    a->sync = *(const unsigned *)data != 0;
    return true;
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute id, CUdeviceptr address) {
    BEGIN(CALL_CONTEXT);
    bool covered;
    unsigned on;
    if (!value || id != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&on, value, sizeof on);
    area_visit(address, 1, &covered, set_sync, &on);
    return covered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
