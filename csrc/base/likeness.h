/* How alike two words are. */
#ifndef ULMS_LIKENESS_H
#define ULMS_LIKENESS_H

#include <stddef.h>

enum { LIKENESS_LENGTH_MAX = 63 };

/* In per cent, how much of two words is the same: letters that both have in the same order. 0 for a word longer than
 * LIKENESS_LENGTH_MAX. */
int likeness(const char *a, size_t length, const char *b);

#endif
