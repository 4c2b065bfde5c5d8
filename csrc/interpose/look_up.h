/* The real functions: found once, kept for good. */
#ifndef ULMS_LOOK_UP_H
#define ULMS_LOOK_UP_H

#include "driver.h"

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
