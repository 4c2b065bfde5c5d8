/* Which of some words a misspelt one was meant to be. */
#ifndef ULMS_NEAREST_H
#define ULMS_NEAREST_H

#include <stddef.h>

enum { NEAREST_LENGTH_MAX = 63 };

/* In per cent, how much of two words is the same: letters that both have in the same order. 0 for a word longer than
 * NEAREST_LENGTH_MAX. */
int nearest_likeness(const char *a, size_t length, const char *b);

#endif
