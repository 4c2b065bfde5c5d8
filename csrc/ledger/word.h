/* A word that look-ups read while a writer changes it.
 *
 * Every load acquires and every store releases. So a reader that saw any store of an unfinished change will also see
 * that the change had begun (seqlock.h), and no fence is needed. On x86 both are plain moves. */
#ifndef ULMS_WORD_H
#define ULMS_WORD_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t word;

static inline uint64_t get(const word *w) {
    return atomic_load_explicit(w, memory_order_acquire);
}

static inline void put(word *w, uint64_t value) {
    atomic_store_explicit(w, value, memory_order_release);
}

static inline void *get_pointer(const word *w) {
    return (void *)(uintptr_t)get(w);
}

static inline void put_pointer(word *w, const void *p) {
    put(w, (uintptr_t)p);
}

#endif
