/* The binary interface of NCCL in our own words: names and values are the vendor's. */
#ifndef ULMS_NCCL_ABI_H
#define ULMS_NCCL_ABI_H

#include "library/abi.h"

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow *ncclWindow_t;
/* Handed on only. */
typedef struct ncclSimInfo ncclSimInfo_t;
typedef struct ncclCollConfig ncclCollConfig_t;

typedef enum {
    ncclSuccess = 0,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
} ncclResult_t;

typedef enum {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
} ncclDataType_t;

/* Numbers above the last one are operators that the program made. */
typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclMaxRedOp = 0x7fffffff,
} ncclRedOp_t;

typedef enum {
    ncclScalarDevice = 0,
    ncclScalarHostImmediate = 1,
} ncclScalarResidence_t;

#endif
