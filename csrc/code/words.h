/* A set of words of a kernel's parameters, of 8 bytes each. */
#ifndef ULMS_WORDS_H
#define ULMS_WORDS_H

#include "types.h"

enum { KERNEL_WORDS = 512, WORDS_PARTS = KERNEL_WORDS / 64 };

struct words {
    uint64_t bit[WORDS_PARTS];
};

static inline void words_add(struct words *w, uint32_t word) {
    w->bit[word / 64] |= UINT64_C(1) << word % 64;
}
static inline bool words_have(const struct words *w, uint32_t word) {
    return w->bit[word / 64] >> word % 64 & 1;
}
static inline void words_join(struct words *to, const struct words *from) {
    for (int i = 0; i < WORDS_PARTS; i++)
        to->bit[i] |= from->bit[i];
}
static inline uint32_t words_count(const struct words *w) {
    uint32_t count = 0;
    for (int i = 0; i < WORDS_PARTS; i++)
        count += (uint32_t)__builtin_popcountll(w->bit[i]);
    return count;
}

#endif
