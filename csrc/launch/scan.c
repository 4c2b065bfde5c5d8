#include "launch/scan.h"

#include <string.h>

#include "base/hot.h"
#include "base/process.h"
#include "launch/call_extents.h"

enum { SCAN_BATCH = 32 };

typedef uint32_t halves __attribute__((vector_size(16)));
typedef int32_t signs __attribute__((vector_size(16)));
#ifdef __clang__
#define UPPER(one, two) __builtin_shufflevector(one, two, 1, 3, 5, 7)
#else
#define UPPER(one, two) __builtin_shuffle(one, two, (halves){1, 3, 5, 7})
#endif

/* Where addresses can be, asked once a launch: most words are no address. */
struct bounds {
    addr_t low, size;
    halves low_upper, size_upper; /* the upper halves of both, moved: see are_none */
};

/* What may be an address is looked up in batches: between two launches a program takes our data out of its caches, and
 * one miss after the other would cost more than all the rest. */
struct scan {
    struct op *op;
    struct ledger *ledger;
    struct call *call;
    uint8_t mode;       /* of what nobody told */
    uint32_t before;    /* touches of the operation before this scan */
    uint32_t read;      /* from this one on they are only read */
    struct near starts; /* of what this operation touches */
    unsigned found;
    addr_t batch[SCAN_BATCH];
};

static inline halves four(uint32_t x) {
    return (halves){x, x, x, x};
}

static inline struct bounds bounds_of(const struct ledger *l) {
    addr_t low, high;
    ledger_bounds(l, &low, &high);
    uint32_t upper = (uint32_t)(low >> 32), sign = 1u << 31;
    return (struct bounds){.low = low,
                           .size = high - low,
                           .low_upper = four(upper + sign),
                           .size_upper = four((uint32_t)((high - 1) >> 32) - upper - sign)};
}

static inline void scan_start(struct scan *s, struct op *op, struct ledger *l) {
    s->op = op;
    s->ledger = l;
    s->call = call_under_way();
    s->mode = TOUCH_UPDATE;
    s->before = op->count;
    near_clear(&s->starts, op->count != 0);
    s->found = 0;
}

/* What it did there stays done: one that was read and is changed now was changed. */
static SELDOM bool just_touched(struct op *op, const struct touch *t) {
    uint32_t from = op->count > SCAN_NEAR ? op->count - SCAN_NEAR : 0;
    for (uint32_t i = from; i < op->count; i++) {
        struct touch *before = &op->touches[i];
        if (before->start != t->start || before->bytes != t->bytes)
            continue;
        if (before->mode == TOUCH_READ && t->mode != TOUCH_READ)
            before->mode = TOUCH_UPDATE;
        before->sparse = false;
        return true;
    }
    return false;
}

/* t may lie where it is kept already. */
static inline void keep(struct scan *s, const struct touch *t) {
    struct op *op = s->op;
    if (__builtin_expect(near_meet(&s->starts, t->start), 0) && just_touched(op, t))
        return;
    if (__builtin_expect(t != &op->touches[op->count], 0))
        op->touches[op->count] = *t;
    op->count++;
}

/* p was not looked up before, or there may be no room. */
static HOT __attribute__((noinline)) void look_closer(struct scan *s, addr_t p) {
    struct touch t = {.mode = s->mode};
    bool captured = s->op->flags & OP_CAPTURED;
    if (s->op->count < TOUCH_MAX && (captured ? ledger_extent_captured : ledger_extent)(s->ledger, p, &t))
        keep(s, &t);
}

static HOT void look_up(struct scan *s) {
    struct touch *first = &s->op->touches[s->op->count];
    unsigned n = s->found;
    bool room = s->op->count + n <= TOUCH_MAX;
    uint32_t known = room && n ? ledger_extents_told(s->ledger, s->batch, n, s->mode, first) : 0;
    for (unsigned i = 0; i < n; i++) {
        if (__builtin_expect(known >> i & 1, 1))
            keep(s, &first[i]);
        else
            look_closer(s, s->batch[i]);
    }
    s->found = 0;
}

/* What the call told of is not looked up: it leaves the batch. A kernel may hold many addresses in one extent. */
static HOT __attribute__((noinline)) void look_up_untold(struct scan *s) {
    uint32_t before = s->op->count;
    unsigned left = 0;
    for (unsigned i = 0; i < s->found; i++)
        if (!call_extents_show(s->call, s->batch[i]))
            s->batch[left++] = s->batch[i];
    s->found = left;
    look_up(s);
    for (struct touch *t = &s->op->touches[before]; t < &s->op->touches[s->op->count]; t++)
        call_extents_elsewhere(t);
}

static HOT void look_up_batch(struct scan *s) {
    if (s->call)
        look_up_untold(s);
    else
        look_up(s);
}

/* The parameters from this one on are only read. */
static SELDOM void begin_reading(struct scan *s) {
    look_up_batch(s);
    s->mode = TOUCH_READ;
    s->read = s->op->count;
}

void scan_distrust(struct op *op, uint32_t from) {
    for (uint32_t i = from; i < op->count; i++)
        if (op->touches[i].mode == TOUCH_READ)
            op->touches[i].mode = TOUCH_UPDATE;
}

/* Who writes so little of the first that it reads leaves most of that alone. In a library's call nobody asks whether
 * rules hold. */
static SELDOM void end_reading(struct scan *s, const struct function *f) {
    struct touch *t = &s->op->touches[s->read];
    uint64_t written = 0;
    if (f->ruled && s->call)
        scan_distrust(s->op, s->read);
    if (!f->sparse)
        return;
    for (uint32_t i = s->before; i < s->read; i++)
        written += s->op->touches[i].bytes;
    if (s->read < s->op->count && t->mode == TOUCH_READ)
        t->sparse = written > 0 && t->bytes / SPARSE_PART >= written;
}

/* Whether it is an address is not asked by a branch, which would often be foretold wrongly. */
static inline void look_at(struct scan *s, const struct bounds *b, const char *at) {
    addr_t p;
    memcpy(&p, at, sizeof p);
    s->batch[s->found] = p;
    s->found += p - b->low < b->size;
    if (__builtin_expect(s->found == SCAN_BATCH, 0))
        look_up_batch(s);
}

static HOT __attribute__((noinline)) void look_at_each(struct scan *s, const struct bounds *b, const char *at,
                                                       unsigned words) {
    for (; words; words--, at += 8)
        look_at(s, b, at);
}

/* Of four words, those that surely are no address have -1 in their lanes, by their upper halves. Lanes are compared
 * with a sign: what is moved by half the range compares as without one. */
static inline signs are_none(const struct bounds *b, const char *at) {
    halves one, two;
    memcpy(&one, at, sizeof one);
    memcpy(&two, at + sizeof one, sizeof two);
    return (signs)(UPPER(one, two) - b->low_upper) > (signs)b->size_upper;
}

/* Large structures are mostly not addresses: eight words share one branch. */
static inline void look_at_words(struct scan *s, const struct bounds *b, const char *at, unsigned words) {
    for (; words >= 8; words -= 8, at += 64) {
        signs none = are_none(b, at) & are_none(b, at + 32);
        int64_t sum[2];
        memcpy(sum, &none, sizeof sum);
        if (__builtin_expect((sum[0] & sum[1]) != -1, 0))
            look_at_each(s, b, at, 8);
    }
    if (words)
        look_at_each(s, b, at, words);
}

static __attribute__((noinline)) void look_at_arrays(struct scan *s, const struct bounds *b,
                                                     const struct argument_arrays *a, const char *at,
                                                     struct grid grid) {
    unsigned used = argument_arrays_used(a, at, grid, b->low, b->size);
    if (!used)
        look_at_words(s, b, at, a->bytes / 8);
    for (unsigned i = 0; used && i < a->arrays; i++)
        look_at_words(s, b, at + a->array[i], used);
}

static inline __attribute__((always_inline)) void scan_end(struct scan *s, const struct function *f) {
    struct op *op = s->op;
    look_up_batch(s);
    if (__builtin_expect(s->mode == TOUCH_READ, 0))
        end_reading(s, f);
    if (!f->known)
        op->flags |= OP_BLIND;
    if (op->count == s->before && (f->runs || f->arrays || !f->known))
        op->flags |= OP_UNMATCHED;
}

HOT void scan_parameters(struct op *op, struct ledger *l, const struct function *f, struct grid grid,
                         void *const *parameters) {
    struct scan s;
    const struct bounds b = bounds_of(l);
    scan_start(&s, op, l);
    if (__builtin_expect(f->arrays, 0))
        look_at_arrays(&s, &b, argument_arrays_at(f->arrays), parameters[argument_arrays_at(f->arrays)->parameter],
                       grid);
    for (const struct word_run *r = f->run, *read = r + f->read_run, *end = r + f->runs; r < end; r++) {
        const char *at = (const char *)parameters[r->parameter] + r->skip;
        if (__builtin_expect(r == read, 0))
            begin_reading(&s);
        if (r->words == 1)
            look_at(&s, &b, at);
        else
            look_at_words(&s, &b, at, r->words);
    }
    scan_end(&s, f);
}

/* Of `words` from `offset` on, those that a buffer of `bytes` has. Trap: it may be shorter than the parameters, as
 * NCCL's is, whose kernels have one of 4096 bytes. */
static unsigned words_there(size_t bytes, size_t offset, unsigned words) {
    size_t there = bytes > offset ? (bytes - offset) / 8 : 0;
    return there < words ? (unsigned)there : words;
}

void scan_buffer(struct op *op, struct ledger *l, const struct function *f, struct grid grid, const void *buffer,
                 size_t bytes) {
    struct scan s;
    const struct bounds b = bounds_of(l);
    scan_start(&s, op, l);
    op->flags |= OP_EXTRA;
    if (!f->known)
        look_at_words(&s, &b, buffer, words_there(bytes, 0, UINT32_MAX));
    const struct argument_arrays *a = f->arrays ? argument_arrays_at(f->arrays) : NULL;
    if (a && (size_t)a->offset + a->bytes <= bytes)
        look_at_arrays(&s, &b, a, (const char *)buffer + a->offset, grid);
    else if (a)
        look_at_words(&s, &b, (const char *)buffer + a->offset, words_there(bytes, a->offset, a->bytes / 8));
    for (const struct word_run *r = f->run, *read = r + f->read_run, *end = r + f->runs; r < end; r++) {
        if (r == read)
            begin_reading(&s);
        look_at_words(&s, &b, (const char *)buffer + r->offset, words_there(bytes, r->offset, r->words));
    }
    scan_end(&s, f);
}

_Static_assert((int)SCAN_BLIND_MAX <= (int)PROCESS_PIECES, "they are read at once");

void scan_blindly(struct op *op, struct ledger *l, void *const *parameters) {
    void *pointers[SCAN_BLIND_MAX], *where[SCAN_BLIND_MAX];
    uint64_t words[SCAN_BLIND_MAX];
    struct scan s;
    const struct bounds b = bounds_of(l);
    scan_start(&s, op, l);
    for (size_t i = 0; i < SCAN_BLIND_MAX; i++)
        where[i] = (void *)(uintptr_t)&parameters[i];
    size_t n = process_read_pieces(pointers, sizeof *pointers, where, SCAN_BLIND_MAX);
    n = process_read_pieces(words, sizeof *words, pointers, n);
    look_at_words(&s, &b, (const char *)words, (unsigned)n);
    look_up_batch(&s);
    op->flags |= OP_BLIND | (op->count == s.before ? OP_UNMATCHED : 0);
}
