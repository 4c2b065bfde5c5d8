/* The table of opcodes, one row for each: bits 0 to 8 of an instruction. */
#ifndef ULMS_OPCODE_H
#define ULMS_OPCODE_H

#include "code/decode.h"

/* Architectures that share a table. */
enum { AMPERE = 1, HOPPER = 2, BLACKWELL = 4, GEFORCE = 8, EVERY = 15, LATER = 14, LATEST = 12 };

/* How the operands lie. */
enum layout {
    PLAIN,   /* a, b and c, as the form says */
    UNIFORM, /* the same with uniform registers and predicates */
    ACROSS,  /* PLAIN, but a uniform register is written */
    MEMORY,  /* an address, a uniform register beside it, data */
    ALONE    /* only what `decode` knows of the operation */
};

struct opcode {
    uint16_t number;
    uint8_t architectures;
    uint8_t operation; /* enum operation */
    uint8_t layout;
    int8_t to, maybe; /* registers that are written, that may also be */
    uint8_t a, b, c;  /* words of the operands */
    uint8_t writes;   /* predicates: the first at bit 81, the second at 84 */
    uint8_t reads;    /* as bits: the one at 87, at 77, at 68 */
};

/* NULL: not listed. */
const struct opcode *opcode_find(uint32_t number, uint32_t set);

#endif
