/* Arrays: device memory without an address. Its bytes lie in host memory; the device is charged for them. */
#ifndef EMU_ARRAY_H
#define EMU_ARRAY_H

#include "context.h"

struct CUarray_st {
    CUDA_ARRAY3D_DESCRIPTOR description;
    CUcontext context;
    uint64_t element;     /* bytes */
    uint64_t pitch, rows; /* bytes of a row, rows of a layer */
    uint64_t layers;
    uint64_t charged;
    unsigned char *data;
    CUmipmappedArray level_of; /* NULL: an array of its own */
};

#endif
