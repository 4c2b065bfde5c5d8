/* Numbers that lie near each other, spread over 64 bits: best over the high ones. For tables. */
#ifndef ULMS_SPREAD_H
#define ULMS_SPREAD_H

#include <stdint.h>

static inline uint64_t spread(uint64_t number) {
    return number * 0x9e3779b97f4a7c15u; /* 2^64 divided by the golden ratio */
}

#endif
