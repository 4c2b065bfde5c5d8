/* Arrays of pointers inside a parameter passed by value, and their places. A launch uses the first of them; those
 * behind hold what the memory held before, addresses of live memory among it. */
#ifndef ULMS_ARGUMENT_ARRAYS_H
#define ULMS_ARGUMENT_ARRAYS_H

#include "types.h"

enum { ARRAYS_MAX = 6 };

/* Blocks of threads of a launch, as far as they tell how many places it uses. */
struct grid {
    uint32_t x, y;
};

enum arrays_used {
    ARRAYS_BY_X,
    ARRAYS_BY_Y,
    ARRAYS_BY_TABLE,
    ARRAYS_BY_COUNT, /* a number among the parameter says it */
    ARRAYS_BY_RANK,  /* all, where the parameter begins with the number of a tensor's dimensions */
    ARRAYS_NONE      /* no arrays: the parameter holds no pointers */
};

/* The rest of the parameter holds no pointers. Sizes and offsets in bytes, offsets from the parameter's start. */
struct argument_arrays {
    uint16_t parameter, bytes;
    uint16_t offset; /* of the parameter in the parameter buffer */
    uint16_t arrays, array[ARRAYS_MAX];
    uint16_t places; /* of each array */
    uint16_t told;   /* enum arrays_used: where a launch tells how many of them it uses */
    uint16_t table;  /* ARRAYS_BY_TABLE: the place that each block of threads uses; ARRAYS_BY_COUNT: the number */
    uint16_t blocks; /* entries of the table */
    uint16_t width;  /* of an entry: 1 or 2 */
    uint16_t sure;   /* ARRAYS_BY_COUNT, ARRAYS_BY_RANK: words from the first array's start on that are addresses */
};

struct layout;

/* The id of the arrays among the parameters of a function, for argument_arrays_at; 0: none that is known by the
 * function's name, or the parameter's size is not what that name lets expect. The caller lets nobody else call it
 * meanwhile. */
uint16_t argument_arrays_find(const struct layout *l);
/* Any thread; valid for the life of the process. */
const struct argument_arrays *argument_arrays_at(uint16_t id);
/* How many places of each array a launch uses, with the parameter at `at`; 0: not certain, it may be all. Addresses are
 * in [low, low + size). */
unsigned argument_arrays_used(const struct argument_arrays *s, const char *at, struct grid grid, addr_t low,
                              addr_t size);

#endif
