/* What nearly all programs begin with: the first device, and streams on it. */
#ifndef PROGRAM_DEVICE_H
#define PROGRAM_DEVICE_H

#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuStreamCreate)

/* Its primary context, which is current from now on. */
static inline CUcontext use_device(void) {
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    return context;
}

/* It does not wait for the default stream. */
static inline CUstream new_stream(void) {
    CUstream stream;
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

#endif
