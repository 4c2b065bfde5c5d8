#include "code/access.h"

#include <string.h>

void access_add(struct accesses *a, struct access access) {
    for (uint32_t i = 0; i < a->count; i++) {
        const struct access *b = &a->at[i];
        if (b->low == access.low && b->high == access.high && b->reads == access.reads && b->writes == access.writes &&
            b->generic == access.generic)
            return;
    }
    if (a->count == ACCESSES)
        a->odd = "too many accesses";
    else
        a->at[a->count++] = access;
}

void access_store(struct accesses *a, const struct value *stored) {
    struct words words = value_words(stored);
    words_join(&a->stored, &words);
    a->stored_other |= stored->other;
    for (int i = 0; i < stored->alternatives; i++)
        a->stored_other |= base_kind(stored->base[i][0]) == BASE_VARIABLE;
}

void access_choose(struct accesses *a, const struct value *place) {
    struct words words = value_words(place);
    words_join(&a->chosen, &words);
}

/* The alternatives of one half of an address, without the half. */
struct half {
    int count;
    base_t base[VALUE_ALTERNATIVES][VALUE_BASES];
    bool shared; /* the shared window was among them */
};

static bool has_window(const base_t *base, uint32_t window) {
    for (int n = 0; n < VALUE_BASES; n++)
        if (base_kind(base[n]) == BASE_WINDOW && base_index(base[n]) == window)
            return true;
    return false;
}

/* False: it holds the other half of something, or a window that is no part of an address. What is no memory of the
 * program is left out. */
static bool read_half(const struct value *v, uint32_t half, bool generic, struct half *out) {
    *out = (struct half){0};
    for (int i = 0; i < v->alternatives; i++) {
        const base_t *base = v->base[i];
        if (generic && (has_window(base, WINDOW_LOCAL) || has_window(base, WINDOW_GRID)))
            continue;
        if (generic && has_window(base, WINDOW_SHARED) && !base[1]) {
            out->shared = true;
            if (half == 1 && (v->loaded || v->other || words_count(&v->mixed)))
                return false;
            continue;
        }
        for (int n = 0; n < VALUE_BASES && base[n]; n++) {
            if (base_kind(base[n]) == BASE_WINDOW || base_half(base[n]) != half)
                return false;
            out->base[out->count][n] = base[n] & ~(base_t)1;
        }
        out->count++;
    }
    return true;
}

static bool holds(const struct half *h, const base_t *base) {
    for (int i = 0; i < h->count; i++)
        if (memcmp(h->base[i], base, sizeof h->base[i]) == 0)
            return true;
    return false;
}

/* Both halves have the same alternatives. Where the upper one may be the window of shared memory, the lower one may be
 * a plain number. */
static bool same(const struct half *low, const struct half *high) {
    for (int i = 0; i < high->count; i++)
        if (!holds(low, high->base[i]))
            return false;
    for (int i = 0; i < low->count; i++)
        if (!holds(high, low->base[i]) && !(high->shared && !low->base[i][0]))
            return false;
    return true;
}

static bool any_holds(const struct half *h, base_t base) {
    for (int i = 0; i < h->count; i++)
        for (int n = 0; n < VALUE_BASES; n++)
            if (h->base[i][n] == base)
                return true;
    return false;
}

/* A word of which the lower half was added, and its sign to the upper half, is a number of 32 bits and no base. signs:
 * what went into the upper half otherwise. */
static void take_numbers(struct half *low, const struct half *high, const struct words *signs, struct words *mixed) {
    for (int i = 0; i < low->count; i++) {
        base_t *base = low->base[i];
        int kept = 0;
        for (int n = 0; n < VALUE_BASES && base[n]; n++) {
            bool number = base_kind(base[n]) == BASE_PARAMETER && words_have(signs, base_index(base[n])) &&
                          !any_holds(high, base[n]);
            if (number)
                words_add(mixed, base_index(base[n]));
            else
                base[kept++] = base[n];
        }
        while (kept < VALUE_BASES)
            base[kept++] = 0;
    }
}

struct judge {
    const struct accesses *all;
    struct words chosen; /* that decide which place is used, anywhere: what is loaded there may tell of them */
    struct kernel_verdict *out;
    bool indexed, follows;
    const char *odd;
};

static void add_rule(struct judge *j, const struct words *one, const struct words *none) {
    struct kernel_verdict *out = j->out;
    for (uint32_t r = 0; r < out->rules; r++)
        if (memcmp(&out->rule[r].one, one, sizeof *one) == 0) {
            words_join(&out->rule[r].none, none);
            return;
        }
    if (out->rules == VERDICT_RULES)
        j->odd = "too many rules";
    else
        out->rule[out->rules++] = (struct verdict_rule){*one, *none};
}

/* One alternative of an address. */
static void judge_base(struct judge *j, const base_t *base, bool loaded, bool other, const struct words *mixed) {
    struct words one = {0}, none = *mixed;
    int variables = 0;
    bool any = false;
    for (int n = 0; n < VALUE_BASES && base[n]; n++) {
        if (base_kind(base[n]) == BASE_PARAMETER)
            words_add(&one, base_index(base[n]));
        variables += base_kind(base[n]) == BASE_VARIABLE;
        any |= base_kind(base[n]) == BASE_ANY;
    }
    if (!base[0] && !loaded)
        j->odd = "an address without a base";
    j->follows |= !base[0] && loaded;
    if (!base[0] || !loaded)
        return;
    j->indexed = true;
    if (any || other || variables > 1 || words_count(mixed) == KERNEL_WORDS)
        j->odd = "an index of several bases";
    if (variables) {
        words_join(&none, &one);
        one = (struct words){0};
    }
    bool wanted = words_count(&one) > 0;
    for (int i = 0; i < WORDS_PARTS; i++)
        one.bit[i] &= ~none.bit[i];
    if (wanted && words_count(&one) == 0)
        j->odd = "a difference of addresses";
    add_rule(j, &one, &none);
}

static void judge_access(struct judge *j, const struct access *a, const struct value *low, const struct value *high) {
    struct half l, h;
    if (!low->alternatives || !high->alternatives) {
        j->odd = "an address that was never written";
        return;
    }
    bool read = read_half(low, 0, a->generic, &l) && read_half(high, 1, a->generic, &h);
    bool loaded = low->loaded || high->loaded, other = low->other || high->other;
    struct words mixed = low->mixed, touched;
    words_join(&mixed, &high->mixed);
    if (read)
        take_numbers(&l, &h, &high->mixed, &mixed);
    if (!read || !same(&l, &h)) {
        j->odd = "halves of different addresses";
        return;
    }
    if (loaded && h.shared && h.count) {
        j->odd = "a loaded value beside shared memory";
        return;
    }
    touched = mixed;
    if (loaded) {
        words_join(&mixed, &j->all->stored);
        words_join(&mixed, &j->chosen);
        other |= j->all->stored_other;
    }
    for (int i = 0; i < h.count; i++) {
        for (int n = 0; n < VALUE_BASES; n++)
            if (base_kind(h.base[i][n]) == BASE_PARAMETER)
                words_add(&touched, base_index(h.base[i][n]));
            else if (base_kind(h.base[i][n]) == BASE_ANY)
                memset(&touched, 0xff, sizeof touched);
        judge_base(j, h.base[i], loaded, other, &mixed);
    }
    if (a->reads)
        words_join(&j->out->reads, &touched);
    if (a->writes)
        words_join(&j->out->writes, &touched);
}

void access_judge(const struct accesses *a, const struct values *v, struct kernel_verdict *out) {
    struct judge j = {.all = a, .chosen = a->chosen, .out = out, .odd = a->odd};
    for (uint32_t i = 0; i < a->count; i++) {
        words_join(&j.chosen, &value_at(v, a->at[i].low)->mixed);
        words_join(&j.chosen, &value_at(v, a->at[i].high)->mixed);
    }
    for (uint32_t i = 0; i < a->count && !j.odd; i++)
        judge_access(&j, &a->at[i], value_at(v, a->at[i].low), value_at(v, a->at[i].high));
    if (a->maps) {
        memset(&out->reads, 0xff, sizeof out->reads);
        memset(&out->writes, 0xff, sizeof out->writes);
    }
    out->stores = a->stored;
    out->verdict = j.odd ? VERDICT_UNKNOWN : j.follows ? VERDICT_FOLLOWS : j.indexed ? VERDICT_INDEXED : VERDICT_DIRECT;
    out->reason = j.odd ? j.odd : j.follows ? "an address was loaded" : NULL;
}
