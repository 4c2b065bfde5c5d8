#include "code/decode.h"

#include <string.h>

#include "code/field.h"

static uint32_t set_of(uint32_t architecture) {
    switch (architecture) {
    case 80:
    case 86:
    case 87:
    case 89:
        return AMPERE;
    case 90:
        return HOPPER;
    case 100:
    case 103:
        return BLACKWELL;
    case 120:
    case 121:
        return GEFORCE;
    default:
        return 0;
    }
}

bool decode_knows(uint32_t architecture) {
    return set_of(architecture) != 0;
}

static struct predicate predicate_at(const struct bits *b, int first, bool uniform) {
    return (struct predicate){(uint8_t)take(b, first, 3), uniform, bit(b, first + 3)};
}

static uint8_t as_bit(uint64_t predicate) {
    return predicate == NO_PREDICATE ? 0 : (uint8_t)(1u << predicate);
}

static void read_predicates(const struct bits *b, const struct opcode *o, struct instruction *out) {
    static const int place[3] = {87, 77, 68};
    static const struct predicate never = {.index = NO_PREDICATE};
    out->writes_uniform = o->layout == UNIFORM;
    if (o->writes > 0)
        out->writes = as_bit(take(b, 81, 3));
    if (o->writes > 1)
        out->writes |= as_bit(take(b, 84, 3));
    for (int i = 0; i < 3; i++)
        out->reads[i] = o->reads >> i & 1 ? predicate_at(b, place[i], out->writes_uniform) : never;
}

/* --- what single operations have besides --- */

static uint8_t size_at(const struct bits *b) {
    static const uint8_t bytes[8] = {1, 1, 2, 2, 4, 8, 16, 0};
    return bytes[take(b, 73, 3)];
}

static uint8_t words_of(uint32_t bytes) {
    return (uint8_t)((bytes + 3) / 4);
}

/* Operations of 64 bits on pairs of registers: every operand is one. */
static void widen(struct instruction *out) {
    out->to.words = 2;
    out->a.words = out->a.kind ? 2 : 0;
    out->b.words = out->b.kind ? 2 : 0;
    out->c.words = out->c.kind ? 2 : 0;
}

static void read_move(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set,
                      struct instruction *out) {
    if (o->layout == ALONE) { /* R2UR */
        out->b = register_at(b, 24, 1, false, set);
        out->to.uniform = true;
        out->to.first = uniform_at(b, 16, set);
        out->writes_uniform = false;
    } else if (set & GEFORCE && form == FORM_C_NUMBER) {
        out->b = (struct operand){.kind = OPERAND_NUMBER, .words = 2, .number = take(b, 24, 64)};
        out->to.words = 2;
    } else if (set & GEFORCE && bit(b, 80)) {
        widen(out);
    } else if (bit(b, 80) || form == FORM_C_NUMBER || form == FORM_C_CONSTANT || form == FORM_C_UNIFORM) {
        out->operation = OP_UNKNOWN;
    } else {
        out->partial = o->layout == PLAIN && take(b, 72, 4) != 15;
    }
    out->a = (struct operand){0};
}

static void read_select(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set,
                        struct instruction *out) {
    bool wide = form == FORM_C_NUMBER || form == FORM_C_CONSTANT || form == FORM_C_UNIFORM;
    if (wide || (o->layout == UNIFORM && form == FORM_B_UNIFORM)) {
        if (!(set & GEFORCE)) {
            out->operation = OP_UNKNOWN;
            return;
        }
        out->b = form == FORM_C_NUMBER ? (struct operand){.kind = OPERAND_NUMBER, .words = 2, .number = take(b, 32, 32)}
                                       : register_at(b, 32, 2, o->layout == UNIFORM || form == FORM_C_UNIFORM, set);
        widen(out);
    }
    if (out->b.kind == OPERAND_NONE)
        out->operation = OP_UNKNOWN;
    out->converts = o->number == 0x008 && (take(b, 72, 2) || bit(b, 80) || (form != FORM_B_NUMBER && take(b, 62, 2)));
    out->a.negated = out->b.negated = false;
}

static void read_add(const struct bits *b, const struct opcode *o, uint32_t set, struct instruction *out) {
    out->extended = o->number != 0x036 && bit(b, 74);
    if (out->extended)
        out->reads[0] = predicate_at(b, 87, out->writes_uniform);
    if (out->extended && o->writes > 1)
        out->reads[1] = predicate_at(b, 77, out->writes_uniform);
    if (set & GEFORCE && o->number == 0x035 && bit(b, 73))
        widen(out);
    if (o->number == 0x036 && take(b, 73, 8)) /* parts of registers */
        out->operation = OP_MIX;
}

static void read_product(const struct bits *b, struct instruction *out) {
    out->extended = bit(b, 74);
    if (out->extended)
        out->reads[0] = predicate_at(b, 87, out->writes_uniform);
    out->a.negated = out->b.negated;
    out->b.negated = false;
}

static void read_scale(const struct bits *b, struct instruction *out) {
    out->table = (uint8_t)take(b, 75, 5);
    out->extended = bit(b, 74);
    if (out->extended)
        out->reads[0] = predicate_at(b, 87, out->writes_uniform);
    if (bit(b, 80))
        out->operation = OP_SCALE_HIGH;
    out->c.negated = false;
}

static void read_constant(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set,
                          struct instruction *out) {
    uint32_t bytes = size_at(b);
    out->c = (struct operand){.kind = OPERAND_CONSTANT,
                              .words = words_of(bytes),
                              .index = NO_REGISTER,
                              .bank = (uint8_t)take(b, 54, 5),
                              .offset = (int32_t)extend(take(b, 38, 16), 16)};
    out->to.words = words_of(bytes);
    out->memory.bytes = (uint8_t)bytes;
    if (o->number == 0x182) {
        out->c.index = (uint8_t)take(b, 24, 8);
        if (form != FORM_B_CONSTANT || take(b, 78, 2))
            out->operation = OP_UNKNOWN;
    } else if (o->number != 0x0b9) {
        if (o->number == 0x1ac)
            out->c.offset = (int32_t)extend(take(b, 37, 17), 17);
        out->c.index = uniform_at(b, 24, set);
        out->c.index_uniform = true;
    }
    if (bytes == 0 || bit(b, 80) || (o->number == 0x0b9 && bit(b, 91)))
        out->operation = OP_UNKNOWN;
}

static void read_target(const struct bits *b, uint32_t set, bool short_form, struct instruction *out) {
    int64_t high = extend(take(b, 34, 48), 48);
    out->target = INSTRUCTION_BYTES;
    if (short_form)
        out->target += extend(take(b, 34, 30), 30) * 4;
    else if (set & AMPERE)
        out->target += high * 4;
    else
        out->target += (high * 256 + (int64_t)take(b, 16, 8)) * 4;
}

static void read_alone(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set,
                       struct instruction *out) {
    switch (o->operation) {
    case OP_BRANCH:
        read_target(b, set, false, out);
        if (form == 2) /* BRA.U */
            out->reads[0] = predicate_at(b, 24, true);
        out->partial = take(b, 82, 5) != 0; /* may also go on */
        break;
    case OP_CALL:
        read_target(b, set, false, out);
        if (form != FORM_B_NUMBER)
            out->operation = OP_UNKNOWN;
        break;
    case OP_CALL_REGISTER:
        out->a = register_at(b, 24, 2, false, set);
        if (form != FORM_REGISTER)
            out->operation = OP_UNKNOWN;
        break;
    case OP_RETURN:
        read_target(b, set, false, out);
        out->a = register_at(b, 24, 2, false, set);
        break;
    case OP_JOIN_AT:
        read_target(b, set, true, out);
        out->barrier = (uint8_t)take(b, 16, 4);
        break;
    case OP_COLLECT:
        read_target(b, set, false, out);
        if (!bit(b, 86))
            out->operation = OP_NOTHING;
        else if (form != FORM_REGISTER)
            out->operation = OP_UNKNOWN;
        break;
    case OP_MIX_SHARED: /* 64 by N, of which N / 8 - 1 is told; numbers of 32 or 16 bits */
        out->to.words = (uint8_t)((take(b, 53, 5) + 1) * (bit(b, 75) ? 4 : 2));
        out->a = register_at(b, 24, form == FORM_B_UNIFORM ? 4 : 0, false, set);
        out->c = register_at(b, 64, out->to.words, false, set);
        if (form != FORM_B_UNIFORM && form != FORM_B_NUMBER)
            out->operation = OP_UNKNOWN;
        break;
    case OP_SHARED_STORE:
        if (o->number == 0x11d) { /* BAR */
            if (!bit(b, 78))
                out->reads[0] = (struct predicate){.index = NO_PREDICATE};
            break;
        }
        out->a = register_at(b, 24, o->a, false, set); /* SYNCS, STAS */
        out->b = register_at(b, 32, o->b, o->number == 0x1b2, set);
        out->to.uniform = o->number == 0x1b2;
        out->to.first = out->to.uniform ? uniform_at(b, 16, set) : out->to.first;
        if (form == FORM_B_NUMBER) /* arrives */
            out->writes = 0;
        break;
    case OP_JOIN:
        out->barrier = (uint8_t)take(b, 16, 4);
        break;
    case OP_NUMBER:
        if (o->number == 0x005)
            out->to.words = bit(b, 80) ? 2 : 1;
        break;
    case OP_BRANCH_TO_REGISTER:
        out->a = register_at(b, 24, 2, o->number == 0x158, set);
        break;
    default:
        break;
    }
}

static void read_bulk(const struct bits *b, struct instruction *out) {
    uint64_t way = take(b, 73, 2);
    out->memory.reads = way == 1;
    out->memory.writes = way == 2;
    if (way != 1 && way != 2)
        out->operation = OP_UNKNOWN;
}

/* Bytes of an atomic's operands. Types that are not listed may be the widest. The number of float is also that of a
 * signed integer of 64 bits, which is not added but compared. */
static uint8_t atomic_bytes(const struct bits *b, const struct opcode *o) {
    uint32_t type = (uint32_t)take(b, 73, 3), compares = (uint32_t)take(b, 87, 3);
    if (o->number == 0x1a2 || o->number == 0x1a3 || o->number == 0x1a6) /* floats */
        return type == 1 ? 4 : type == 7 ? 8 : 16;
    return type < 2 ? 4 : type == 3 && !compares ? 4 : type == 4 || type == 7 ? 16 : 8;
}

static void read_atomic(const struct bits *b, const struct opcode *o, struct instruction *out) {
    bool listed = o->number != 0x1a2 && o->number != 0x1a3 && take(b, 73, 3) < 3;
    out->memory.bytes = atomic_bytes(b, o);
    if (out->to.words) {
        out->to.maybe = listed ? 0 : 3;
        out->to.words = listed ? words_of(out->memory.bytes) : 1;
    }
}

/* Form 6 adds the uniform register to the address in shared memory; the descriptor's upper half, if there is one, lies
 * behind it. Others have the descriptor there, or something that is added to the address. */
static void read_copy(const struct bits *b, uint32_t form, uint32_t set, struct instruction *out) {
    bool described = bit(b, 76), shared = form == FORM_B_UNIFORM, none = out->memory.uniform == NO_REGISTER;
    out->memory.upper = shared && described;
    if (described ? none : set & LATEST || (!shared && !none))
        out->operation = OP_UNKNOWN;
    else if (shared)
        out->memory.uniform = described ? out->memory.uniform + 1 : NO_REGISTER;
}

static void read_memory(const struct bits *b, const struct opcode *o, uint32_t form, uint32_t set,
                        struct instruction *out) {
    enum operation op = o->operation;
    bool loads = op == OP_LOAD || op == OP_SHARED_LOAD || op == OP_LOCAL_LOAD;
    bool global = op <= OP_COPY;
    uint8_t bytes = size_at(b);
    out->memory.index = (uint8_t)take(b, 24, 8);
    out->memory.offset = (int32_t)extend(take(b, 40, 24), 24);
    out->memory.words = global ? 2 : 1;
    if ((op == OP_LOAD || op == OP_STORE) && (!bit(b, 72) || (op == OP_LOAD && take(b, 64, 4))))
        out->operation = OP_UNKNOWN;
    out->memory.generic =
        o->number == 0x180 || o->number == 0x185 || o->number == 0x18a || o->number == 0x18b || o->number == 0x1a2;
    out->memory.uniform = bit(b, 91) ? uniform_at(b, loads ? 32 : 64, set) : NO_REGISTER;
    out->memory.bytes = bytes;
    bool atomic = op == OP_ATOMIC || op == OP_REDUCE || o->number == 0x18c || o->number == 0x18d;
    if (atomic) {
        read_atomic(b, o, out);
    } else if (bytes == 0) {
        out->operation = OP_UNKNOWN;
    }
    if (op == OP_COPY)
        read_copy(b, form, set, out);
    else if (global && bit(b, 91) && out->memory.uniform == NO_REGISTER) /* a descriptor that is zero */
        out->operation = OP_UNKNOWN;
    if (o->number == 0x03b) { /* LDSM: 1, 2 or 4 matrices */
        if (take(b, 72, 2) == 3 || take(b, 64, 8))
            out->operation = OP_UNKNOWN;
        out->to.words = (uint8_t)(1u << take(b, 72, 2));
    } else if (loads) {
        out->to.words = words_of(bytes);
        out->b = out->c = (struct operand){0};
    } else if (op != OP_COPY) {
        uint8_t words = o->number == 0x044 ? 4 : words_of(out->memory.bytes);
        out->b = register_at(b, 32, words, false, set);
        out->c = register_at(b, 64, o->c ? words : 0, false, set);
        if (o->number == 0x18d && form != FORM_REGISTER) { /* only tells whether it was done */
            out->to.words = out->to.maybe = 0;
            out->writes = as_bit(take(b, 81, 3));
        }
    }
}

static bool fits(const struct instruction *i, uint32_t set) {
    uint32_t first = i->to.first == NO_REGISTER ? 0 : i->to.first;
    uint32_t uniform = set & LATEST ? NO_REGISTER : 63;
    if (first + i->to.words + i->to.maybe > (i->to.uniform ? uniform : NO_REGISTER))
        return false;
    const struct operand *o[3] = {&i->a, &i->b, &i->c};
    for (int n = 0; n < 3; n++)
        if ((o[n]->kind == OPERAND_REGISTER && o[n]->index + o[n]->words > NO_REGISTER) ||
            (o[n]->kind == OPERAND_UNIFORM && o[n]->index + o[n]->words > (int)uniform))
            return false;
    return (i->memory.index == NO_REGISTER || i->memory.index + i->memory.words <= NO_REGISTER) &&
           (i->memory.uniform == NO_REGISTER || i->memory.uniform + i->memory.words <= (int)uniform);
}

void decode(const uint8_t *bytes, uint32_t architecture, struct instruction *out) {
    struct bits b;
    memcpy(&b, bytes, sizeof b);
    uint32_t set = set_of(architecture), form = (uint32_t)take(&b, 9, 3);
    const struct opcode *o = opcode_find((uint32_t)take(&b, 0, 9), set);
    memset(out, 0, sizeof *out);
    out->to.first = NO_REGISTER;
    out->memory.index = out->memory.uniform = NO_REGISTER;
    if (!o)
        return;
    out->operation = o->operation;
    out->guard = predicate_at(&b, 12, o->layout == UNIFORM);
    out->to.uniform = o->layout == UNIFORM || o->layout == ACROSS;
    out->to.first = out->to.uniform ? uniform_at(&b, 16, set) : (uint8_t)take(&b, 16, 8);
    out->to.words = (uint8_t)o->to;
    out->to.maybe = (uint8_t)o->maybe;
    read_predicates(&b, o, out);
    if (o->layout != ALONE && o->layout != MEMORY && o->operation != OP_CONSTANT)
        read_operands(&b, o, form, set, out);
    if (o->layout == MEMORY)
        read_memory(&b, o, form, set, out);
    else if (o->operation == OP_BULK)
        read_bulk(&b, out);
    else if (o->operation == OP_MOVE)
        read_move(&b, o, form, set, out);
    else if (o->operation == OP_SELECT)
        read_select(&b, o, form, set, out);
    else if (o->operation == OP_ADD)
        read_add(&b, o, set, out);
    else if (o->operation == OP_PRODUCT || o->operation == OP_PRODUCT_WIDE || o->operation == OP_PRODUCT_HIGH)
        read_product(&b, out);
    else if (o->operation == OP_SCALE)
        read_scale(&b, out);
    else if (o->operation == OP_CONSTANT)
        read_constant(&b, o, form, set, out);
    else if (o->layout == ALONE)
        read_alone(&b, o, form, set, out);
    if (o->layout == ACROSS && out->guard.index != NO_PREDICATE)
        out->partial = true;               /* whose predicate that is was not seen */
    if (o->number == 0x03c && bit(&b, 73)) /* HMMA of a sparse matrix */
        out->operation = OP_UNKNOWN;
    if (o->operation == OP_SHIFT) {
        out->left = !bit(&b, 76);
        out->high = bit(&b, 80);
    }
    out->makes_constant = (o->number == 0x031 || o->number == 0x035) && form == FORM_C_NUMBER;
    if (o->operation == OP_SHUFFLE && (form == FORM_REGISTER || form == FORM_C_NUMBER))
        out->b = register_at(&b, 32, 1, false, set); /* the lane */
    if (o->operation == OP_NUMBER)
        out->special = (uint8_t)take(&b, 72, 8);
    if (o->operation == OP_LOGIC)
        out->table = (uint8_t)take(&b, 72, 8);
    if (set & GEFORCE && bit(&b, 80) && (o->number == 0x00c || o->number == 0x08c)) /* ISETP of 64 bits */
        widen(out), out->to.words = 0;
    if (o->operation == OP_NOTHING && o->reads == 7 && bit(&b, 67)) /* PLOP3 with a uniform predicate */
        out->reads[2].uniform = true;
    if (o->number == 0x004)
        out->writes = form == FORM_B_NUMBER ? (uint8_t)(take(&b, 32, 32) & 0x7f) : 0x7f;
    if (o->number == 0x086)
        out->writes_uniform = true;
    if (o->operation == OP_LESSER && o->number == 0x017 && set & GEFORCE && bit(&b, 74))
        widen(out);
    if (out->to.words + out->to.maybe == 0)
        out->to.first = NO_REGISTER;
    if (!fits(out, set))
        out->operation = OP_UNKNOWN;
}
