/* Images, and the functions and variables in them. The compiler's options pass through us unread. */
#ifndef ULMS_CUDA_ABI_MODULE_H
#define ULMS_CUDA_ABI_MODULE_H

#include "device.h"

typedef unsigned int CUjit_option;

typedef int CUlibraryOption;

typedef enum {
    CU_MODULE_LAZY_LOADING = 0x2,
} CUmoduleLoadingMode;

typedef enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
    CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
    CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
    CU_FUNC_ATTRIBUTE_SHARED_MEMORY_MODE = 17,
} CUfunction_attribute;

typedef enum {
    CU_FUNCTION_LOADING_STATE_LOADED = 1,
} CUfunctionLoadingState;

#endif
