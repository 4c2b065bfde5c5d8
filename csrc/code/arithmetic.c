#include "code/stepping.h"

enum { HALF = 32, PAGE_MASK = 4095 };

/* A carry comes from the lower halves of the words whose upper halves are added here. */
static value_t with_carry(struct stepping *x, value_t value, int n) {
    const struct operand *o[3] = {&x->i->a, &x->i->b, &x->i->c};
    struct value but = {0};
    if (!x->i->extended)
        return value;
    value = value_inexact(x->v, value);
    for (int k = 0; k < 3; k++)
        value_add_upper(&but, value_at(x->v, operand(x, o[k], n)));
    value = value_decided(x->v, value, predicate(x, x->i->reads[0]), &but);
    return value_decided(x->v, value, predicate(x, x->i->reads[1]), &but);
}

/* What is subtracted comes last, as it may cancel what was added. */
static value_t sum_of(struct stepping *x, const value_t *value, const bool *negated, int count) {
    value_t sum = VALUE_ZERO;
    for (int pass = 0; pass < 2; pass++)
        for (int n = 0; n < count; n++)
            if (negated[n] == (pass == 1))
                sum = value_add(x->v, sum, value[n], pass == 1);
    return sum;
}

static value_t add(struct stepping *x, int n) {
    const struct instruction *i = x->i;
    bool negated[3] = {i->a.negated, i->b.negated, i->c.negated};
    value_t value[3] = {operand(x, &i->a, n), operand(x, &i->b, n), operand(x, &i->c, n)};
    value_t sum = sum_of(x, value, negated, 3);
    return with_carry(x, n ? value_inexact(x->v, sum) : sum, n);
}

static value_t times(struct stepping *x, value_t a, value_t b) {
    uint32_t p, q;
    bool a_known = known(x, a, &p), b_known = known(x, b, &q);
    if ((a_known && p == 0) || (b_known && q == 0))
        return VALUE_ZERO;
    if (a_known && b_known)
        return value_number(x->v, p * q);
    if (b_known && (q == 1 || q == UINT32_MAX))
        return q == 1 ? a : value_add(x->v, VALUE_ZERO, a, true);
    if (a_known && (p == 1 || p == UINT32_MAX))
        return p == 1 ? b : value_add(x->v, VALUE_ZERO, b, true);
    return value_mix(x->v, a, b);
}

static void multiply(struct stepping *x) {
    const struct instruction *i = x->i;
    value_t a = operand(x, &i->a, 0), b = operand(x, &i->b, 0), low = times(x, a, b);
    bool nothing = a == VALUE_ZERO || b == VALUE_ZERO;
    value_t high = nothing ? (value_t)VALUE_ZERO : value_mix(x->v, a, b);
    if (i->operation == OP_PRODUCT_HIGH) {
        value_t rest = value_mix(x->v, operand(x, &i->c, 0), operand(x, &i->c, 1));
        put(x, 0, with_carry(x, value_mix(x->v, high, rest), 0));
        return;
    }
    bool negated[2] = {i->a.negated, i->c.negated};
    low = sum_of(x, (value_t[]){low, operand(x, &i->c, 0)}, negated, 2);
    if (i->operation == OP_PRODUCT_WIDE) {
        high = sum_of(x, (value_t[]){high, operand(x, &i->c, 1)}, negated, 2);
        put(x, 0, low);
        put(x, 1, high == VALUE_ZERO ? high : value_inexact(x->v, high));
    } else {
        put(x, 0, with_carry(x, low, 0));
    }
}

static void scale(struct stepping *x) {
    const struct instruction *i = x->i;
    value_t a = operand(x, &i->a, 0), b = operand(x, &i->b, 0), scaled = value_mix(x->v, a, VALUE_PLAIN);
    uint32_t number;
    if (i->operation == OP_SCALE_HIGH)
        scaled = value_mix(x->v, scaled, operand(x, &i->c, 0));
    else if (i->table == 0)
        scaled = a;
    else if (known(x, a, &number))
        scaled = value_number(x->v, number << i->table);
    bool negated[2] = {i->a.negated, i->b.negated};
    put(x, 0, with_carry(x, sum_of(x, (value_t[]){scaled, b}, negated, 2), 0));
}

/* --- bits --- */

/* The table for a known operand: its place among three, and all bits of it the same. */
static bool ignores(uint8_t table, int place) {
    static const uint8_t ones[3] = {0xf0, 0xcc, 0xaa};
    static const int shift[3] = {4, 2, 1};
    return ((table & ones[place]) >> shift[place]) == (table & (uint8_t)~ones[place]);
}

/* a & mask, where nothing but low bits is cleared, or kept. */
static value_t masked(struct stepping *x, value_t a, uint32_t mask) {
    uint32_t cleared = ~mask;
    if (mask == UINT32_MAX)
        return a;
    if (mask == 0)
        return VALUE_ZERO;
    if (cleared <= PAGE_MASK && (cleared & (cleared + 1)) == 0)
        return value_inexact(x->v, a);
    return mask <= PAGE_MASK ? value_low(x->v, a) : value_mix(x->v, a, VALUE_PLAIN);
}

static value_t two_operands(struct stepping *x, value_t a, value_t b, uint8_t table) {
    uint32_t p, q;
    bool a_known = known(x, a, &p), b_known = known(x, b, &q);
    uint8_t of_two =
        (uint8_t)((table >> 7 & 1) << 3 | (table >> 5 & 1) << 2 | (table >> 3 & 1) << 1 | (table >> 1 & 1));
    if (of_two == 8 && b_known)
        return masked(x, a, q);
    if (of_two == 8 && a_known)
        return masked(x, b, p);
    if ((of_two == 14 || of_two == 6) && b_known && q == 0)
        return a;
    if ((of_two == 14 || of_two == 6) && a_known && p == 0)
        return b;
    return value_mix(x->v, a, b);
}

static uint32_t looked_up(uint32_t a, uint32_t b, uint32_t c, uint8_t table) {
    uint32_t out = 0;
    for (uint32_t n = 0; n < 8; n++)
        if (table >> n & 1)
            out |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
    return out;
}

static void logic(struct stepping *x) {
    value_t a = operand(x, &x->i->a, 0), b = operand(x, &x->i->b, 0), c = operand(x, &x->i->c, 0), out;
    uint8_t table = x->i->table;
    uint32_t p, q, r = 0;
    bool c_known = known(x, c, &r);
    if (c_known && r == 0) /* only the entries for it count */
        table = (uint8_t)((table & 0x55) | (table & 0x55) << 1);
    bool without[3] = {ignores(table, 0), ignores(table, 1), ignores(table, 2)};
    if (table == 0 || table == UINT8_MAX)
        out = value_number(x->v, table ? UINT32_MAX : 0);
    else if (known(x, a, &p) && known(x, b, &q) && (c_known || without[2]))
        out = value_number(x->v, looked_up(p, q, r, table));
    else if (table == 0xf0 || table == 0xcc || table == 0xaa)
        out = table == 0xf0 ? a : table == 0xcc ? b : c;
    else if (without[2])
        out = two_operands(x, a, b, table);
    else
        out = value_mix(x->v, value_mix(x->v, a, b), c);
    put(x, 0, out);
}

static void shift(struct stepping *x) {
    uint32_t by, number;
    bool left = x->i->left;
    value_t a = operand(x, &x->i->a, 0), out = mixture(x);
    if (!x->i->high && known(x, operand(x, &x->i->b, 0), &by) && by < HALF) {
        if (by == 0 && left)
            out = a;
        else if (known(x, a, &number) && (left || (operand(x, &x->i->c, 0) == VALUE_ZERO && number <= INT32_MAX)))
            out = value_number(x->v, left ? number << by : number >> by);
    }
    put(x, 0, out);
}

static void permute(struct stepping *x) {
    uint32_t order;
    value_t out = mixture(x);
    if (known(x, operand(x, &x->i->b, 0), &order) && (order == 0x3210 || order == 0x7654))
        out = operand(x, order == 0x3210 ? &x->i->a : &x->i->c, 0);
    put(x, 0, out);
}

static value_t written(value_t value) {
    return value == VALUE_NEVER ? (value_t)VALUE_PLAIN : value;
}

static value_t choose(struct stepping *x, int n) {
    value_t a = written(operand(x, &x->i->a, n)), b = written(operand(x, &x->i->b, n));
    value_t either = value_join(x->v, a, b);
    for (int p = 0; p < 2; p++)
        either = value_decided(x->v, either, predicate(x, x->i->reads[p]), NULL);
    return x->i->converts ? mixture(x) : either;
}

/* --- all of it --- */

void step_arithmetic(struct stepping *x) {
    switch (x->i->operation) {
    case OP_SELECT:
    case OP_LESSER:
        put_each(x, choose);
        break;
    case OP_ADD:
        put_each(x, add);
        break;
    case OP_PRODUCT:
    case OP_PRODUCT_WIDE:
    case OP_PRODUCT_HIGH:
        multiply(x);
        break;
    case OP_SCALE:
    case OP_SCALE_HIGH:
        scale(x);
        break;
    case OP_LOGIC:
        logic(x);
        break;
    case OP_PERMUTE:
        permute(x);
        break;
    case OP_SHIFT:
        shift(x);
        break;
    case OP_SHUFFLE:
        put(x, 0, value_decided(x->v, value_inexact(x->v, operand(x, &x->i->a, 0)), operand(x, &x->i->b, 0), NULL));
        break;
    default:
        break;
    }
}
