/* What is known of a register's value, without running anything: where it may come from.
 *
 * A value is one of several alternatives. Each is a sum of bases, every one with coefficient one: halves of a
 * parameter's word, of a variable's address, of a window. Added are numbers, and whatever `mixed` and `loaded` say. */
#ifndef ULMS_VALUE_H
#define ULMS_VALUE_H

#include "code/words.h"

enum { VALUE_BASES = 3, VALUE_ALTERNATIVES = 6 };
enum { VALUE_MOST = 60000 };

enum base_kind {
    BASE_NONE,
    BASE_PARAMETER, /* index: the word */
    BASE_ANY,       /* some word of the parameters */
    BASE_VARIABLE,  /* of the module, index: its word in constant bank 4 */
    BASE_WINDOW,    /* index: enum base_window */
};

enum base_window {
    WINDOW_SHARED,
    WINDOW_LOCAL,
    WINDOW_PARAMETERS,
    WINDOW_DESCRIPTOR,
    WINDOW_STACK,
    WINDOW_GRID /* where the driver lets the threads of a grid wait */
};

typedef uint16_t base_t; /* kind, index, half; 0: none */

static inline base_t base_of(enum base_kind kind, uint32_t index, uint32_t half) {
    return (base_t)((uint32_t)kind << 13 | (index & 0xfff) << 1 | half);
}
static inline enum base_kind base_kind(base_t b) {
    return (enum base_kind)(b >> 13);
}
static inline uint32_t base_index(base_t b) {
    return b >> 1 & 0xfff;
}
static inline uint32_t base_half(base_t b) {
    return b & 1;
}

struct value {
    struct words mixed;                           /* words that went in otherwise: multiplied, masked, negated */
    base_t base[VALUE_ALTERNATIVES][VALUE_BASES]; /* sorted, the largest first */
    uint32_t number;                              /* if known */
    uint8_t alternatives;                         /* 0: the register was never written */
    bool known;                                   /* it is a number, or a number beside one window */
    bool loaded;                                  /* what memory held went in */
    bool other;                                   /* a base that is no parameter went in otherwise */
    uint8_t descriptor;                           /* what it surely is a half of: a bit each (descriptor_bit) */
};

/* The values of one analysis, by number; equal ones have the same. */
struct values {
    struct value *at;
    uint16_t *slots; /* open addressing */
    uint32_t count;
    bool full; /* no more can be made: nothing that was told since holds */
};

typedef uint16_t value_t; /* VALUE_NEVER: never written */
enum { VALUE_NEVER, VALUE_PLAIN, VALUE_ZERO, VALUE_LOADED };

/* False: no memory. */
bool values_open(struct values *v);
void values_close(struct values *v);

value_t value_number(struct values *v, uint32_t number);
value_t value_base(struct values *v, base_t base);
/* A number that any parameter may have gone into. */
value_t value_any(struct values *v);
/* Either of them. */
value_t value_join(struct values *v, value_t a, value_t b);
/* a + b, or a - b. */
value_t value_add(struct values *v, value_t a, value_t b, bool subtract);
/* Something that both went into, in a way that is not followed. */
value_t value_mix(struct values *v, value_t a, value_t b);
/* Something near a: what it is exactly is not known any more. */
value_t value_inexact(struct values *v, value_t a);
/* a, which b decided on, but for what is mixed into `but` (NULL: nothing). */
value_t value_decided(struct values *v, value_t a, value_t b, const struct value *but);
/* The low bits of a below 4096: no address any more. */
value_t value_low(struct values *v, value_t a);

static inline const struct value *value_at(const struct values *v, value_t a) {
    return &v->at[a];
}
/* Whether it is a known number without a base. */
bool value_is_number(const struct values *v, value_t a, uint32_t *number);
/* Whether it is nothing but that base, or also a number beside a window. */
bool value_is_base(const struct values *v, value_t a, base_t base);
/* Of a value that is the half of the usual descriptor of memory, or of a cache policy in its place. */
static inline uint8_t descriptor_bit(bool policy, uint32_t half) {
    return (uint8_t)(1u << (2 * policy + half));
}
/* Every word of which the lower half went in. */
struct words value_words(const struct value *a);
/* Mixes in that of which the upper half is a base. */
void value_add_upper(struct value *to, const struct value *a);

#endif
