/* What the look-alike of cuDNN answers when it refuses. */
#ifndef EMU_CUDNN_STATUS_H
#define EMU_CUDNN_STATUS_H

#include <stdlib.h>

#include "cudnn/abi.h"

enum { ALLOC_FAILED = 2, BAD_PARAM = 2000 };

static inline cudnnStatus_t made(const void *descriptor) {
    return descriptor ? CUDNN_STATUS_SUCCESS : ALLOC_FAILED;
}

/* Making and ending a descriptor, all zero at first. */
#define DESCRIPTOR(kind)                                                                                               \
    cudnnStatus_t cudnnCreate##kind##Descriptor(cudnn##kind##Descriptor_t *out) {                                      \
        return made(*out = calloc(1, sizeof **out));                                                                   \
    }                                                                                                                  \
    cudnnStatus_t cudnnDestroy##kind##Descriptor(cudnn##kind##Descriptor_t d) {                                        \
        free(d);                                                                                                       \
        return CUDNN_STATUS_SUCCESS;                                                                                   \
    }

#endif
