/* How far a collective reaches: a buffer of all ranks has a slot of `count` elements for each. */
#ifndef ULMS_NCCL_EXTENT_H
#define ULMS_NCCL_EXTENT_H

#include "library/extent.h"
#include "nccl/abi.h"

/* Asked of the library; -1 and 0 where it refuses, as it will the call. */
int64_t nccl_rank(int variant, ncclComm_t comm);
int64_t nccl_ranks(int variant, ncclComm_t comm);

static inline cudaDataType_t nccl_element(ncclDataType_t type) {
    static const unsigned char element[] = {
        [ncclInt8] = CUDA_R_8I,       [ncclUint8] = CUDA_R_8U,           [ncclInt32] = CUDA_R_32I,
        [ncclUint32] = CUDA_R_32U,    [ncclInt64] = CUDA_R_64I,          [ncclUint64] = CUDA_R_64U,
        [ncclFloat16] = CUDA_R_16F,   [ncclFloat32] = CUDA_R_32F,        [ncclFloat64] = CUDA_R_64F,
        [ncclBfloat16] = CUDA_R_16BF, [ncclFloat8e4m3] = CUDA_R_8F_E4M3, [ncclFloat8e5m2] = CUDA_R_8F_E5M2,
    };
    return (unsigned)type < sizeof element ? (cudaDataType_t)element[type] : CUDA_R_8U;
}

static inline int64_t nccl_same(int64_t a, int64_t b) {
    return a == b;
}

/* Whether the part lies `at` elements behind the whole. */
static inline int64_t nccl_in_place(const void *part, const void *whole, int64_t at, ncclDataType_t type) {
    int64_t bytes = at * (int64_t)library_bits(nccl_element(type)) / 8;
    return (uintptr_t)part == (uintptr_t)whole + (uintptr_t)bytes;
}

static inline struct span nccl_slots(int64_t slots, int64_t count) {
    return library_count(slots * count);
}

/* All slots; if the rank's own one is in place, those before it, and those behind it. */
static inline struct span nccl_before(int64_t rank, int64_t ranks, int64_t count, int64_t in_place) {
    return nccl_slots(in_place ? rank : ranks, count);
}
static inline struct span nccl_behind(int64_t rank, int64_t ranks, int64_t count, int64_t in_place) {
    return in_place && rank + 1 < ranks ? (struct span){(rank + 1) * count, ranks * count, false} : library_none();
}

#endif
