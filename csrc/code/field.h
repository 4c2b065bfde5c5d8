/* Fields of an instruction, and the operands that they name. */
#ifndef ULMS_FIELD_H
#define ULMS_FIELD_H

#include "code/opcode.h"

enum {
    FORM_REGISTER = 1,
    FORM_C_NUMBER,
    FORM_C_CONSTANT,
    FORM_B_NUMBER,
    FORM_B_CONSTANT,
    FORM_B_UNIFORM,
    FORM_C_UNIFORM
};
enum { ZERO = 255 }; /* the register that reads as 0 */

struct bits {
    uint64_t half[2];
};

static inline uint64_t take(const struct bits *b, int first, int count) {
    uint64_t v = b->half[first / 64] >> first % 64;
    if (first % 64 + count > 64)
        v |= b->half[1] << (64 - first % 64);
    return count == 64 ? v : v & ((UINT64_C(1) << count) - 1);
}

static inline bool bit(const struct bits *b, int at) {
    return take(b, at, 1);
}

static inline int64_t extend(uint64_t v, int bits) {
    return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* A uniform register; 6 bits before sm_100, where 63 is the one that reads as 0. */
uint8_t uniform_at(const struct bits *b, int first, uint32_t set);
/* So many registers; OPERAND_NUMBER for those that read as 0, OPERAND_NONE for no words. */
struct operand register_at(const struct bits *b, int first, uint8_t words, bool uniform, uint32_t set);
/* Fills in a, b and c by the form. */
void read_operands(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set, struct instruction *out);

#endif
