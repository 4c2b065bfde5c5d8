/* What the look-alike of cuDNN answers when it refuses. */
#ifndef EMU_CUDNN_STATUS_H
#define EMU_CUDNN_STATUS_H

#include "cudnn/abi.h"

enum { ALLOC_FAILED = 2, BAD_PARAM = 2000 };

static inline cudnnStatus_t made(const void *descriptor) {
    return descriptor ? CUDNN_STATUS_SUCCESS : ALLOC_FAILED;
}

#endif
