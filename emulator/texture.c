/* Texture objects over memory with an address. */
#include "memory.h"

#include "emu.h"

#include <stdlib.h>

struct texture {
    CUdeviceptr start;
};

EXPORT uint64_t emu_texture(uint64_t object) {
    return ((const struct texture *)(uintptr_t)object)->start;
}

CALL(cuTexObjectCreate, CALL_CONTEXT, CUtexObject *out, const CUDA_RESOURCE_DESC *d, const CUDA_TEXTURE_DESC *how,
     const CUDA_RESOURCE_VIEW_DESC *view) {
    struct area a;
    INVALID_IF(!out || !d || !how || d->flags);
    if (d->resType != CU_RESOURCE_TYPE_LINEAR)
        NOT_EMULATED("a texture of an array, or of rows");
    INVALID_IF(view || !area_find(d->res.linear.devPtr, &a));
    struct texture *t = malloc(sizeof *t);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->start = d->res.linear.devPtr;
    *out = (CUtexObject)(uintptr_t)t;
    return CUDA_SUCCESS;
}

CALL(cuTexObjectDestroy, CALL_CONTEXT, CUtexObject object) {
    free((void *)(uintptr_t)object);
    return CUDA_SUCCESS;
}
