/* One instruction that is looked at, and what its parts ask of it. */
#ifndef ULMS_STEPPING_H
#define ULMS_STEPPING_H

#include "code/analysis.h"

struct stepping {
    struct analysis *a;
    struct values *v;
    struct state *s;
    const struct instruction *i;
    literal_t under; /* that it runs under */
};

/* Word n of a constant, or of any operand. */
value_t constant(struct stepping *x, const struct operand *o, int n);
value_t operand(struct stepping *x, const struct operand *o, int n);
/* What decided the predicate. */
value_t predicate(struct stepping *x, struct predicate p);
/* Something that all operands and predicates went into. */
value_t mixture(struct stepping *x);
/* Sets word n of what is written. */
void put(struct stepping *x, int n, value_t value);
/* Each word of it, from words of the operands, which may be the same registers. */
void put_each(struct stepping *x, value_t (*word)(struct stepping *x, int n));

static inline bool known(struct stepping *x, value_t value, uint32_t *number) {
    return value_is_number(x->v, value, number);
}

/* Sums, products, and what else may leave an address an address. */
void step_arithmetic(struct stepping *x);

#endif
