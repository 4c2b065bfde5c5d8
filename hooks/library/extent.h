/* How far a library's call reaches from a pointer, and of what elements: what the rows of all libraries may name. */
#ifndef ULMS_LIBRARY_EXTENT_H
#define ULMS_LIBRARY_EXTENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "library/abi.h"

/* Elements [low, high) from a pointer; low == high: none. holes: not all of them are touched, so that a write keeps
 * what lies between. */
struct span {
    int64_t low, high;
    bool holes;
};

static inline struct span library_none(void) {
    return (struct span){0, 0, false};
}

/* Elements side by side. */
static inline struct span library_count(int64_t n) {
    return n > 0 ? (struct span){0, n, false} : library_none();
}

/* For a pointer to void, which is one to bytes. */
static inline struct span library_bytes(int64_t n) {
    return library_count(n);
}

/* Every step-th element; a negative step goes through the same elements from the other end. */
static inline struct span library_vector(int64_t n, int64_t step) {
    int64_t apart = step < 0 ? -step : step;
    return n > 0 ? (struct span){0, (n - 1) * apart + 1, n > 1 && apart > 1} : library_none();
}

/* The span `count` times, each `stride` elements behind the one before, or in front of it. */
static inline struct span library_batch(struct span one, int64_t count, int64_t stride) {
    int64_t length = one.high - one.low, way = (count - 1) * stride, apart = stride < 0 ? -stride : stride;
    if (count <= 0 || length == 0)
        return library_none();
    return (struct span){one.low + (way < 0 ? way : 0), one.high + (way > 0 ? way : 0),
                         one.holes || (count > 1 && apart > length)};
}

/* Elements of `size` bytes each, for a pointer to void. */
static inline struct span library_sized(struct span one, int64_t size) {
    return (struct span){one.low * size, one.high * size, one.holes};
}

static inline int64_t library_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t library_larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Only some of the span's elements, the first and the last among them. */
static inline struct span library_part(struct span whole) {
    whole.holes = whole.high - whole.low > 1;
    return whole;
}

/* Bits of an element; those of a type not known here as of a byte. */
static inline unsigned library_bits(cudaDataType_t type) {
    static const unsigned char bits[] = {
        [CUDA_R_32F] = 32,     [CUDA_R_64F] = 64,    [CUDA_R_16F] = 16,    [CUDA_R_8I] = 8,      [CUDA_C_32F] = 64,
        [CUDA_C_64F] = 128,    [CUDA_C_16F] = 32,    [CUDA_C_8I] = 16,     [CUDA_R_8U] = 8,      [CUDA_C_8U] = 16,
        [CUDA_R_32I] = 32,     [CUDA_C_32I] = 64,    [CUDA_R_32U] = 32,    [CUDA_C_32U] = 64,    [CUDA_R_16BF] = 16,
        [CUDA_C_16BF] = 32,    [CUDA_R_4I] = 4,      [CUDA_C_4I] = 8,      [CUDA_R_4U] = 4,      [CUDA_C_4U] = 8,
        [CUDA_R_16I] = 16,     [CUDA_C_16I] = 32,    [CUDA_R_16U] = 16,    [CUDA_C_16U] = 32,    [CUDA_R_64I] = 64,
        [CUDA_C_64I] = 128,    [CUDA_R_64U] = 64,    [CUDA_C_64U] = 128,   [CUDA_R_8F_E4M3] = 8, [CUDA_R_8F_E5M2] = 8,
        [CUDA_R_8F_UE8M0] = 8, [CUDA_R_6F_E2M3] = 6, [CUDA_R_6F_E3M2] = 6, [CUDA_R_4F_E2M1] = 4, [CUDA_R_8F_UE5M3] = 8,
    };
    return (unsigned)type < sizeof bits ? bits[type] : 8;
}

/* True when every number of the scalar is zero, of whatever sign. False for NULL. */
static inline bool library_is_zero(const void *scalar, cudaDataType_t type) {
    uint64_t value[2] = {0}, signs = 0;
    unsigned bits = library_bits(type);
    bool complex = type == CUDA_C_32F || type == CUDA_C_64F || type == CUDA_C_16F || type == CUDA_C_16BF;
    bool real = type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F || type == CUDA_R_16BF;
    if (!scalar || bits < 8)
        return false;
    switch (bits / 8) { /* each of a size the compiler knows: no call */
    case 1:
        memcpy(value, scalar, 1);
        break;
    case 2:
        memcpy(value, scalar, 2);
        break;
    case 4:
        memcpy(value, scalar, 4);
        break;
    case 8:
        memcpy(value, scalar, 8);
        break;
    default:
        memcpy(value, scalar, 16);
        break;
    }
    if (real || complex)
        signs = 1ull << (bits - 1) % 64;
    if (complex)
        signs |= 1ull << (bits / 2 - 1);
    return ((value[0] | value[1]) & ~signs) == 0;
}

#endif
