/* The real functions: found once, kept for good. */
#ifndef ULMS_LOOK_UP_H
#define ULMS_LOOK_UP_H

#include "driver.h"

/* dlsym as it is without this library. */
void *look_up(void *handle, const char *name);
void *look_up_version(void *handle, const char *name, const char *version);
/* The library's own function for the row; NULL when the library or the function is not there. */
void *real_find(enum api api, int variant);
/* The program found this function by itself: keep it if none is known yet. */
void real_offer(enum api api, int variant, void *function);
/* The wrapper to give instead of `found`, a function that the program found under the name of the row, or its twin.
 * NULL: it keeps what it found. Several libraries above the driver may have the name: cuDNN's own parts find each
 * other's functions so, and a wrapper would send them back to themselves. */
void *real_wrapper(enum api api, int variant, void *found);

#endif
