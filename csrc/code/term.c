#include "code/stepping.h"

enum { VARIABLES = 2048 }; /* that constants name; those in instructions come behind them */
enum { WORDS_MOST = 8, HALF = 32 };

/* Words of bank 0 that are no parameters: halves of the bases of windows. */
static const struct window {
    uint16_t offset[3]; /* to sm_89, sm_90, from sm_100 on */
    uint8_t window, half;
} windows[] = {
    {{0x28, 0x28, 0x37c}, WINDOW_STACK, 0},
    {{0x18, UINT16_MAX, UINT16_MAX}, WINDOW_SHARED, 0},
    {{0x1c, UINT16_MAX, UINT16_MAX}, WINDOW_SHARED, 1},
    {{0x20, 0x20, 0x2f8}, WINDOW_LOCAL, 0},
    {{0x24, 0x24, 0x2fc}, WINDOW_LOCAL, 1},
    {{0x118, 0x208, 0x358}, WINDOW_DESCRIPTOR, 0},
    {{0x11c, 0x20c, 0x35c}, WINDOW_DESCRIPTOR, 1},
    {{UINT16_MAX, 0x198, 0x348}, WINDOW_PARAMETERS, 0},
    {{UINT16_MAX, 0x19c, 0x34c}, WINDOW_PARAMETERS, 1},
    {{0x90, 0x48, UINT16_MAX}, WINDOW_GRID, 0},
    {{0x8c, 0x44, UINT16_MAX}, WINDOW_GRID, 1},
};

static value_t bank_0(struct stepping *x, int32_t offset) {
    const struct kernel *k = x->a->kernel;
    int32_t in_parameters = offset - (int32_t)k->parameters;
    if (offset & 3)
        return value_any(x->v);
    if (in_parameters >= 0 && (uint32_t)in_parameters < k->parameter_bytes) {
        uint32_t word = (uint32_t)in_parameters / 8;
        return words_have(&k->pointer, word) ? value_base(x->v, base_of(BASE_PARAMETER, word, in_parameters / 4 & 1))
                                             : (value_t)VALUE_PLAIN;
    }
    int column = k->architecture < 90 ? 0 : k->architecture < 100 ? 1 : 2;
    for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++)
        if (offset == windows[w].offset[column])
            return value_base(x->v, base_of(BASE_WINDOW, windows[w].window, windows[w].half));
    return VALUE_PLAIN;
}

value_t constant(struct stepping *x, const struct operand *o, int n) {
    int32_t offset = o->offset + 4 * n;
    bool indexed = o->index != NO_REGISTER;
    uint32_t number;
    value_t index = indexed ? state_get(x->s, cell_of(o->index_uniform, o->index), x->under) : (value_t)VALUE_ZERO;
    if (indexed && value_is_number(x->v, index, &number)) {
        offset += (int32_t)number;
        indexed = false;
    } else if (indexed) {
        access_choose(&x->a->accesses, value_at(x->v, index));
    }
    switch (o->bank) {
    case 0:
        if (!indexed)
            return bank_0(x, offset);
        return o->words >= 2 ? value_base(x->v, base_of(BASE_ANY, 0, n & 1)) : value_any(x->v);
    case 2: /* the compiler's own numbers */
        return VALUE_PLAIN;
    case 4: /* addresses of variables */
        if (!indexed && offset >= 0 && offset / 8 < VARIABLES)
            return value_base(x->v, base_of(BASE_VARIABLE, (uint32_t)offset / 8, offset / 4 & 1));
        x->a->accesses.odd = "a variable by its number";
        return VALUE_PLAIN;
    default: /* what the program wrote there */
        return VALUE_LOADED;
    }
}

value_t operand(struct stepping *x, const struct operand *o, int n) {
    switch (o->kind) {
    case OPERAND_REGISTER:
    case OPERAND_UNIFORM:
        return n < o->words ? state_get(x->s, cell_of(o->kind == OPERAND_UNIFORM, o->index + (uint32_t)n), x->under)
                            : (value_t)VALUE_ZERO;
    case OPERAND_NUMBER:
        if (n > 0 && o->number <= UINT32_MAX && o->number)
            return VALUE_PLAIN; /* extended by its sign or not */
        return value_number(x->v, (uint32_t)(o->number >> (n * HALF)));
    case OPERAND_CONSTANT:
        return constant(x, o, n);
    case OPERAND_ADDRESS:
        return value_base(x->v, base_of(BASE_VARIABLE, VARIABLES + (uint32_t)o->number / 2, o->number & 1));
    default:
        return VALUE_ZERO;
    }
}

value_t predicate(struct stepping *x, struct predicate p) {
    return p.index == NO_PREDICATE ? (value_t)VALUE_ZERO : state_get(x->s, cell_of_predicate(p), x->under);
}

void put(struct stepping *x, int n, value_t value) {
    const struct instruction *i = x->i;
    if (x->under) /* what decides whether it is written */
        value = value_decided(x->v, value, predicate(x, i->guard), NULL);
    if (i->to.first != NO_REGISTER)
        state_put(x->s, x->v, cell_of(i->to.uniform, i->to.first + (uint32_t)n), value, x->under, i->partial);
}

void put_each(struct stepping *x, value_t (*word)(struct stepping *x, int n)) {
    value_t out[WORDS_MOST];
    for (int n = 0; n < x->i->to.words; n++)
        out[n] = word(x, n);
    for (int n = 0; n < x->i->to.words; n++)
        put(x, n, out[n]);
}

value_t mixture(struct stepping *x) {
    const struct operand *o[3] = {&x->i->a, &x->i->b, &x->i->c};
    value_t sum = VALUE_PLAIN;
    for (int n = 0; n < 3; n++) {
        for (int w = 0; w < o[n]->words; w++)
            sum = value_mix(x->v, sum, operand(x, o[n], w));
        sum = value_mix(x->v, sum, predicate(x, x->i->reads[n]));
    }
    return sum;
}
