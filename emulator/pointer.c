/* What is asked about an address. */
#include "memory.h"
#include "physical.h"
#include "vmm.h"

#include <string.h>

#define ANSWER(type, value)                                                                                            \
    do {                                                                                                               \
        type answer = (value);                                                                                         \
        memcpy(data, &answer, sizeof answer);                                                                          \
        return CUDA_SUCCESS;                                                                                           \
    } while (0)

static CUresult attribute(void *data, CUpointer_attribute id, uint64_t address, const struct area *a) {
    const struct device *d = a->device ? a->device : a->context ? a->context->device : NULL;
    switch (id) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        ANSWER(CUcontext, a->kind == AREA_POOL ? NULL : a->context); /* pools are of devices */
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        ANSWER(unsigned, area_is_host(a) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        INVALID_IF(!area_is_host(a) && a->kind != AREA_MANAGED);
        /* fall through */
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        ANSWER(uint64_t, address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        ANSWER(unsigned long long, a->id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        ANSWER(unsigned, a->kind == AREA_MANAGED);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        ANSWER(int, d ? d->ordinal : -2);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        ANSWER(uint64_t, a->start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        ANSWER(size_t, a->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
        ANSWER(int, 1);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        ANSWER(CUmemoryPool, a->pool);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CALL(cuPointerGetAttribute, CALL_CONTEXT, void *data, CUpointer_attribute id, CUdeviceptr address) {
    struct area a;
    INVALID_IF(!data || !area_find(address, &a));
    return attribute(data, id, address, &a);
}

/* What an address has not gets zeros, and an unknown address is no error, as the driver answers. */
CALL(cuPointerGetAttributes, CALL_CONTEXT, unsigned n, CUpointer_attribute *ids, void **data, CUdeviceptr address) {
    struct area a;
    INVALID_IF(!ids || !data);
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

/* Copies of such memory wait for nothing more here. */
CALL(cuPointerSetAttribute, CALL_CONTEXT, const void *value, CUpointer_attribute id, CUdeviceptr address) {
    struct area a;
    INVALID_IF(!value || id != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !area_find(address, &a));
    return CUDA_SUCCESS;
}
