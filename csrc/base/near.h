/* Whether an address may have been met before, told in a few steps and seldom wrongly while they are few. */
#ifndef ULMS_NEAR_H
#define ULMS_NEAR_H

#include "base/spread.h"
#include "types.h"

enum { NEAR_WORDS = 8 };

/* A bit for each address. Read by whole words as it is written: a wider load would wait for the stores before it. */
struct near {
    uint64_t bits[NEAR_WORDS];
};

/* Enters p. False: it surely was not there. */
static inline bool near_meet(struct near *n, addr_t p) {
    uint64_t hash = spread(p), *word = &n->bits[hash >> 61], bit = (uint64_t)1 << (hash >> 55 & 63);
    uint64_t before = *word;
    *word = before | bit;
    return before & bit;
}

/* Nothing has been met; or anything may have been. */
static inline void near_clear(struct near *n, bool anything) {
    uint64_t word = anything ? UINT64_MAX : 0;
    *n = (struct near){{word, word, word, word, word, word, word, word}};
}

#endif
