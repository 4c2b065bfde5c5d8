/* Whether an address is among the latest, told in a few steps without a branch. */
#ifndef ULMS_NEAR_H
#define ULMS_NEAR_H

#include "types.h"

enum { NEAR = 16 };

typedef uint32_t near_lanes __attribute__((vector_size(16)));

struct near {
    _Alignas(64) near_lanes lane[NEAR / 4]; /* what near_key makes of each */
};

static inline uint32_t near_key(addr_t p) {
    return (uint32_t)(p >> 4);
}

/* False: surely not. */
static inline bool near_has(const struct near *n, addr_t p) {
    uint32_t key = near_key(p);
    near_lanes all = {key, key, key, key};
    near_lanes found =
        (near_lanes)((n->lane[0] == all) | (n->lane[1] == all) | (n->lane[2] == all) | (n->lane[3] == all));
    uint64_t half[2];
    __builtin_memcpy(half, &found, sizeof half);
    return half[0] | half[1];
}

/* p is number i; it takes the place of the one NEAR before it. */
static inline void near_put(struct near *n, uint32_t i, addr_t p) {
    ((uint32_t *)n->lane)[i % NEAR] = near_key(p);
}

/* None; but address 0. */
static inline void near_clear(struct near *n) {
    *n = (struct near){0};
}

#endif
