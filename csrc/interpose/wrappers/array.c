/* Arrays have no address a kernel could be given: they are charged, not found. */
#include "interpose/wrappers/array.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/page.h"
#include "driver/context.h"
#include "driver/session.h"
#include "interpose/account/memory.h"

static struct hash arrays; /* CUarray or CUmipmappedArray -> struct charge */

/* Bits of an element that is stored by itself; 0 in formats that compress, or keep channels in planes. */
static uint64_t stored_bits(CUarray_format format, unsigned channels) {
    switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 32 * channels;
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return 8;
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return 16;
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
        return 32;
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return 64;
    default:
        return 0;
    }
}

/* Bits that an element takes; block-compressed formats store 4 x 4 elements together. */
static uint64_t element_bits(CUarray_format format, unsigned channels) {
    uint64_t stored = stored_bits(format, channels);
    if (stored)
        return stored;
    switch ((int)format) {
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
        return 4;
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
        return 8;
    case CU_AD_FORMAT_NV12:
        return 12;
    default:
        return 32 * channels;
    }
}

size_t array_element(CUarray array) {
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (REAL(cuArray3DGetDescriptor_v2, 0)(&d, array) != CUDA_SUCCESS)
        return 0;
    return stored_bits(d.Format, d.NumChannels) / 8;
}

static uint64_t at_least_one(uint64_t n) {
    return n ? n : 1;
}

/* UINT64_MAX: more than there are numbers for, which the driver refuses. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned level) {
    uint64_t width = at_least_one(d->Width >> level), height = at_least_one(d->Height >> level), bytes;
    uint64_t depth = d->Flags & CUDA_ARRAY3D_LAYERED ? at_least_one(d->Depth) : at_least_one(d->Depth >> level);
    bool wraps = __builtin_mul_overflow(width, height, &bytes) || __builtin_mul_overflow(bytes, depth, &bytes) ||
                 __builtin_mul_overflow(bytes, element_bits(d->Format, d->NumChannels), &bytes);
    return wraps ? UINT64_MAX : bytes / 8;
}

static bool open(struct charge *c, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    uint64_t bytes = 0;
    for (unsigned level = 0; d && level < levels && level < 64; level++)
        bytes += whole_grains(level_bytes(d, level));
    return charge_open(c, context_device(), MEMORY_ARRAY, bytes);
}

/* What it was charged is free again. */
static void end(struct charge *kept) {
    charge_end(kept);
    free(kept);
}

static CUresult close(struct charge *c, CUresult status, void *const *array) {
    charge_hold(c, status);
    if (!c->recorded || status != CUDA_SUCCESS)
        return status;
    struct charge *kept = malloc(sizeof *kept), *gone = NULL;
    bool stored = false;
    if (kept) {
        *kept = *c;
        kept->context = context_current();
        gone = hash_put(&arrays, (uint64_t)(uintptr_t)*array, kept, &stored);
    }
    if (gone)
        end(gone); /* its end was not seen */
    if (!stored) {
        charge_end(c);
        free(kept);
    }
    return status;
}

static CUresult destroyed(struct charge *kept, CUresult status, void *array) {
    if (kept && status != CUDA_SUCCESS)
        hash_put(&arrays, (uint64_t)(uintptr_t)array, kept, NULL);
    else if (kept)
        end(kept);
    return status;
}

static bool is_of(const void *kept, const void *context) {
    return ((const struct charge *)kept)->context == *(const uint64_t *)context;
}

void array_forget(uint64_t context) {
    for (struct charge *kept; (kept = hash_take_any(&arrays, is_of, &context));)
        end(kept);
}

CUresult custom_cuArrayCreate_v2(int variant, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    CUDA_ARRAY3D_DESCRIPTOR d = {0};
    struct charge c;
    if (pAllocateArray)
        d = (CUDA_ARRAY3D_DESCRIPTOR){.Width = pAllocateArray->Width,
                                      .Height = pAllocateArray->Height,
                                      .Format = pAllocateArray->Format,
                                      .NumChannels = pAllocateArray->NumChannels};
    if (open(&c, &d, pAllocateArray ? 1 : 0))
        close(&c, RELIEVED(&c, REAL(cuArrayCreate_v2, variant)(pHandle, pAllocateArray)), (void **)pHandle);
    return c.status;
}

/* Sparse arrays get their memory by mapping handles, which are charged; deferred ones likewise. */
static unsigned own_levels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels) {
    return d && !(d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) ? levels : 0;
}

CUresult custom_cuArray3DCreate_v2(int variant, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    struct charge c;
    if (open(&c, pAllocateArray, own_levels(pAllocateArray, 1)))
        close(&c, RELIEVED(&c, REAL(cuArray3DCreate_v2, variant)(pHandle, pAllocateArray)), (void **)pHandle);
    return c.status;
}

CUresult custom_cuMipmappedArrayCreate(int variant, CUmipmappedArray *pHandle,
                                       const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                       unsigned int numMipmapLevels) {
    struct charge c;
    if (open(&c, pMipmappedArrayDesc, own_levels(pMipmappedArrayDesc, numMipmapLevels)))
        close(&c, RELIEVED(&c, REAL(cuMipmappedArrayCreate, variant)(pHandle, pMipmappedArrayDesc, numMipmapLevels)),
              (void **)pHandle);
    return c.status;
}

CUresult custom_cuArrayDestroy(int variant, CUarray hArray) {
    struct charge *kept = session_on ? hash_take(&arrays, (uint64_t)(uintptr_t)hArray) : NULL;
    return destroyed(kept, REAL(cuArrayDestroy, variant)(hArray), hArray);
}

CUresult custom_cuMipmappedArrayDestroy(int variant, CUmipmappedArray hMipmappedArray) {
    struct charge *kept = session_on ? hash_take(&arrays, (uint64_t)(uintptr_t)hMipmappedArray) : NULL;
    return destroyed(kept, REAL(cuMipmappedArrayDestroy, variant)(hMipmappedArray), hMipmappedArray);
}
