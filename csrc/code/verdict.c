#include "code/verdict.h"

#include <stdlib.h>

#include "code/analysis.h"

enum { INSTRUCTIONS = 65536 };

const char *verdict_word(enum verdict verdict) {
    static const char *const words[] = {"unknown", "direct", "indexed", "follows"};
    return words[verdict];
}

/* Nothing but STL may change the stack. */
static bool stack_is_followed(const struct analysis *a) {
    for (uint32_t i = 0; i < a->instructions; i++) {
        const struct instruction *at = &a->instruction[i];
        if (at->memory.generic && (at->operation == OP_STORE || at->operation == OP_ATOMIC))
            return false;
    }
    return true;
}

/* What the loader writes is an operand, where that can be one. */
static void put_addresses(struct analysis *a) {
    for (uint32_t n = 0; n < a->kernel->addresses; n++) {
        const struct address *address = &a->kernel->address[n];
        if (address->at / INSTRUCTION_BYTES >= a->instructions)
            continue;
        struct instruction *i = &a->instruction[address->at / INSTRUCTION_BYTES];
        struct operand *o = i->operation == OP_PRODUCT ? &i->c : &i->b;
        bool plain = i->operation == OP_MOVE || i->operation == OP_PRODUCT;
        if (!plain || o->kind != OPERAND_NUMBER || o->words != 1 || address->at % INSTRUCTION_BYTES)
            i->operation = OP_UNKNOWN;
        else
            *o = (struct operand){.kind = OPERAND_ADDRESS, .words = 1, .number = address->ordinal * 2 + address->half};
    }
}

static void analyse(struct analysis *a, struct kernel_verdict *out) {
    for (uint32_t i = 0; i < a->instructions; i++)
        decode(a->kernel->text.at + (size_t)i * INSTRUCTION_BYTES, a->kernel->architecture, &a->instruction[i]);
    put_addresses(a);
    a->follows_stack = stack_is_followed(a);
    flow(a);
    if (a->values.full)
        a->accesses.odd = "too many values";
    access_judge(&a->accesses, &a->values, out);
    out->steps = a->steps;
}

void verdict_of(const struct kernel *k, struct kernel_verdict *out) {
    struct analysis *a = calloc(1, sizeof *a);
    *out = (struct kernel_verdict){.reason = "no memory", .parameter_bytes = k->parameter_bytes};
    if (!a)
        return;
    a->kernel = k;
    a->instructions = (uint32_t)(k->text.bytes / INSTRUCTION_BYTES);
    if (!decode_knows(k->architecture) || a->instructions == 0 || a->instructions > INSTRUCTIONS) {
        out->reason = a->instructions > INSTRUCTIONS ? "too much code" : "an architecture that is not known";
    } else {
        a->instruction = malloc(a->instructions * sizeof *a->instruction);
        if (a->instruction && values_open(&a->values))
            analyse(a, out);
        values_close(&a->values);
        free(a->instruction);
    }
    free(a);
}

/* --- the cubins of an image --- */

static void refuse(struct kernel_verdict *v, const char *reason) {
    *v = (struct kernel_verdict){.reason = reason};
}

/* What both say. */
static void join(struct kernel_verdict *to, const struct kernel_verdict *from) {
    uint32_t rules = to->rules;
    if (!verdict_decides(to))
        return;
    if (!verdict_decides(from)) {
        *to = *from;
        return;
    }
    if (to->parameter_bytes != from->parameter_bytes || rules + from->rules > VERDICT_RULES) {
        refuse(to, "cubins that differ");
        return;
    }
    to->verdict = to->verdict == from->verdict ? to->verdict : VERDICT_INDEXED;
    words_join(&to->reads, &from->reads);
    words_join(&to->writes, &from->writes);
    words_join(&to->stores, &from->stores);
    for (uint32_t r = 0; r < from->rules; r++)
        to->rule[to->rules++] = from->rule[r];
}

static void verdict_at(const struct cubin *c, uint32_t section, struct kernel_verdict *out) {
    struct kernel *k = malloc(sizeof *k);
    if (k && section != CUBIN_SEVERAL && cubin_kernel(c, section, k))
        verdict_of(k, out);
    else
        refuse(out, "an odd kernel");
    free(k);
}

void verdict_in(const struct code_image *i, const char *name, struct kernel_verdict *out) {
    struct kernel_verdict next;
    uint32_t found = 0;
    refuse(out, i->whole ? "no code of it" : "an image that cannot be read whole");
    for (uint32_t n = 0; i->whole && n < i->cubins; n++) {
        struct cubin c;
        uint32_t section = cubin_open(&c, i->cubin[n]) ? cubin_find(&c, name) : CUBIN_SEVERAL;
        if (!section)
            continue;
        verdict_at(&c, section, found++ ? &next : out);
        if (found > 1)
            join(out, &next);
    }
}
