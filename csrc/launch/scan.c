#define _GNU_SOURCE
#include "launch/scan.h"

#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/hot.h"
#include "launch/told.h"

static bool just_touched(const struct op *op, const struct touch *t) {
    uint32_t from = op->count > SCAN_NEAR ? op->count - SCAN_NEAR : 0;
    for (uint32_t i = from; i < op->count; i++)
        if (op->touches[i].start == t->start && op->touches[i].bytes == t->bytes)
            return true;
    return false;
}

enum { SCAN_BATCH = 32 };

/* Where addresses can be, asked once a launch: most words are no address, and fall through two comparisons. What is
 * left is looked up in batches: between two launches a program takes our data out of its caches, and one miss after the
 * other would cost more than all the rest. */
struct scan {
    struct op *op;
    struct ledger *ledger;
    const struct call *call;
    addr_t low, high;
    unsigned found;
    addr_t batch[SCAN_BATCH];
};

static void scan_start(struct scan *s, struct op *op, struct ledger *l) {
    s->op = op;
    s->ledger = l;
    s->call = told_call();
    s->found = 0;
    ledger_bounds(l, &s->low, &s->high);
}

static void look_closer(const struct scan *s, addr_t p) {
    struct op *op = s->op;
    if (op->count == TOUCH_MAX)
        return;
    struct touch *t = &op->touches[op->count];
    t->mode = TOUCH_UPDATE;
    bool known = (s->call && told_find(s->call, p, t)) || ledger_extent(s->ledger, p, t);
    if (known && !just_touched(op, t))
        op->count++;
}

static HOT __attribute__((noinline)) void look_up_batch(struct scan *s) {
    ledger_foresee(s->ledger, s->batch, s->found);
    for (unsigned i = 0; i < s->found; i++)
        look_closer(s, s->batch[i]);
    s->found = 0;
}

static inline bool may_be(const struct scan *s, const char *at) {
    addr_t p;
    memcpy(&p, at, sizeof p);
    return p - s->low < s->high - s->low;
}

static HOT void look_at_each(struct scan *s, const char *at, unsigned words) {
    for (unsigned i = 0; i < words; i++) {
        if (!may_be(s, at + 8 * i))
            continue;
        memcpy(&s->batch[s->found++], at + 8 * i, sizeof(addr_t));
        if (s->found == SCAN_BATCH)
            look_up_batch(s);
    }
}

/* Large structures are mostly not addresses: four words share one branch. */
static inline void look_at_words(struct scan *s, const char *at, unsigned words) {
    for (; words >= 4; words -= 4, at += 32)
        if (__builtin_expect(may_be(s, at) | may_be(s, at + 8) | may_be(s, at + 16) | may_be(s, at + 24), 0))
            look_at_each(s, at, 4);
    look_at_each(s, at, words);
}

static __attribute__((noinline)) void look_at_slots(struct scan *s, const struct slots *slots, const char *at,
                                                    struct grid grid) {
    unsigned used = slots_used(slots, at, grid);
    if (!used)
        look_at_words(s, at, slots->bytes / 8);
    for (unsigned i = 0; used && i < slots->arrays; i++)
        look_at_words(s, at + slots->array[i], used);
}

static void scan_end(struct scan *s, const struct function *f, uint32_t before) {
    struct op *op = s->op;
    look_up_batch(s);
    if (!f->known)
        op->flags |= OP_BLIND;
    if (op->count == before && (f->runs || f->slots || !f->known))
        op->flags |= OP_UNMATCHED;
}

HOT void scan_parameters(struct op *op, struct ledger *l, const struct function *f, struct grid grid,
                         void *const *parameters) {
    struct scan s;
    scan_start(&s, op, l);
    uint32_t before = op->count;
    if (__builtin_expect(f->slots, 0))
        look_at_slots(&s, slots_at(f->slots), parameters[slots_at(f->slots)->parameter], grid);
    for (const struct word_run *r = f->run; r < f->run + f->runs; r++)
        look_at_words(&s, (const char *)parameters[r->parameter] + r->skip, r->words);
    scan_end(&s, f, before);
}

void scan_buffer(struct op *op, struct ledger *l, const struct function *f, struct grid grid, const void *buffer,
                 size_t bytes) {
    struct scan s;
    scan_start(&s, op, l);
    uint32_t before = op->count;
    op->flags |= OP_EXTRA;
    if (!f->known)
        look_at_words(&s, buffer, (unsigned)(bytes / 8));
    const struct slots *slots = f->slots ? slots_at(f->slots) : NULL;
    if (slots && (size_t)slots->offset + slots->bytes <= bytes)
        look_at_slots(&s, slots, (const char *)buffer + slots->offset, grid);
    for (const struct word_run *r = f->run; r < f->run + f->runs; r++)
        if (r->offset + 8u * r->words <= bytes)
            look_at_words(&s, (const char *)buffer + r->offset, r->words);
    scan_end(&s, f, before);
}

/* Copies what can be read of n remote pieces of `bytes` each; returns how many pieces came whole. */
static size_t read_pieces(void *to, size_t bytes, void *const *from, size_t n) {
    struct iovec local = {to, n * bytes}, remote[SCAN_BLIND_MAX];
    for (size_t i = 0; i < n; i++)
        remote[i] = (struct iovec){from[i], bytes};
    ssize_t got = process_vm_readv(getpid(), &local, 1, remote, n, 0);
    return got < 0 ? 0 : (size_t)got / bytes;
}

void scan_blindly(struct op *op, struct ledger *l, void *const *parameters) {
    void *pointers[SCAN_BLIND_MAX], *where[SCAN_BLIND_MAX];
    uint64_t words[SCAN_BLIND_MAX];
    struct scan s;
    scan_start(&s, op, l);
    uint32_t before = op->count;
    for (size_t i = 0; i < SCAN_BLIND_MAX; i++)
        where[i] = (void *)(uintptr_t)&parameters[i];
    size_t n = read_pieces(pointers, sizeof *pointers, where, SCAN_BLIND_MAX);
    n = read_pieces(words, sizeof *words, pointers, n);
    look_at_words(&s, (const char *)words, (unsigned)n);
    look_up_batch(&s);
    op->flags |= OP_BLIND | (op->count == before ? OP_UNMATCHED : 0);
}
