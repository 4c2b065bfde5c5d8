#include <stdlib.h>

#include "code/analysis.h"

enum { CONTEXTS = 256, DEPTH = 8, STEPS = 400000, STATES = 6000, BARRIERS = 16, ODD_TARGETS = 64 };

/* A chain of calls. */
struct context {
    uint32_t caller, depth;
    uint32_t back;   /* index of the instruction to return to; of context 0: none */
    uint16_t *place; /* by instruction: its number among the places, from 1 on */
};

/* The beginning of a block in a context. */
struct place {
    struct state state;
    uint32_t at;
    uint16_t context;
    bool waiting;
};

struct walk {
    struct analysis *a;
    struct context context[CONTEXTS];
    uint32_t contexts;
    struct place *place[STATES];
    uint16_t waiting[STATES];
    uint32_t places, waits;
    uint8_t *begins; /* a block, by instruction */
    struct {
        uint32_t barrier, target;
    } odd[ODD_TARGETS]; /* targets of joins that do not lie behind one */
    uint32_t odds;
    struct state now;
};

static void give_up(struct walk *w, const char *why) {
    w->a->accesses.odd = why;
}

/* Index of the instruction at `bytes` from that one. False: there is none. */
static bool target_of(const struct walk *w, uint32_t from, int64_t bytes, uint32_t *out) {
    int64_t to = (int64_t)from * INSTRUCTION_BYTES + bytes;
    *out = (uint32_t)(to / INSTRUCTION_BYTES);
    return to >= 0 && to % INSTRUCTION_BYTES == 0 && to / INSTRUCTION_BYTES < w->a->instructions;
}

/* --- places --- */

static void wait_for(struct walk *w, uint32_t n) {
    if (!w->place[n]->waiting) {
        w->place[n]->waiting = true;
        w->waiting[w->waits++] = (uint16_t)n;
    }
}

/* The state reaches an instruction. */
static void reach(struct walk *w, uint32_t context, uint32_t at, const struct state *s) {
    if (at >= w->a->instructions) {
        give_up(w, "the code ends");
        return;
    }
    uint16_t *place = &w->context[context].place[at];
    if (*place) {
        if (state_join(&w->place[*place - 1]->state, &w->a->values, s))
            wait_for(w, *place - 1u);
        return;
    }
    struct place *new = w->places < STATES ? malloc(sizeof *new) : NULL;
    if (!new) {
        give_up(w, "too many blocks");
        return;
    }
    *new = (struct place){.state = *s, .at = at, .context = (uint16_t)context};
    w->place[w->places] = new;
    *place = (uint16_t)++w->places;
    wait_for(w, w->places - 1);
}

/* --- calls --- */

static bool is_function(const struct walk *w, uint32_t at) {
    for (uint32_t f = 0; f < w->a->kernel->functions; f++)
        if (w->a->kernel->function[f] == at * INSTRUCTION_BYTES)
            return true;
    return false;
}

static void call(struct walk *w, uint32_t caller, uint32_t back, uint32_t at) {
    for (uint32_t c = 1; c < w->contexts; c++)
        if (w->context[c].caller == caller && w->context[c].back == back) {
            reach(w, c, at, &w->now);
            return;
        }
    for (uint32_t c = caller; c; c = w->context[c].caller)
        if (w->context[c].back == back) {
            give_up(w, "recursion");
            return;
        }
    uint16_t *place =
        w->contexts < CONTEXTS && w->context[caller].depth < DEPTH ? calloc(w->a->instructions, sizeof *place) : NULL;
    if (!place) {
        give_up(w, "too many calls");
        return;
    }
    w->context[w->contexts] = (struct context){caller, w->context[caller].depth + 1, back, place};
    reach(w, w->contexts++, at, &w->now);
}

/* The register must hold the place behind the call. */
static void go_back(struct walk *w, uint32_t context, uint32_t at) {
    const struct instruction *i = &w->a->instruction[at];
    uint32_t number, to;
    value_t value = i->a.kind == OPERAND_REGISTER ? state_get(&w->now, cell_of(false, i->a.index), literal_of(i->guard))
                                                  : (value_t)VALUE_PLAIN;
    if (context == 0)
        give_up(w, "a return from the kernel");
    else if (!value_is_number(&w->a->values, value, &number) || !target_of(w, at, i->target + number, &to) ||
             to != w->context[context].back)
        give_up(w, "a return address that is lost");
    else
        reach(w, w->context[context].caller, to, &w->now);
}

/* Of calls to a register only those are known that never return. */
static void call_register(struct walk *w, uint32_t at) {
    const struct instruction *i = &w->a->instruction[at];
    const struct kernel *k = w->a->kernel;
    bool ends = i->a.kind == OPERAND_REGISTER;
    for (uint32_t half = 0; half < 2 && ends; half++) {
        value_t value = state_get(&w->now, cell_of(false, i->a.index + half), literal_of(i->guard));
        uint32_t n = 0;
        while (n < k->ends && !value_is_base(&w->a->values, value, base_of(BASE_VARIABLE, k->end[n], half)))
            n++;
        ends = n < k->ends;
    }
    if (!ends)
        give_up(w, "a call of something that is not known");
}

/* --- blocks --- */

static bool always(struct predicate p) {
    return p.index == NO_PREDICATE && !p.negated;
}

/* The only literal on which a jump depends; 0: it depends on more, or on none. */
static literal_t condition(const struct instruction *i) {
    if (i->partial || i->operation == OP_COLLECT)
        return 0;
    if (always(i->reads[0]))
        return literal_of(i->guard);
    return always(i->guard) ? literal_of(i->reads[0]) : 0;
}

static bool conditional(const struct instruction *i) {
    return i->partial || i->operation == OP_COLLECT || !always(i->guard) || !always(i->reads[0]);
}

static void jump(struct walk *w, uint32_t context, uint32_t at, uint32_t to) {
    const struct instruction *i = &w->a->instruction[at];
    literal_t if_so = condition(i);
    struct state there = w->now;
    state_assume(&there, if_so);
    reach(w, context, to, &there);
    if (conditional(i)) {
        state_assume(&w->now, if_so ? literal_not(if_so) : 0);
        reach(w, context, at + 1, &w->now);
    }
}

static void jump_to_register(struct walk *w, uint32_t context, uint32_t at) {
    const struct kernel *k = w->a->kernel;
    uint32_t found = 0;
    for (uint32_t j = 0; j < k->jumps; j++)
        if (k->jump[j].at == at * INSTRUCTION_BYTES) {
            if (k->jump[j].target % INSTRUCTION_BYTES)
                give_up(w, "an odd branch");
            reach(w, context, k->jump[j].target / INSTRUCTION_BYTES, &w->now);
            found++;
        }
    if (!found)
        give_up(w, "an indirect branch without targets");
    if (conditional(&w->a->instruction[at]))
        reach(w, context, at + 1, &w->now);
}

/* What ends a block. False: it goes on with the next instruction. */
static bool leave(struct walk *w, uint32_t context, uint32_t at) {
    const struct instruction *i = &w->a->instruction[at];
    uint32_t to;
    if (i->guard.index == NO_PREDICATE && i->guard.negated)
        return false;
    switch (i->operation) {
    case OP_BRANCH:
    case OP_COLLECT:
    case OP_CALL:
        if (!target_of(w, at, i->target, &to)) {
            give_up(w, "a branch out of the code");
        } else if (i->operation == OP_CALL && is_function(w, to)) {
            call(w, context, at + 1, to);
            if (conditional(i))
                reach(w, context, at + 1, &w->now);
        } else {
            jump(w, context, at, to);
        }
        return true;
    case OP_BRANCH_TO_REGISTER:
        jump_to_register(w, context, at);
        return true;
    case OP_CALL_REGISTER:
        call_register(w, at);
        if (conditional(i))
            reach(w, context, at + 1, &w->now);
        return true;
    case OP_RETURN:
        go_back(w, context, at);
        if (conditional(i))
            reach(w, context, at + 1, &w->now);
        return true;
    case OP_EXIT:
        if (conditional(i)) {
            literal_t if_so = condition(i);
            state_assume(&w->now, if_so ? literal_not(if_so) : 0);
            return false;
        }
        return true;
    case OP_JOIN:
        for (uint32_t n = 0; n < w->odds; n++)
            if (w->odd[n].barrier == i->barrier)
                reach(w, context, w->odd[n].target, &w->now);
        return false;
    default:
        return false;
    }
}

static void run_block(struct walk *w, const struct place *p) {
    uint32_t context = p->context, at = p->at;
    w->now = p->state;
    for (;;) {
        if (++w->a->steps > STEPS)
            give_up(w, "too much to follow");
        if (w->a->accesses.odd)
            return;
        if (leave(w, context, at))
            return;
        step(w->a, &w->now, at);
        if (++at >= w->a->instructions || w->begins[at]) {
            reach(w, context, at, &w->now);
            return;
        }
    }
}

/* --- preparation --- */

static void find_blocks(struct walk *w) {
    const struct analysis *a = w->a;
    for (uint32_t at = 0; at < a->instructions; at++) {
        const struct instruction *i = &a->instruction[at];
        uint32_t to;
        bool jumps = i->operation == OP_BRANCH || i->operation == OP_COLLECT || i->operation == OP_CALL ||
                     i->operation == OP_JOIN_AT;
        if (jumps && target_of(w, at, i->target, &to))
            w->begins[to] = 1;
        if (i->operation == OP_CALL && at + 1 < a->instructions)
            w->begins[at + 1] = 1;
    }
    for (uint32_t j = 0; j < a->kernel->jumps; j++)
        if (a->kernel->jump[j].target / INSTRUCTION_BYTES < a->instructions)
            w->begins[a->kernel->jump[j].target / INSTRUCTION_BYTES] = 1;
}

/* Threads go on behind the join that they wait at, as compilers place them. Others are remembered. */
static void find_joins(struct walk *w) {
    const struct analysis *a = w->a;
    for (uint32_t at = 0; at < a->instructions; at++) {
        const struct instruction *i = &a->instruction[at];
        uint32_t to;
        if (i->operation != OP_JOIN_AT && i->operation != OP_COLLECT)
            continue;
        if (!target_of(w, at, i->target, &to) || to == 0) {
            give_up(w, "threads that meet nowhere");
            return;
        }
        const struct instruction *before = &a->instruction[to - 1];
        if (i->operation == OP_COLLECT) {
            if (before->operation != OP_COLLECTED)
                give_up(w, "threads that are collected elsewhere");
        } else if (before->operation != OP_JOIN || before->barrier != i->barrier) {
            if (w->odds == ODD_TARGETS) {
                give_up(w, "too many joins");
                return;
            }
            w->odd[w->odds].barrier = i->barrier;
            w->odd[w->odds++].target = to;
        }
    }
}

void flow(struct analysis *a) {
    struct walk *w = calloc(1, sizeof *w);
    if (!w) {
        a->accesses.odd = "no memory";
        return;
    }
    w->a = a;
    w->begins = calloc(a->instructions, 1);
    w->context[0].place = calloc(a->instructions, sizeof(uint16_t));
    w->contexts = 1;
    if (w->begins && w->context[0].place) {
        find_blocks(w);
        find_joins(w);
        reach(w, 0, 0, &w->now);
    } else {
        a->accesses.odd = "no memory";
    }
    while (w->waits && !a->accesses.odd && !a->values.full) {
        struct place *p = w->place[w->waiting[--w->waits]];
        p->waiting = false;
        run_block(w, p);
    }
    for (uint32_t n = 0; n < w->places; n++)
        free(w->place[n]);
    for (uint32_t c = 0; c < w->contexts; c++)
        free(w->context[c].place);
    free(w->begins);
    free(w);
}
