#include "array.h"

#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

struct CUmipmappedArray_st {
    unsigned levels;
    struct CUarray_st level[];
};

static uint64_t element_bytes(CUarray_format format, unsigned channels) {
    if (channels != 1 && channels != 2 && channels != 4)
        return 0;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * channels;
    default: /* compressed and planar formats */
        return 0;
    }
}

static uint64_t at_least_one(uint64_t n) {
    return n ? n : 1;
}

/* Fills *a. On failure nothing is kept. */
static CUresult make(CUcontext c, const CUDA_ARRAY3D_DESCRIPTOR *d, struct CUarray_st *a) {
    uint64_t element = element_bytes(d->Format, d->NumChannels), bytes;
    INVALID_IF(d->Width == 0 || (d->Height == 0 && d->Depth != 0 && !(d->Flags & CUDA_ARRAY3D_LAYERED)));
    if (element == 0 || d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        NOT_EMULATED("an array of this format, sparse or mapped later");
    INVALID_IF(__builtin_mul_overflow(d->Width, element, &bytes) ||
               __builtin_mul_overflow(bytes, at_least_one(d->Height), &bytes) ||
               __builtin_mul_overflow(bytes, at_least_one(d->Depth), &bytes) || bytes > UINT64_MAX - GRANULE);
    uint64_t charged = whole_granules(bytes);
    if (!device_take(c->device, charged))
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *data = mmap(NULL, charged, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        device_give(c->device, charged);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *a = (struct CUarray_st){.description = *d,
                             .context = c,
                             .element = element,
                             .pitch = d->Width * element,
                             .rows = at_least_one(d->Height),
                             .layers = at_least_one(d->Depth),
                             .charged = charged,
                             .data = data};
    return CUDA_SUCCESS;
}

static void unmake(struct CUarray_st *a) {
    munmap(a->data, a->charged);
    device_give(a->context->device, a->charged);
}

static CUresult create(CUcontext c, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    CUarray a = calloc(1, sizeof *a);
    CUresult result = a ? make(c, d, a) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        *out = a;
    else
        free(a);
    return result;
}

CALL(cuArrayCreate_v2, CALL_CONTEXT | CALL_UNSAFE, CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
    INVALID_IF(!out || !d);
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return create(c, out, &full);
}

CALL(cuArray3DCreate_v2, CALL_CONTEXT | CALL_UNSAFE, CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    INVALID_IF(!out || !d);
    return create(c, out, d);
}

CALL(cuArrayGetDescriptor_v2, CALL_CONTEXT, CUDA_ARRAY_DESCRIPTOR *out, CUarray a) {
    INVALID_IF(!out || !a);
    const CUDA_ARRAY3D_DESCRIPTOR *d = &a->description;
    *out = (CUDA_ARRAY_DESCRIPTOR){d->Width, d->Height, d->Format, d->NumChannels};
    return CUDA_SUCCESS;
}

CALL(cuArray3DGetDescriptor_v2, CALL_CONTEXT, CUDA_ARRAY3D_DESCRIPTOR *out, CUarray a) {
    INVALID_IF(!out || !a);
    *out = a->description;
    return CUDA_SUCCESS;
}

CALL(cuArrayDestroy, CALL_CONTEXT | CALL_UNSAFE, CUarray a) {
    if (!a || a->level_of)
        return CUDA_ERROR_INVALID_HANDLE;
    context_drain(c);
    unmake(a);
    pthread_mutex_unlock(&c->lock);
    free(a);
    return CUDA_SUCCESS;
}

/* --- mipmapped: every level an array of half the size --- */

static size_t halved(size_t n, unsigned level) {
    return n == 0 ? 0 : at_least_one(n >> level);
}

static void unmake_levels(CUmipmappedArray m) {
    while (m->levels)
        unmake(&m->level[--m->levels]);
    free(m);
}

CALL(cuMipmappedArrayCreate, CALL_CONTEXT | CALL_UNSAFE, CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
     unsigned levels) {
    INVALID_IF(!out || !d || levels == 0);
    levels = levels < 32 ? levels : 32;
    CUmipmappedArray m = calloc(1, sizeof *m + levels * sizeof *m->level);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < levels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR smaller = *d;
        smaller.Width = halved(d->Width, i);
        smaller.Height = halved(d->Height, i);
        smaller.Depth = d->Flags & CUDA_ARRAY3D_LAYERED ? d->Depth : halved(d->Depth, i);
        CUresult result = make(c, &smaller, &m->level[i]);
        if (result != CUDA_SUCCESS) {
            unmake_levels(m);
            return result;
        }
        m->level[i].level_of = m;
        m->levels++;
    }
    *out = m;
    return CUDA_SUCCESS;
}

CALL(cuMipmappedArrayGetLevel, CALL_CONTEXT, CUarray *out, CUmipmappedArray m, unsigned level) {
    INVALID_IF(!out || !m || level >= m->levels);
    *out = &m->level[level];
    return CUDA_SUCCESS;
}

CALL(cuMipmappedArrayDestroy, CALL_CONTEXT | CALL_UNSAFE, CUmipmappedArray m) {
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    context_drain(c);
    unmake_levels(m);
    pthread_mutex_unlock(&c->lock);
    return CUDA_SUCCESS;
}
