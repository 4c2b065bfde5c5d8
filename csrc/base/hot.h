/* What every launch, and every block of the framework's allocator, runs through lies together, code and data: between
 * two of them a program takes ours out of the processor's caches, of lines and of addresses, and what is scattered
 * would then be missed one after the other. For the same reason what will be read is fetched ahead, all at once. */
#ifndef ULMS_HOT_H
#define ULMS_HOT_H

#include <stddef.h>
#include <stdint.h>

/* Functions. What they seldom need is a function of its own without the mark, and not inlined (SELDOM). */
#define HOT    __attribute__((section(".text.hot.pump")))
#define SELDOM __attribute__((noinline))
/* What only a library's call runs through lies behind them. */
#define HOT_CALL __attribute__((section(".text.sorted.pump")))
/* Variables that are seldom written. */
#define HOT_DATA __attribute__((section("hot_data")))
/* A large one, behind them, of which only the first lines are hot. */
#define HOT_FIRST __attribute__((section("hot_first")))

enum { HOT_LINE = 64 };

/* These bytes from `at` on will be read; it may be no memory at all. A number that the compiler knows: a loop that ends
 * where a load says would wait for it. */
static inline void fetch(uintptr_t at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += HOT_LINE)
        __builtin_prefetch((const void *)(at + i));
}

#endif
