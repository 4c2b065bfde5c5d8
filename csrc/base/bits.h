/* A set of small numbers, a bit each. */
#ifndef ULMS_BITS_H
#define ULMS_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BITS_WORD = 64 };

/* Words for the numbers below n. */
static inline size_t bits_words(uint64_t n) {
    return n / BITS_WORD + 1;
}

static inline bool bits_has(const uint64_t *bits, uint32_t i) {
    return bits[i / BITS_WORD] >> i % BITS_WORD & 1;
}

static inline void bits_set(uint64_t *bits, uint32_t i, bool on) {
    uint64_t bit = (uint64_t)1 << i % BITS_WORD;
    bits[i / BITS_WORD] = on ? bits[i / BITS_WORD] | bit : bits[i / BITS_WORD] & ~bit;
}

/* The first that is there from `from` on; `end`: none below it. */
static inline uint32_t bits_first(const uint64_t *bits, uint32_t from, uint32_t end) {
    while (from < end) {
        uint64_t word = bits[from / BITS_WORD] >> from % BITS_WORD;
        if (word) {
            uint32_t i = from + (uint32_t)__builtin_ctzll(word);
            return i < end ? i : end;
        }
        from = (from / BITS_WORD + 1) * BITS_WORD;
    }
    return end;
}

#endif
