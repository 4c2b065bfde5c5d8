/* What decides moves in virtual time: a plan that is carried out, or greedy choice. */
#ifndef ULMS_ENGINE_MOVER_H
#define ULMS_ENGINE_MOVER_H

#include "types.h"

enum { PAGE_NONE = 0xffffffff };

struct mover_step {
    uint32_t page; /* PAGE_NONE: nothing now */
    bool bytes;    /* they go over the link; else only the place moves */
};

struct mover {
    void *self;
    /* The operation that waits may run; it does. */
    bool (*start)(void *self);
    void (*retired)(void *self);
    struct mover_step (*out)(void *self, bool bytes);
    struct mover_step (*in)(void *self, bool bytes);
    void (*left)(void *self, uint32_t page);
    void (*came)(void *self, uint32_t page);
};

#endif
