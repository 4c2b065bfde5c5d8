#include "code/opcode.h"

/* clang-format off */
static const struct opcode rows[] = {
    /* moves */
    {0x002, EVERY, OP_MOVE, PLAIN, 1, 0, 0, 1, 0, 0, 0},
    {0x003, EVERY, OP_FROM_PREDICATES, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* P2R */
    {0x004, EVERY, OP_TO_PREDICATES, PLAIN, 0, 0, 1, 1, 0, 0, 0},   /* R2P */
    {0x005, EVERY, OP_NUMBER, ALONE, 1, 0, 0, 0, 0, 0, 0},          /* CS2R */
    {0x006, EVERY, OP_VOTE, ALONE, 1, 0, 0, 0, 0, 1, 1},
    {0x007, EVERY, OP_SELECT, PLAIN, 1, 0, 1, 1, 0, 0, 1},
    {0x008, EVERY, OP_SELECT, PLAIN, 1, 0, 1, 1, 0, 0, 1}, /* FSEL */
    {0x016, EVERY, OP_PERMUTE, PLAIN, 1, 0, 1, 1, 1, 0, 0},
    {0x0ca, LATER, OP_MOVE, ALONE, 1, 0, 1, 0, 0, 1, 0}, /* R2UR */
    {0x119, EVERY, OP_NUMBER, ALONE, 1, 0, 0, 0, 0, 0, 0}, /* S2R */
    {0x189, EVERY, OP_SHUFFLE, PLAIN, 1, 0, 1, 0, 0, 1, 0},
    {0x1c2, AMPERE, OP_MOVE, ALONE, 1, 0, 1, 0, 0, 1, 0}, /* R2UR */
    {0x1c3, EVERY, OP_NUMBER, ACROSS, 1, 0, 0, 0, 0, 0, 0}, /* S2UR */
    /* integers */
    {0x010, EVERY, OP_ADD, PLAIN, 1, 0, 1, 1, 1, 2, 0},
    {0x011, EVERY, OP_SCALE, PLAIN, 1, 0, 1, 1, 1, 1, 0},
    {0x012, EVERY, OP_LOGIC, PLAIN, 1, 0, 1, 1, 1, 1, 1},
    {0x013, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* IABS */
    {0x017, AMPERE, OP_LESSER, PLAIN, 1, 0, 1, 1, 0, 0, 1},  /* IMNMX */
    {0x017, GEFORCE, OP_LESSER, PLAIN, 1, 0, 1, 1, 0, 2, 3},
    {0x019, EVERY, OP_SHIFT, PLAIN, 1, 0, 1, 1, 1, 0, 0},
    {0x00f, HOPPER | BLACKWELL, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 1}, /* VIMNMX3 */
    {0x01a, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* SGXT */
    {0x01b, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* BMSK */
    {0x024, EVERY, OP_PRODUCT, PLAIN, 1, 0, 1, 1, 1, 0, 0},
    {0x025, EVERY, OP_PRODUCT_WIDE, PLAIN, 2, 0, 1, 1, 2, 1, 0},
    {0x026, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0}, /* IDP */
    {0x027, EVERY, OP_PRODUCT_HIGH, PLAIN, 1, 0, 1, 1, 2, 1, 0},
    {0x035, GEFORCE, OP_ADD, PLAIN, 1, 0, 1, 1, 0, 1, 0}, /* IADD */
    {0x036, HOPPER | BLACKWELL, OP_ADD, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* VIADD */
    {0x046, HOPPER | BLACKWELL, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 1}, /* VIADDMNMX */
    {0x048, LATER, OP_LESSER, PLAIN, 1, 0, 1, 1, 0, 2, 1}, /* VIMNMX */
    {0x100, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 1, 0}, /* FLO */
    {0x101, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* BREV */
    {0x0cc, BLACKWELL, OP_MIX, ACROSS, 1, 0, 1, 0, 0, 0, 0}, /* CREDUX */
    {0x109, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* POPC */
    /* uniform */
    {0x04a, GEFORCE, OP_LESSER, UNIFORM, 1, 0, 1, 1, 0, 2, 1}, /* UVIMNMX */
    {0x082, EVERY, OP_MOVE, UNIFORM, 1, 0, 0, 1, 0, 0, 0},
    {0x083, EVERY, OP_FROM_PREDICATES, UNIFORM, 1, 0, 1, 1, 0, 0, 0}, /* UP2UR */
    {0x086, EVERY, OP_VOTE, ACROSS, 1, 0, 0, 0, 0, 1, 1},
    {0x087, EVERY, OP_SELECT, UNIFORM, 1, 0, 1, 1, 0, 0, 1},
    {0x08c, EVERY, OP_NOTHING, UNIFORM, 0, 0, 1, 1, 0, 2, 5},
    {0x090, EVERY, OP_ADD, UNIFORM, 1, 0, 1, 1, 1, 2, 0},
    {0x091, EVERY, OP_SCALE, UNIFORM, 1, 0, 1, 1, 1, 1, 0},
    {0x092, EVERY, OP_LOGIC, UNIFORM, 1, 0, 1, 1, 1, 1, 1},
    {0x096, AMPERE | HOPPER | BLACKWELL, OP_PERMUTE, UNIFORM, 1, 0, 1, 1, 1, 0, 0},
    {0x09a, EVERY, OP_MIX, UNIFORM, 1, 0, 1, 1, 0, 0, 0}, /* USGXT */
    {0x09b, EVERY, OP_MIX, UNIFORM, 1, 0, 1, 1, 0, 0, 0}, /* UBMSK */
    {0x097, LATER, OP_ADD, UNIFORM, 2, 0, 2, 2, 2, 2, 0},
    {0x099, EVERY, OP_SHIFT, UNIFORM, 1, 0, 1, 1, 1, 0, 0},
    {0x09c, EVERY, OP_NOTHING, UNIFORM, 0, 0, 0, 0, 0, 2, 7}, /* UPLOP3 */
    {0x0a4, EVERY, OP_PRODUCT, UNIFORM, 1, 0, 1, 1, 1, 0, 0},
    {0x0a5, EVERY, OP_PRODUCT_WIDE, UNIFORM, 2, 0, 1, 1, 2, 1, 0},
    {0x0bd, EVERY, OP_MIX, UNIFORM, 1, 0, 0, 1, 0, 1, 0}, /* UFLO */
    {0x0be, EVERY, OP_MIX, UNIFORM, 1, 0, 0, 1, 0, 0, 0}, /* UBREV */
    {0x0bf, EVERY, OP_MIX, UNIFORM, 1, 0, 0, 1, 0, 0, 0}, /* UPOPC */
    /* constants */
    {0x182, EVERY, OP_CONSTANT, ALONE, 1, 0, 0, 0, 1, 0, 0}, /* LDC */
    {0x0b9, AMPERE | HOPPER, OP_CONSTANT, UNIFORM, 1, 0, 0, 0, 1, 0, 0}, /* ULDC */
    {0x0bb, AMPERE | HOPPER, OP_CONSTANT, UNIFORM, 1, 0, 0, 0, 1, 0, 0}, /* ULDC with an index */
    {0x1ac, LATEST, OP_CONSTANT, UNIFORM, 1, 0, 0, 0, 1, 0, 0}, /* LDCU */
    /* memory */
    {0x180, EVERY, OP_LOAD, MEMORY, 0, 0, 0, 0, 0, 0, 0},
    {0x181, EVERY, OP_LOAD, MEMORY, 0, 0, 0, 0, 0, 1, 0},
    {0x185, EVERY, OP_STORE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x186, EVERY, OP_STORE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x18a, EVERY, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 0, 1, 0},
    {0x18b, EVERY, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 1, 1, 0}, /* ATOM.CAS */
    {0x1a2, LATER, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 0, 1, 0},
    {0x1a3, LATER, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 0, 1, 0},
    {0x1a8, EVERY, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 0, 1, 0},
    {0x1a9, EVERY, OP_ATOMIC, MEMORY, 1, 0, 0, 1, 1, 1, 0}, /* ATOMG.CAS */
    {0x18e, EVERY, OP_REDUCE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x1a6, LATER, OP_REDUCE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x1ae, EVERY, OP_COPY, MEMORY, 0, 0, 0, 0, 0, 0, 0}, /* LDGSTS */
    {0x184, EVERY, OP_SHARED_LOAD, MEMORY, 1, 0, 0, 0, 0, 0, 0},
    {0x03b, EVERY, OP_SHARED_LOAD, MEMORY, 1, 0, 0, 0, 0, 0, 0}, /* LDSM */
    {0x188, EVERY, OP_SHARED_STORE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x044, LATER, OP_SHARED_STORE, MEMORY, 0, 0, 0, 4, 0, 0, 0}, /* STSM */
    {0x18c, EVERY, OP_SHARED_STORE, MEMORY, 1, 1, 0, 2, 0, 0, 0}, /* ATOMS */
    {0x18d, EVERY, OP_SHARED_STORE, MEMORY, 1, 1, 0, 2, 2, 0, 0}, /* ATOMS.CAS */
    {0x183, EVERY, OP_LOCAL_LOAD, MEMORY, 0, 0, 0, 0, 0, 0, 0},
    {0x187, EVERY, OP_LOCAL_STORE, MEMORY, 0, 0, 0, 1, 0, 0, 0},
    {0x1a7, LATER, OP_SHARED_STORE, ALONE, 0, 2, 0, 2, 0, 1, 0}, /* SYNCS */
    {0x1b2, LATER, OP_SHARED_STORE, ALONE, 0, 2, 0, 2, 0, 0, 0},
    {0x1bd, LATER, OP_SHARED_STORE, ALONE, 0, 0, 2, 4, 0, 0, 0}, /* STAS */
    /* bulk copies, tensor maps */
    {0x1b4, LATER, OP_TENSOR_LOAD, UNIFORM, 0, 0, 2, 0, 0, 0, 0},
    {0x1b5, LATER, OP_TENSOR_STORE, UNIFORM, 0, 0, 2, 0, 0, 0, 0},
    {0x1b7, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* UTMACMDFLUSH */
    {0x1b9, LATER, OP_NOTHING, UNIFORM, 0, 0, 0, 0, 0, 0, 0}, /* UTMACCTL */
    {0x1ba, LATER, OP_BULK, UNIFORM, 0, 0, 2, 2, 1, 0, 0},
    {0x1bb, LATER, OP_BULK, UNIFORM, 0, 0, 2, 2, 1, 0, 0}, /* UBLKRED */
    /* control */
    {0x147, EVERY, OP_BRANCH, ALONE, 0, 0, 0, 0, 0, 0, 1},
    {0x149, AMPERE | HOPPER | BLACKWELL, OP_BRANCH_TO_REGISTER, ALONE, 0, 0, 0, 0, 0, 0, 0},
    {0x158, GEFORCE, OP_BRANCH_TO_REGISTER, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* BRXU */
    {0x143, EVERY, OP_CALL_REGISTER, ALONE, 0, 0, 2, 0, 0, 0, 1},
    {0x144, EVERY, OP_CALL, ALONE, 0, 0, 0, 0, 0, 0, 1},
    {0x150, EVERY, OP_RETURN, ALONE, 0, 0, 2, 0, 0, 0, 1},
    {0x14d, EVERY, OP_EXIT, ALONE, 0, 0, 0, 0, 0, 0, 1},
    {0x145, EVERY, OP_JOIN_AT, ALONE, 0, 0, 0, 0, 0, 0, 0},
    {0x141, EVERY, OP_JOIN, ALONE, 0, 0, 0, 0, 0, 0, 1},
    {0x142, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 1}, /* BREAK */
    {0x146, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* YIELD */
    {0x148, EVERY, OP_COLLECT, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* WARPSYNC */
    {0x11b, LATER, OP_COLLECTED, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* ENDCOLLECTIVE */
    {0x1c7, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* UCGABAR */
    {0x1c8, LATER, OP_NOTHING, UNIFORM, 0, 0, 0, 0, 0, 1, 0}, /* USETMAXREG */
    {0x1c9, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* USETSHMSZ */
    {0x14e, EVERY, OP_NUMBER, ALONE, 2, 0, 0, 0, 0, 0, 0},  /* LEPC */
    {0x155, EVERY, OP_SHARED_LOAD, ALONE, 1, 0, 0, 0, 0, 0, 0},  /* BMOV to a register */
    {0x156, EVERY, OP_SHARED_STORE, PLAIN, 0, 0, 0, 1, 0, 0, 0}, /* BMOV to a barrier */
    {0x15d, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* NANOSLEEP */
    {0x15c, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* BPT */
    {0x118, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* NOP */
    {0x02d, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* PREEXIT */
    {0x02e, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* ACQBULK */
    {0x11a, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* DEPBAR */
    {0x11c, EVERY, OP_SHARED_LOAD, ALONE, 1, 0, 0, 0, 0, 1, 0},  /* B2R */
    {0x11d, EVERY, OP_SHARED_STORE, ALONE, 0, 0, 0, 0, 0, 0, 1}, /* BAR */
    {0x18f, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* CCTL */
    {0x192, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* MEMBAR */
    {0x1ab, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* ERRBAR */
    {0x1af, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* LDGDEPBAR */
    {0x1b0, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* ARRIVES */
    {0x1c6, LATER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* FENCE */
    /* predicates */
    {0x00b, EVERY, OP_NOTHING, PLAIN, 0, 0, 1, 1, 0, 2, 1}, /* FSETP */
    {0x00c, EVERY, OP_NOTHING, PLAIN, 0, 0, 1, 1, 0, 2, 5}, /* ISETP */
    {0x01c, EVERY, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 2, 7}, /* PLOP3 */
    {0x02a, EVERY, OP_NOTHING, PLAIN, 0, 0, 2, 2, 0, 2, 1}, /* DSETP */
    {0x02f, LATER, OP_NUMBER, ACROSS, 1, 0, 0, 0, 0, 1, 1}, /* ELECT */
    {0x034, EVERY, OP_NOTHING, PLAIN, 0, 0, 1, 1, 0, 2, 1}, /* HSETP2 */
    {0x102, EVERY, OP_NOTHING, PLAIN, 0, 0, 1, 1, 0, 1, 0}, /* FCHK */
    {0x1a1, EVERY, OP_MIX, PLAIN, 1, 0, 2, 0, 0, 1, 0},     /* MATCH */
    {0x1c4, EVERY, OP_MIX, ACROSS, 1, 0, 1, 0, 0, 0, 0},  /* REDUX */
    {0x1aa, EVERY, OP_MIX, PLAIN, 1, 0, 2, 0, 0, 1, 0}, /* QSPC */
    /* floats */
    {0x009, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 1}, /* FMNMX */
    {0x00a, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 1}, /* FSET */
    {0x020, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0},
    {0x021, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0},
    {0x023, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0},
    {0x030, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* HADD2 */
    {0x031, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0}, /* HFMA2 */
    {0x032, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* HMUL2 */
    {0x033, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 1}, /* HSET2 */
    {0x035, AMPERE | HOPPER, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0}, /* HFMA2.MMA */
    {0x03e, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* F2FP */
    {0x039, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0}, /* I2IP */
    {0x040, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 0, 0, 0}, /* HMNMX2 */
    {0x043, EVERY, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 0}, /* F2IP */
    {0x045, LATER, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* I2FP */
    {0x076, BLACKWELL, OP_MIX, PLAIN, 1, 0, 1, 1, 1, 0, 1}, /* FMNMX3 */
    {0x108, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* MUFU */
    {0x104, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* F2F */
    {0x105, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* F2I */
    {0x106, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* I2F */
    {0x107, EVERY, OP_MIX, PLAIN, 1, 0, 0, 1, 0, 0, 0}, /* FRND */
    {0x028, EVERY, OP_MIX, PLAIN, 2, 0, 2, 2, 0, 0, 0}, /* DMUL */
    {0x029, EVERY, OP_MIX, PLAIN, 2, 0, 2, 0, 2, 0, 0}, /* DADD */
    {0x02b, EVERY, OP_MIX, PLAIN, 2, 0, 2, 2, 2, 0, 0}, /* DFMA */
    {0x110, EVERY, OP_MIX, PLAIN, 1, 1, 0, 2, 0, 0, 0}, /* F2F, F64 */
    {0x111, EVERY, OP_MIX, PLAIN, 1, 1, 0, 2, 0, 0, 0},
    {0x112, EVERY, OP_MIX, PLAIN, 1, 1, 0, 2, 0, 0, 0},
    {0x113, EVERY, OP_MIX, PLAIN, 1, 1, 0, 2, 0, 0, 0},
    {0x049, BLACKWELL, OP_MIX, PLAIN, 2, 0, 2, 2, 2, 0, 0}, /* FFMA2 */
    {0x04a, BLACKWELL, OP_MIX, PLAIN, 2, 0, 2, 2, 0, 0, 0}, /* FMUL2 */
    {0x04b, BLACKWELL, OP_MIX, PLAIN, 2, 0, 2, 2, 0, 0, 0}, /* FADD2 */
    {0x053, GEFORCE, OP_NOTHING, UNIFORM, 0, 0, 1, 1, 0, 2, 1}, /* UFSETP */
    {0x054, GEFORCE, OP_MIX, UNIFORM, 1, 0, 1, 1, 0, 0, 0},     /* UFADD */
    {0x055, GEFORCE, OP_MIX, UNIFORM, 1, 0, 1, 1, 1, 0, 0},     /* UFFMA */
    {0x05a, GEFORCE, OP_MIX, UNIFORM, 1, 0, 0, 1, 0, 0, 0},     /* UI2F */
    {0x05e, GEFORCE, OP_MIX, UNIFORM, 1, 0, 0, 1, 0, 0, 0},     /* UI2FP */
    /* matrices */
    {0x03c, EVERY, OP_MIX, PLAIN, 2, 2, 4, 2, 4, 0, 0}, /* HMMA */
    {0x037, EVERY, OP_MIX, PLAIN, 2, 2, 4, 2, 4, 0, 0}, /* IMMA */
    {0x03a, LATEST, OP_MIX, PLAIN, 1, 1, 1, 0, 0, 0, 0}, /* MOVM */
    {0x03f, EVERY, OP_MIX, PLAIN, 4, 0, 2, 2, 4, 0, 0}, /* DMMA */
    {0x1c5, HOPPER, OP_NOTHING, ALONE, 0, 0, 0, 0, 0, 0, 0}, /* WARPGROUP */
    {0x1f0, HOPPER, OP_MIX_SHARED, ALONE, 1, 0, 0, 0, 0, 0, 0}, /* HGMMA */
    {0x1f3, HOPPER, OP_MIX_SHARED, ALONE, 1, 0, 0, 0, 0, 0, 0}, /* QGMMA */
};
/* clang-format on */

const struct opcode *opcode_find(uint32_t number, uint32_t set) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].number == number && rows[i].architectures & set)
            return &rows[i];
    return NULL;
}
