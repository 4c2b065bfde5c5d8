#include "launch/rules.h"

#include <string.h>

struct seen {
    struct words asked, bases; /* that rules name, and those that may be a base */
    struct words near, held;   /* of those: that may be addresses, and are */
};

static void note_asked(struct seen *s, const struct kernel_verdict *v) {
    for (uint32_t i = 0; i < v->rules; i++) {
        words_join(&s->bases, &v->rule[i].one);
        words_join(&s->asked, &v->rule[i].none);
    }
    words_join(&s->asked, &s->bases);
}

/* NULL: it is not there. */
static const char *words_at(const struct arguments *a, const struct word_run *r) {
    if (a->parameters)
        return (const char *)a->parameters[r->parameter] + r->skip;
    return a->buffer && r->offset + 8u * r->words <= a->bytes ? (const char *)a->buffer + r->offset : NULL;
}

static bool look(struct seen *s, const struct function *f, const struct ledger *l, const struct arguments *a) {
    for (const struct word_run *r = f->run; r < f->run + f->runs; r++) {
        const char *at = words_at(a, r);
        if (!at)
            return false;
        for (uint32_t i = 0, word = r->offset / 8; i < r->words; i++, word++) {
            addr_t p;
            memcpy(&p, at + 8 * i, sizeof p);
            if (!words_have(&s->asked, word) || !ledger_may_hold(l, p))
                continue;
            words_add(&s->near, word);
            if (words_have(&s->bases, word) && ledger_holds(l, p, 1))
                words_add(&s->held, word);
        }
    }
    return true;
}

static uint32_t common(const struct words *a, const struct words *b) {
    uint32_t n = 0;
    for (int i = 0; i < WORDS_PARTS; i++)
        n += (uint32_t)__builtin_popcountll(a->bit[i] & b->bit[i]);
    return n;
}

static bool holds(const struct verdict_rule *r, const struct seen *s) {
    if (common(&r->none, &s->near) > 0)
        return false;
    return words_count(&r->one) == 0 || (common(&r->one, &s->near) == 1 && common(&r->one, &s->held) == 1);
}

bool rules_hold(const struct function *f, const struct ledger *l, const struct arguments *a) {
    const struct kernel_verdict *v = kernel_code_verdict(f->code);
    struct seen s = {0};
    note_asked(&s, v);
    bool hold = look(&s, f, l, a);
    for (uint32_t i = 0; hold && i < v->rules; i++)
        hold = holds(&v->rule[i], &s);
    return hold;
}
