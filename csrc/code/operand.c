#include "code/field.h"

uint8_t uniform_at(const struct bits *b, int first, uint32_t set) {
    uint8_t index = (uint8_t)take(b, first, set & LATEST ? 8 : 6);
    return index == 63 && !(set & LATEST) ? ZERO : index;
}

struct operand register_at(const struct bits *b, int first, uint8_t words, bool uniform, uint32_t set) {
    struct operand o = {.kind = uniform ? OPERAND_UNIFORM : OPERAND_REGISTER, .words = words};
    o.index = uniform ? uniform_at(b, first, set) : (uint8_t)take(b, first, 8);
    if (words == 0 || o.index == ZERO)
        o.kind = words ? OPERAND_NUMBER : OPERAND_NONE;
    return o;
}

/* Odd ones, and those of a bank that a register names, are none: OPERAND_NONE. */
static struct operand constant_at(const struct bits *b, uint8_t words) {
    if (bit(b, 91) || take(b, 53, 1) || take(b, 38, 2))
        return (struct operand){0};
    return (struct operand){.kind = OPERAND_CONSTANT,
                            .words = words,
                            .index = NO_REGISTER,
                            .bank = (uint8_t)take(b, 54, 5),
                            .offset = (int32_t)take(b, 38, 16)};
}

/* What lies in bits 32 to 63, by the form. */
static struct operand middle(const struct bits *b, uint32_t form, uint8_t words, bool uniform, uint32_t set) {
    switch (form) {
    case FORM_C_NUMBER:
    case FORM_B_NUMBER:
        return (struct operand){.kind = OPERAND_NUMBER, .words = words, .number = take(b, 32, 32)};
    case FORM_C_CONSTANT:
    case FORM_B_CONSTANT:
        return constant_at(b, words);
    case FORM_B_UNIFORM:
    case FORM_C_UNIFORM:
        return register_at(b, 32, words, true, set);
    default:
        return register_at(b, 32, words, uniform, set);
    }
}

/* Negation stands beside the place, not beside the operand. Without c the second operand is b, whatever the form. */
void read_operands(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set, struct instruction *out) {
    bool uniform = o->layout == UNIFORM;
    bool c_first = o->c && (form == FORM_C_NUMBER || form == FORM_C_CONSTANT || form == FORM_C_UNIFORM);
    bool number = form == FORM_C_NUMBER || form == FORM_B_NUMBER;
    struct operand near = middle(b, form, c_first ? o->c : o->b, uniform, set);
    struct operand far = register_at(b, 64, c_first ? o->b : o->c, uniform, set);
    if ((c_first ? o->c : o->b) == 0)
        near = (struct operand){0};
    else if (near.kind == OPERAND_NONE && o->operation != OP_SELECT)
        out->operation = OP_UNKNOWN;
    near.negated = !number && bit(b, 63);
    far.negated = bit(b, 75);
    out->a = register_at(b, 24, o->a, uniform, set);
    out->a.negated = bit(b, 72);
    out->b = c_first ? far : near;
    out->c = c_first ? near : far;
}
