#include "code/value.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 17 }; /* a power of two, well above VALUE_MOST */

static uint64_t hash_of(const struct value *a) {
    uint64_t words[sizeof *a / sizeof(uint64_t)], hash = 0;
    _Static_assert(sizeof *a % sizeof(uint64_t) == 0, "no rest is left out");
    memcpy(words, a, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
    return hash;
}

/* As createpolicy.fractional makes them: which policy, and for what part of the addresses. Such numbers are only a hint
 * to the cache; what others would do as the descriptor of an access is not known. */
static uint8_t policy_half(uint32_t number) {
    return number == 0 ? descriptor_bit(true, 0) : (number & 0xf80fffffu) == 0x10000000u ? descriptor_bit(true, 1) : 0;
}

static value_t keep(struct values *v, struct value *a) {
    if (a->known && !a->base[0][0])
        a->descriptor = policy_half(a->number);
    uint32_t slot = (uint32_t)(hash_of(a) >> 40) % SLOTS;
    for (; v->slots[slot]; slot = (slot + 1) % SLOTS)
        if (memcmp(&v->at[v->slots[slot]], a, sizeof *a) == 0)
            return v->slots[slot];
    if (v->count == VALUE_MOST) {
        v->full = true;
        return VALUE_PLAIN;
    }
    v->at[v->count] = *a;
    v->slots[slot] = (value_t)v->count;
    return (value_t)v->count++;
}

bool values_open(struct values *v) {
    *v =
        (struct values){.at = malloc(VALUE_MOST * sizeof *v->at), .slots = calloc(SLOTS, sizeof *v->slots), .count = 1};
    if (!v->at || !v->slots) {
        values_close(v);
        return false;
    }
    v->at[VALUE_NEVER] = (struct value){0};
    keep(v, &(struct value){.alternatives = 1});
    keep(v, &(struct value){.alternatives = 1, .known = true});
    keep(v, &(struct value){.alternatives = 1, .loaded = true});
    return true;
}

void values_close(struct values *v) {
    free(v->at);
    free(v->slots);
    *v = (struct values){0};
}

value_t value_number(struct values *v, uint32_t number) {
    return keep(v, &(struct value){.alternatives = 1, .known = true, .number = number});
}

value_t value_base(struct values *v, base_t base) {
    struct value a = {.alternatives = 1, .base = {{base}}, .known = base_kind(base) == BASE_WINDOW};
    if (a.known && base_index(base) == WINDOW_DESCRIPTOR)
        a.descriptor = descriptor_bit(false, base_half(base));
    return keep(v, &a);
}

value_t value_any(struct values *v) {
    struct value a = {.alternatives = 1};
    memset(&a.mixed, 0xff, sizeof a.mixed);
    return keep(v, &a);
}

/* A base that goes in otherwise. Upper halves alone tell addresses not apart. */
static void mix_base(struct value *to, base_t base) {
    if (base_half(base))
        return;
    if (base_kind(base) == BASE_PARAMETER)
        words_add(&to->mixed, base_index(base));
    else if (base_kind(base) == BASE_ANY)
        memset(&to->mixed, 0xff, sizeof to->mixed);
    else if (base_kind(base) == BASE_VARIABLE)
        to->other = true;
}

static void mix_value(struct value *to, const struct value *a) {
    words_join(&to->mixed, &a->mixed);
    to->loaded |= a->loaded;
    to->other |= a->other;
}

static void mix_bases(struct value *to, const struct value *a) {
    for (int i = 0; i < a->alternatives; i++)
        for (int n = 0; n < VALUE_BASES; n++)
            mix_base(to, a->base[i][n]);
}

struct words value_words(const struct value *a) {
    struct value sum = {.mixed = a->mixed};
    mix_bases(&sum, a);
    return sum.mixed;
}

static int compare_alternatives(const void *a, const void *b) {
    return memcmp(b, a, sizeof(base_t[VALUE_BASES]));
}

/* Adds an alternative that is not there. False: there is no room. */
static bool add_alternative(struct value *to, const base_t *base) {
    for (int i = 0; i < to->alternatives; i++)
        if (memcmp(to->base[i], base, sizeof to->base[i]) == 0)
            return true;
    if (to->alternatives == VALUE_ALTERNATIVES)
        return false;
    memcpy(to->base[to->alternatives++], base, sizeof to->base[0]);
    qsort(to->base, to->alternatives, sizeof to->base[0], compare_alternatives);
    return true;
}

/* Too many alternatives: a number that all of them went into. */
static void collapse(struct value *to, const struct value *a) {
    mix_bases(to, to);
    mix_bases(to, a);
    memset(to->base, 0, sizeof to->base);
    to->alternatives = 1;
    to->known = false;
    to->number = 0;
}

value_t value_join(struct values *v, value_t a, value_t b) {
    if (a == b || b == VALUE_NEVER)
        return a;
    if (a == VALUE_NEVER)
        return b;
    struct value to = v->at[a];
    const struct value *from = &v->at[b];
    bool same = to.alternatives == from->alternatives && memcmp(to.base, from->base, sizeof to.base) == 0;
    mix_value(&to, from);
    to.descriptor &= from->descriptor;
    if (!same || !to.known || !from->known || to.number != from->number) {
        to.known = false;
        to.number = 0;
    }
    for (int i = 0; i < from->alternatives; i++)
        if (!add_alternative(&to, from->base[i])) {
            collapse(&to, from);
            break;
        }
    return keep(v, &to);
}

/* A sum of two alternatives. What has another coefficient than one, and what finds no room, goes in otherwise. */
static void add_bases(struct value *to, base_t *sum, const base_t *a, const base_t *b, bool subtract) {
    int n = 0;
    for (; n < VALUE_BASES && a[n]; n++)
        sum[n] = a[n];
    for (int i = 0; i < VALUE_BASES && b[i]; i++) {
        int same = 0;
        while (same < n && sum[same] != b[i])
            same++;
        bool any = base_kind(b[i]) == BASE_ANY;
        if (subtract && same < n && !any) {
            memmove(&sum[same], &sum[same + 1], sizeof sum[0] * (size_t)(n - same - 1));
            sum[--n] = 0;
        } else if (subtract || same < n || n == VALUE_BASES) {
            mix_base(to, b[i]);
        } else {
            sum[n++] = b[i];
        }
    }
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && sum[k] > sum[k - 1]; k--) {
            base_t larger = sum[k];
            sum[k] = sum[k - 1];
            sum[k - 1] = larger;
        }
}

/* Only a number, or a number beside one window, is known exactly. */
static bool may_be_known(const struct value *a) {
    return a->alternatives == 1 && !a->loaded && !a->other && words_count(&a->mixed) == 0 && !a->base[0][1] &&
           (!a->base[0][0] || base_kind(a->base[0][0]) == BASE_WINDOW);
}

value_t value_add(struct values *v, value_t a, value_t b, bool subtract) {
    if (b == VALUE_ZERO)
        return a;
    if (a == VALUE_ZERO && !subtract)
        return b;
    if (a == VALUE_NEVER || b == VALUE_NEVER)
        return value_mix(v, a, b);
    const struct value *x = &v->at[a], *y = &v->at[b];
    struct value to = {.alternatives = 0};
    mix_value(&to, x);
    mix_value(&to, y);
    bool room = true;
    for (int i = 0; i < x->alternatives && room; i++)
        for (int k = 0; k < y->alternatives && room; k++) {
            base_t sum[VALUE_BASES] = {0};
            add_bases(&to, sum, x->base[i], y->base[k], subtract);
            room = add_alternative(&to, sum);
        }
    if (!room) {
        mix_bases(&to, x);
        collapse(&to, y);
    }
    to.known = x->known && y->known && may_be_known(&to);
    to.number = !to.known ? 0 : subtract ? x->number - y->number : x->number + y->number;
    return keep(v, &to);
}

value_t value_mix(struct values *v, value_t a, value_t b) {
    struct value to = {.alternatives = 1};
    mix_value(&to, &v->at[a]);
    mix_value(&to, &v->at[b]);
    mix_bases(&to, &v->at[a]);
    mix_bases(&to, &v->at[b]);
    return keep(v, &to);
}

value_t value_inexact(struct values *v, value_t a) {
    struct value to = v->at[a];
    to.known = false;
    to.number = to.descriptor = 0;
    return keep(v, &to);
}

value_t value_decided(struct values *v, value_t a, value_t b, const struct value *but) {
    struct value to = v->at[a], why = {.alternatives = 1};
    mix_value(&why, &v->at[b]);
    mix_bases(&why, &v->at[b]);
    for (int i = 0; but && i < WORDS_PARTS; i++)
        why.mixed.bit[i] &= ~but->mixed.bit[i];
    why.other &= !but || !but->other;
    mix_value(&to, &why);
    to.known = false;
    to.number = 0;
    return keep(v, &to);
}

void value_add_upper(struct value *to, const struct value *a) {
    for (int i = 0; i < a->alternatives; i++)
        for (int n = 0; n < VALUE_BASES; n++)
            if (base_half(a->base[i][n]))
                mix_base(to, a->base[i][n] & ~(base_t)1);
}

value_t value_low(struct values *v, value_t a) {
    const struct value *x = &v->at[a];
    bool low = words_count(&x->mixed) == 0 && !x->other;
    for (int i = 0; i < x->alternatives; i++)
        for (int n = 0; n < VALUE_BASES; n++)
            low &= base_half(x->base[i][n]) == 0;
    return low ? (x->loaded ? VALUE_LOADED : VALUE_PLAIN) : value_mix(v, a, VALUE_NEVER);
}

bool value_is_number(const struct values *v, value_t a, uint32_t *number) {
    const struct value *x = &v->at[a];
    *number = x->number;
    return x->known && x->alternatives == 1 && !x->base[0][0];
}

bool value_is_base(const struct values *v, value_t a, base_t base) {
    const struct value *x = &v->at[a];
    return x->alternatives == 1 && !x->loaded && !x->other && words_count(&x->mixed) == 0 && !x->base[0][1] &&
           x->base[0][0] == base;
}
