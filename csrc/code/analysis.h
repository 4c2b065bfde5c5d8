/* One analysis of a kernel, while it goes on. */
#ifndef ULMS_ANALYSIS_H
#define ULMS_ANALYSIS_H

#include "code/access.h"
#include "code/state.h"

struct analysis {
    const struct kernel *kernel;
    struct instruction *instruction;
    uint32_t instructions;
    struct values values;
    struct accesses accesses;
    bool follows_stack; /* false: something else than STL may store there */
    uint32_t steps;
};

/* What the instruction at that index does to the state, if it is no jump. */
void step(struct analysis *a, struct state *s, uint32_t at);
/* Follows every way through the kernel. */
void flow(struct analysis *a);

#endif
