/* The real functions: found once, kept for good. */
#ifndef ULMS_REAL_H
#define ULMS_REAL_H

#include <stdbool.h>

#include "driver.h" /* generated from hooks/cuda: types, enum api, api_rows, api_real */

/* The real function behind a row; variant 1 is the one for per-thread default streams. Never NULL: a function the
 * driver lacks is stood in for by one that answers "not supported". */
#define REAL(symbol, variant) ((pfn_##symbol)real_function(API_##symbol, (variant)))
void *real_first(enum api api, int variant);
static inline void *real_function(enum api api, int variant) {
    void *function = __atomic_load_n(&api_real[api][variant], __ATOMIC_ACQUIRE);
    return __builtin_expect(function != NULL, 1) ? function : real_first(api, variant);
}

/* The default stream a NULL handle means to this variant: 1 legacy, 2 per thread. Other handles are themselves. */
static inline uint64_t stream_key(int variant, const void *stream) {
    return stream ? (uint64_t)(uintptr_t)stream : (uint64_t)(variant ? 2 : 1);
}

/* The library's own function for the row; NULL when the library or the function is not there. */
void *real_find(enum api api, int variant);
/* The driver tells of this function that it does not export: keep it if none is known yet. */
void real_offer(enum api api, int variant, void *function);
/* The wrapper to give a caller instead of `found`, a function that it found under the name of the row, or its twin.
 * NULL: it keeps what it found. */
void *real_wrapper(enum api api, int variant, void *found, const void *caller);
/* What dlopen knows the row's library by; NULL: symbols carry versions, and files may have any name. */
const char *real_library(enum api api);
/* Whether calls of ours to functions of the row's library may come to the object of this address. */
bool real_comes_to(enum api api, const void *address);
/* The object that holds a real function is to stay loaded. */
void real_keep(void *function);
/* A function whose object nobody has been told yet to keep loaded; NULL: there is none. */
void *real_to_keep(void);

#endif
