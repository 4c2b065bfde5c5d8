/* One instruction of 16 bytes: what it does, and which registers, predicates and memory take part. */
#ifndef ULMS_DECODE_H
#define ULMS_DECODE_H

#include "types.h"

enum { INSTRUCTION_BYTES = 16, NO_REGISTER = 255, NO_PREDICATE = 7 };

enum operation {
    OP_UNKNOWN,    /* not in the table of the architecture, or odd */
    OP_NOTHING,    /* leaves registers and memory as they are */
    OP_NUMBER,     /* a number of the device */
    OP_MIX,        /* of its operands, in a way that is not followed */
    OP_MIX_SHARED, /* and of shared memory */
    OP_VOTE,       /* of predicates */
    OP_MOVE,       /* b */
    OP_SELECT,     /* a or b, by a predicate */
    OP_LESSER,     /* a or b */
    OP_ADD,        /* a + b + c */
    OP_PRODUCT,    /* a * b + c */
    OP_PRODUCT_WIDE,
    OP_PRODUCT_HIGH,
    OP_SCALE,      /* (a << shift) + b */
    OP_SCALE_HIGH, /* (c:a << shift) >> 32, + b */
    OP_LOGIC,      /* of a, b, c by a table */
    OP_PERMUTE,    /* bytes of a and c, chosen by b */
    OP_SHIFT,      /* c:a by b */
    OP_SHUFFLE,    /* a of another lane */
    OP_CONSTANT,   /* what c names */
    OP_LOAD,
    OP_STORE,
    OP_ATOMIC,
    OP_REDUCE,
    OP_COPY, /* from memory to shared memory */
    OP_BULK, /* the same, or the other way: a or b is the address */
    OP_TENSOR_LOAD,
    OP_TENSOR_STORE, /* a is the address of the map */
    OP_SHARED_LOAD,
    OP_SHARED_STORE, /* b, also c and a register if it returns something */
    OP_LOCAL_LOAD,
    OP_LOCAL_STORE,
    OP_TO_PREDICATES,
    OP_FROM_PREDICATES,
    OP_BRANCH,
    OP_BRANCH_TO_REGISTER,
    OP_CALL,
    OP_CALL_REGISTER,
    OP_RETURN,
    OP_EXIT,
    OP_JOIN_AT, /* threads that diverge meet at the target */
    OP_JOIN,
    OP_COLLECT,   /* some threads go on, the others go to the target */
    OP_COLLECTED, /* and those come there, too */
};

enum operand_kind {
    OPERAND_NONE,
    OPERAND_REGISTER,
    OPERAND_UNIFORM,
    OPERAND_NUMBER,
    OPERAND_CONSTANT,
    OPERAND_ADDRESS /* half of a variable's address: number is its ordinal, twice, and the half */
};

struct operand {
    uint8_t kind;  /* enum operand_kind */
    uint8_t words; /* of 32 bits */
    uint8_t index; /* of the register; of OPERAND_CONSTANT: that which is added to the offset */
    uint8_t bank;
    bool index_uniform;
    bool negated;
    int32_t offset;  /* in the bank */
    uint64_t number; /* of OPERAND_NUMBER */
};

struct predicate {
    uint8_t index; /* NO_PREDICATE: always */
    bool uniform, negated;
};

struct instruction {
    enum operation operation;
    struct predicate guard;
    struct {
        uint8_t first; /* NO_REGISTER: none */
        uint8_t words; /* that it writes */
        uint8_t maybe; /* that it may also write, behind those */
        bool uniform;
    } to;
    struct operand a, b, c;
    uint8_t writes;      /* predicates, as bits */
    bool writes_uniform; /* they are uniform ones */
    struct predicate reads[3];
    bool extended;       /* a carry is added */
    bool partial;        /* not all bits, or not all lanes, of the registers are written */
    bool converts;       /* changes what a selection takes */
    bool makes_constant; /* a * b + c of half numbers, where compilers mean c */
    uint8_t table;       /* of OP_LOGIC; shift of OP_SCALE */
    bool left;           /* OP_SHIFT */
    bool high;           /* OP_SHIFT: the upper half */
    struct {
        uint8_t index;   /* register with the address; NO_REGISTER: none */
        uint8_t words;   /* of that address */
        uint8_t uniform; /* a descriptor; NO_REGISTER: none */
        bool generic;    /* may be shared and local memory, too */
        bool upper;      /* that one is the descriptor's upper half alone */
        int32_t offset;
        uint8_t bytes; /* that each lane loads or stores */
        bool reads, writes;
    } memory;
    int64_t target;  /* of a branch: bytes from this instruction */
    uint8_t barrier; /* OP_JOIN and OP_JOIN_AT */
    uint8_t special; /* OP_NUMBER: which */
};

/* Fills in what the 16 bytes say. OP_UNKNOWN: nothing else is told. Any bytes may be given. */
void decode(const uint8_t *bytes, uint32_t architecture, struct instruction *out);
/* Whether there is a table for the architecture. */
bool decode_knows(uint32_t architecture);

#endif
