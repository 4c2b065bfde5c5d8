/* What is known at one place of a kernel: the values of its registers, predicates and of its stack. */
#ifndef ULMS_CODE_STATE_H
#define ULMS_CODE_STATE_H

#include "code/decode.h"
#include "code/value.h"

enum { STACK_WORDS = 192 }; /* of 32 bits below the stack's top that are followed */

enum cell {
    CELL_REGISTER = 0,
    CELL_UNIFORM = 255,
    CELL_PREDICATE = 510, /* what decided it */
    CELL_UNIFORM_PREDICATE = 517,
    CELL_STACK = 524,
    CELL_STACK_REST = CELL_STACK + STACK_WORDS, /* what may have been stored anywhere in the stack */
    CELLS
};

/* A predicate that holds, or not: a literal. 0: always. */
typedef uint8_t literal_t;

struct state {
    struct {
        value_t value;
        value_t under; /* the value while the literal holds; if there is one */
        literal_t literal;
    } cell[CELLS];
};

literal_t literal_of(struct predicate p);
static inline literal_t literal_not(literal_t l) {
    return l ^ 0x20;
}

static inline uint32_t cell_of(bool uniform, uint32_t index) {
    return (uniform ? CELL_UNIFORM : CELL_REGISTER) + index;
}
static inline uint32_t cell_of_predicate(struct predicate p) {
    return (p.uniform ? CELL_UNIFORM_PREDICATE : CELL_PREDICATE) + p.index;
}

/* The value under the literal. */
value_t state_get(const struct state *s, uint32_t cell, literal_t under);
/* The cell becomes that, if the literal holds. maybe: or stays as it is. */
void state_put(struct state *s, struct values *v, uint32_t cell, value_t value, literal_t under, bool maybe);
/* A predicate changes: nothing is known under it. */
void state_forget(struct state *s, struct predicate p);
/* From here on the literal holds. */
void state_assume(struct state *s, literal_t holds);
/* Adds what is known of another way to the same place. False: that is nothing new. */
bool state_join(struct state *to, struct values *v, const struct state *from);

#endif
