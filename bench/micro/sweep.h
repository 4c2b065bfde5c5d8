/* What a program does between two calls of ours. */
#ifndef BENCH_SWEEP_H
#define BENCH_SWEEP_H

#include <stddef.h>

/* It takes what it does not use itself out of the processor's caches, data and instructions. The code has one jump a
 * line, 2 MiB of them. */
static inline void sweep(void) {
    enum { LINE = 64, BYTES = 8 << 20 };
    static char memory[BYTES];
    for (size_t i = 0; i < BYTES; i += LINE)
        memory[i]++;
#ifdef __x86_64__
    __asm__ volatile(".rept 32768\n jmp 1f\n .balign 64\n 1:\n .endr" ::: "memory");
#else
    __asm__ volatile(".rept 32768\n b 1f\n .balign 64\n 1:\n .endr" ::: "memory");
#endif
}

#endif
