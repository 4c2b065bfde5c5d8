#include "code/stepping.h"

enum { SPECIAL_ZERO = 0xff, SPECIAL_SHARED_WINDOW = 0x2f };

static value_t move(struct stepping *x, int n) {
    return operand(x, &x->i->b, n);
}

static value_t read_constant(struct stepping *x, int n) {
    value_t value = constant(x, &x->i->c, n);
    return x->i->memory.bytes < 4 ? value_mix(x->v, value, VALUE_PLAIN) : value;
}

static void number(struct stepping *x) {
    const struct instruction *i = x->i;
    bool window = i->special == SPECIAL_SHARED_WINDOW && i->to.words == 1;
    value_t out = window                       ? value_base(x->v, base_of(BASE_WINDOW, WINDOW_SHARED, 1))
                  : i->special == SPECIAL_ZERO ? (value_t)VALUE_ZERO
                                               : (value_t)VALUE_PLAIN;
    for (int n = 0; n < i->to.words; n++)
        put(x, n, out);
}

/* Constants are also made by adding two half numbers to zero. */
static void mix(struct stepping *x) {
    const struct instruction *i = x->i;
    value_t out = mixture(x);
    if (i->operation == OP_MIX_SHARED)
        out = value_mix(x->v, out, VALUE_LOADED);
    uint32_t p, q, made;
    if (i->makes_constant && known(x, operand(x, &i->a, 0), &p) && known(x, operand(x, &i->b, 0), &q) && p == 0 &&
        q == 0 && i->c.kind == OPERAND_NUMBER && known(x, operand(x, &i->c, 0), &made))
        out = value_number(x->v, made);
    for (int n = 0; n < i->to.words; n++)
        put(x, n, out);
    for (int n = 0; n < i->to.maybe; n++)
        state_put(x->s, x->v, cell_of(i->to.uniform, i->to.first + i->to.words + (uint32_t)n), out, x->under, true);
}

/* Those that the mask names. */
static void pack_predicates(struct stepping *x) {
    value_t out = mixture(x);
    uint64_t mask = x->i->b.kind == OPERAND_NUMBER ? x->i->b.number : UINT64_MAX;
    for (uint8_t p = 0; p < NO_PREDICATE; p++)
        if (mask >> p & 1)
            out = value_mix(x->v, out, predicate(x, (struct predicate){p, x->i->to.uniform, false}));
    put(x, 0, out);
}

/* --- memory --- */

/* Where in shared memory, or in the stack, it lies. */
static void choose_place(struct stepping *x) {
    const struct instruction *i = x->i;
    if (i->memory.index != NO_REGISTER)
        access_choose(&x->a->accesses, value_at(x->v, state_get(x->s, cell_of(false, i->memory.index), x->under)));
    if (i->memory.uniform != NO_REGISTER)
        access_choose(&x->a->accesses, value_at(x->v, state_get(x->s, cell_of(true, i->memory.uniform), x->under)));
}

static void load(struct stepping *x) {
    for (int n = 0; n < x->i->to.words; n++)
        put(x, n, VALUE_LOADED);
    for (int n = 0; n < x->i->to.maybe; n++)
        state_put(x->s, x->v, cell_of(x->i->to.uniform, x->i->to.first + x->i->to.words + (uint32_t)n), VALUE_LOADED,
                  x->under, true);
}

static void store(struct stepping *x) {
    const struct operand *o[2] = {&x->i->b, &x->i->c};
    for (int n = 0; n < 2; n++)
        for (int w = 0; w < o[n]->words; w++)
            access_store(&x->a->accesses, value_at(x->v, operand(x, o[n], w)));
    access_store(&x->a->accesses, value_at(x->v, predicate(x, x->i->reads[0])));
}

static bool is_window(struct stepping *x, value_t value, enum base_window window, uint32_t half) {
    return value_is_base(x->v, value, base_of(BASE_WINDOW, window, half));
}

static void touch(struct stepping *x, value_t low, value_t high, bool reads, bool writes) {
    access_add(&x->a->accesses, (struct access){low, high, reads, writes, x->i->memory.generic});
}

/* The usual descriptor of memory, or a cache policy. */
static bool is_descriptor(struct stepping *x) {
    bool usual = true, policy = true;
    uint32_t first = x->i->memory.upper;
    for (uint32_t half = first; half < 2; half++) {
        value_t value = state_get(x->s, cell_of(true, x->i->memory.uniform + half - first), x->under);
        usual &= (value_at(x->v, value)->descriptor & descriptor_bit(false, half)) != 0;
        policy &= (value_at(x->v, value)->descriptor & descriptor_bit(true, half)) != 0;
    }
    return usual || policy;
}

static void access(struct stepping *x, bool reads, bool writes) {
    const struct instruction *i = x->i;
    bool none = i->memory.index == NO_REGISTER;
    value_t low = none ? (value_t)VALUE_ZERO : state_get(x->s, cell_of(false, i->memory.index), x->under);
    value_t high = none ? (value_t)VALUE_ZERO : state_get(x->s, cell_of(false, i->memory.index + 1u), x->under);
    if (i->memory.uniform != NO_REGISTER && !is_descriptor(x))
        x->a->accesses.odd = "a descriptor that is not known";
    touch(x, low, high, reads, writes);
}

/* The cell of a known place in the stack; CELL_STACK_REST: it is not known, or not followed. */
static uint32_t stack_cell(struct stepping *x, uint32_t words) {
    const struct instruction *i = x->i;
    value_t at = i->memory.index == NO_REGISTER ? (value_t)VALUE_ZERO
                                                : state_get(x->s, cell_of(false, i->memory.index), x->under);
    const struct value *v = value_at(x->v, at);
    int32_t offset = (int32_t)v->number + i->memory.offset;
    int32_t first = offset / 4 + STACK_WORDS;
    if (!x->a->follows_stack || !v->known || !is_window(x, at, WINDOW_STACK, 0) || offset & 3 || offset >= 0 ||
        first < 0 || (uint32_t)first + words > STACK_WORDS)
        return CELL_STACK_REST;
    return CELL_STACK + (uint32_t)first;
}

static void load_local(struct stepping *x) {
    uint32_t cell = stack_cell(x, x->i->to.words);
    for (uint32_t n = 0; n < x->i->to.words; n++) {
        value_t value = VALUE_LOADED;
        if (cell != CELL_STACK_REST && x->i->memory.bytes >= 4)
            value = value_join(x->v, x->s->cell[cell + n].value, x->s->cell[CELL_STACK_REST].value);
        put(x, (int)n, value == VALUE_NEVER ? (value_t)VALUE_LOADED : value);
    }
}

/* What is stored at a place that is not known may be met at any. */
static void store_local(struct stepping *x) {
    const struct operand *o = &x->i->b;
    uint32_t cell = stack_cell(x, o->words);
    store(x);
    for (uint32_t n = 0; n < o->words; n++) {
        value_t value = operand(x, o, (int)n);
        if (cell != CELL_STACK_REST && x->i->memory.bytes >= 4)
            state_put(x->s, x->v, cell + n, value, x->under, false);
        else
            state_put(x->s, x->v, CELL_STACK_REST, value_mix(x->v, value, VALUE_LOADED), 0, true);
    }
}

/* A tensor map is opaque: in the parameters all that it may hold is seen there, elsewhere nothing. */
static void use_map(struct stepping *x) {
    for (uint32_t half = 0; half < 2; half++)
        if (!is_window(x, operand(x, &x->i->a, (int)half), WINDOW_PARAMETERS, half))
            x->a->accesses.odd = "a tensor map in memory";
    x->a->accesses.maps = true;
}

static void bulk(struct stepping *x) {
    const struct operand *o = x->i->memory.reads ? &x->i->a : &x->i->b;
    touch(x, operand(x, o, 0), operand(x, o, 1), true, x->i->memory.writes);
}

/* --- all of it --- */

/* An instruction may write the predicate that it runs under. */
static void write_predicates(struct stepping *x, value_t why) {
    const struct instruction *i = x->i;
    bool own =
        i->guard.index != NO_PREDICATE && i->guard.uniform == i->writes_uniform && i->writes >> i->guard.index & 1;
    for (uint8_t p = 0; p < NO_PREDICATE; p++)
        if (i->writes >> p & 1) {
            struct predicate changed = {p, i->writes_uniform, false};
            state_forget(x->s, changed);
            state_put(x->s, x->v, cell_of_predicate(changed), why, own ? 0 : x->under, own);
        }
}

static void transfer(struct stepping *x) {
    const struct instruction *i = x->i;
    switch (i->operation) {
    case OP_MOVE:
        put_each(x, move);
        break;
    case OP_CONSTANT:
        put_each(x, read_constant);
        break;
    case OP_NUMBER:
        number(x);
        break;
    case OP_MIX:
    case OP_MIX_SHARED:
    case OP_VOTE:
        mix(x);
        break;
    case OP_FROM_PREDICATES:
        pack_predicates(x);
        break;
    case OP_LOAD:
        access(x, true, false);
        load(x);
        break;
    case OP_STORE:
        access(x, false, true);
        store(x);
        break;
    case OP_ATOMIC:
    case OP_REDUCE:
        access(x, true, true);
        store(x);
        load(x);
        break;
    case OP_COPY:
        access(x, true, false);
        break;
    case OP_BULK:
        bulk(x);
        break;
    case OP_TENSOR_LOAD:
    case OP_TENSOR_STORE:
        use_map(x);
        break;
    case OP_SHARED_LOAD:
        choose_place(x);
        load(x);
        break;
    case OP_SHARED_STORE:
        choose_place(x);
        store(x);
        load(x);
        break;
    case OP_LOCAL_LOAD:
        choose_place(x);
        load_local(x);
        break;
    case OP_LOCAL_STORE:
        choose_place(x);
        store_local(x);
        break;
    default:
        step_arithmetic(x);
        break;
    }
}

void step(struct analysis *a, struct state *s, uint32_t at) {
    const struct instruction *i = &a->instruction[at];
    struct stepping x = {a, &a->values, s, i, literal_of(i->guard)};
    if (i->guard.index == NO_PREDICATE && i->guard.negated)
        return;
    if (i->operation == OP_UNKNOWN)
        a->accesses.odd = "an instruction that is not known";
    bool loads = i->operation >= OP_LOAD && i->operation <= OP_LOCAL_STORE;
    value_t why = !i->writes ? (value_t)VALUE_PLAIN : loads ? (value_t)VALUE_LOADED : mixture(&x);
    transfer(&x); /* which may overwrite its operands */
    write_predicates(&x, why);
}
