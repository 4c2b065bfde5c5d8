/* How much of a thread's stack a call uses: what lies below is painted before, and looked at afterwards. */
#ifndef PROGRAM_PAINTED_H
#define PROGRAM_PAINTED_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAINTED_STACK = 512 << 10, PAINTED_DEPTH = 128 << 10, PAINTED_RED_ZONE = 128 };
#define PAINT 0x5ca1ab1edecaf123ull

static inline uint64_t *painted_here(void) {
#ifdef __x86_64__
    register uint64_t *here __asm__("rsp");
#else
    register uint64_t *here __asm__("sp");
#endif
    __asm__ volatile("" : "=r"(here));
    return here;
}

/* Bytes that use(data) wrote below this frame. The thread has a large stack. */
static __attribute__((noinline)) size_t painted_use(void (*use)(void *), void *data) {
    uint64_t *here = painted_here() - PAINTED_RED_ZONE / 8, *low = here - PAINTED_DEPTH / 8;
    for (volatile uint64_t *p = low; p < here; p++)
        *p = PAINT;
    use(data);
    while (low < here && *(volatile uint64_t *)low == PAINT)
        low++;
    return (size_t)(here - low) * 8 + PAINTED_RED_ZONE;
}

/* On a thread whose stack is large enough. */
static inline void painted_run(void *(*run)(void *)) {
    pthread_t thread;
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, PAINTED_STACK);
    if (pthread_create(&thread, &large, run, NULL))
        exit(2);
    pthread_join(thread, NULL);
}

#endif
