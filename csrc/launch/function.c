#include "launch/function.h"

#include <stdlib.h>
#include <string.h>

#include "base/hot.h"
#include "base/lock.h"
#include "base/spread.h"
#include "launch/reads.h"
#include "ledger/pool.h"
#include "ulms.h"

/* Readers walk a table that never loses an entry; a full table is replaced by a larger one, and stays: late readers may
 * still be walking it. */
struct entry {
    uint64_t handle;
    struct function *function; /* NULL: the entry is empty */
};

void (*function_describe)(uint64_t handle, struct layout *out);
void (*function_named)(const struct function *f);

static struct lock lock;
static HOT_DATA uintptr_t table; /* its address, with the logarithm of its capacity in the low bits; 0: none yet */
static HOT_DATA uint32_t epoch;

enum { CHUNK = 256, CHUNKS = 4096, FIRST_BITS = 10, BITS_MASK = 63 };
static struct function **chunks[CHUNKS]; /* functions by id, in the order seen */
static uint32_t count;

static size_t capacity_of(uintptr_t t) {
    return (size_t)1 << (t & BITS_MASK);
}

/* Whole lines of the cache, close together and never given back. */
static void *room_for(size_t bytes) {
    enum { PIECE = 2 << 20 };
    static char *room;
    static size_t left;
    bytes = (bytes + HOT_LINE - 1) / HOT_LINE * HOT_LINE;
    if (left < bytes) {
        size_t size = bytes < PIECE ? PIECE : bytes;
        char *more = pages_new(size);
        if (!more)
            return NULL;
        room = more;
        left = size;
    }
    left -= bytes;
    return room + left;
}

static struct entry *entries_of(uintptr_t t) {
    return (struct entry *)(t & ~(uintptr_t)BITS_MASK);
}

static size_t home(uintptr_t t, uint64_t handle) {
    return (size_t)(spread(handle) >> 32) & (capacity_of(t) - 1);
}

/* The entry of the handle, or the empty one where it would go. */
static HOT struct entry *entry_of(uintptr_t t, uint64_t handle) {
    struct entry *entries = entries_of(t);
    size_t mask = capacity_of(t) - 1, i = home(t, handle);
    while (__atomic_load_n(&entries[i].function, __ATOMIC_ACQUIRE) && entries[i].handle != handle)
        i = (i + 1) & mask;
    return &entries[i];
}

static struct function *function_find(uintptr_t t, uint64_t handle) {
    return t ? __atomic_load_n(&entry_of(t, handle)->function, __ATOMIC_ACQUIRE) : NULL;
}

static void place(uintptr_t t, struct function *f) {
    struct entry *e = entry_of(t, f->handle);
    e->handle = f->handle;
    __atomic_store_n(&e->function, f, __ATOMIC_RELEASE);
}

static bool make_room(void) {
    if (table && 2 * (count + 1) <= capacity_of(table))
        return true;
    unsigned bits = table ? (unsigned)(table & BITS_MASK) + 1 : FIRST_BITS;
    uintptr_t larger = (uintptr_t)room_for(sizeof(struct entry) << bits);
    if (!larger)
        return false;
    larger |= bits;
    for (uint32_t i = 0; i < count; i++) /* the latest of a handle last */
        place(larger, chunks[i / CHUNK][i % CHUNK]);
    __atomic_store_n(&table, larger, __ATOMIC_RELEASE);
    return true;
}

static struct word_run words_of(const struct layout *l, uint32_t i) {
    unsigned skip = -(unsigned)l->offset[i] & 7;
    unsigned words = l->size[i] > skip ? (l->size[i] - skip) / 8 : 0;
    return (struct word_run){(uint16_t)i, (uint16_t)skip, (uint16_t)words, (uint16_t)(l->offset[i] + skip)};
}

/* What the driver tells, before it is known whether it is new. Under the lock. */
static struct layout layout;
static union {
    struct function function;
    char room[sizeof(struct function) + PARAMETERS_MAX * sizeof(struct word_run)];
} fresh;

/* What the code says, as far as it is for these parameters. */
static const struct kernel_verdict *verdict_for(struct function *f) {
    const struct kernel_verdict *v = f->code ? kernel_code_verdict(f->code) : NULL;
    f->flags = OP_ROAMS | (f->code && !v ? OP_UNREAD : 0);
    uint32_t last = layout.parameters - 1, bytes = 0;
    if (!v || !verdict_decides(v) || !f->known || f->arrays)
        return NULL;
    if (layout.parameters)
        bytes = (uint32_t)layout.offset[last] + layout.size[last];
    return bytes == v->parameter_bytes ? v : NULL;
}

static bool is_written(const struct kernel_verdict *v, uint32_t offset) {
    return words_have(&v->writes, offset / 8);
}

/* Words of the run that are written, or are not, follow one another in runs of their own. */
static void add_runs(struct function *f, const struct word_run *r, const struct kernel_verdict *v, bool written) {
    for (uint16_t from = 0, to; from < r->words; from = to) {
        bool is = is_written(v, r->offset + 8u * from);
        for (to = from + 1; to < r->words && is_written(v, r->offset + 8u * to) == is;)
            to++;
        if (is == written)
            f->run[f->runs++] = (struct word_run){r->parameter, (uint16_t)(r->skip + 8 * from), (uint16_t)(to - from),
                                                  (uint16_t)(r->offset + 8 * from)};
    }
}

/* Those that are only read come last. */
static void order_runs(struct function *f, const struct kernel_verdict *v) {
    for (int pass = 0; pass < 2; pass++) {
        f->read_run = f->runs;
        for (uint32_t i = 0; i < layout.parameters; i++) {
            struct word_run r = words_of(&layout, i);
            add_runs(f, &r, v, pass == 0);
        }
    }
}

static void take_runs(struct function *f, const struct kernel_verdict *v) {
    uint16_t read_from = kernel_reads_from(layout.name);
    if (v && !read_from) {
        order_runs(f, v);
        return;
    }
    for (uint32_t i = 0; i < layout.parameters; i++) {
        struct word_run r = words_of(&layout, i);
        bool arrays = f->arrays && argument_arrays_at(f->arrays)->parameter == i;
        if (read_from && i == read_from)
            f->read_run = f->runs;
        if (r.words && !arrays)
            f->run[f->runs++] = r;
    }
    f->sparse = read_from;
    if (!read_from || read_from >= layout.parameters)
        f->read_run = f->runs;
}

/* now: the epoch since before the driver is asked. A module that goes meanwhile makes the answer an old one. */
static void describe(uint64_t handle, uint32_t now) {
    struct function *f = &fresh.function;
    layout.known = false;
    layout.code = NULL;
    layout.parameters = 0;
    strcpy(layout.name, "?");
    function_describe(handle, &layout);
    *f = (struct function){
        .handle = handle, .known = layout.known, .epoch = now, .name = layout.name, .code = layout.code};
    f->parameters = (uint16_t)layout.parameters;
    f->arrays = layout.known ? argument_arrays_find(&layout) : 0;
    const struct kernel_verdict *v = verdict_for(f);
    if (ulms_kernel_trusted(layout.name) || (v && v->verdict == VERDICT_DIRECT))
        f->flags = 0;
    f->ruled = v && f->flags;
    take_runs(f, v);
}

static bool same(const struct function *a, const struct function *b) {
    return a->known == b->known && a->flags == b->flags && a->ruled == b->ruled && a->code == b->code &&
           a->runs == b->runs && a->read_run == b->read_run && a->arrays == b->arrays &&
           strcmp(a->name, b->name) == 0 && memcmp(a->run, b->run, a->runs * sizeof *a->run) == 0;
}

/* Enters what was described. again: a function that has been read since; its number stays. */
static struct function *keep(struct function *again) {
    uint32_t at = again ? again->id - 1 : count;
    struct function ***chunk = &chunks[at / CHUNK];
    if (at == CHUNK * CHUNKS || !make_room() || (!*chunk && !(*chunk = calloc(CHUNK, sizeof **chunk))))
        return NULL;
    size_t bytes = sizeof fresh.function + fresh.function.runs * sizeof fresh.function.run[0];
    struct function *f = room_for(bytes + strlen(layout.name) + 1);
    if (!f)
        return NULL;
    memcpy(f, &fresh, bytes);
    f->name = strcpy((char *)f + bytes, layout.name);
    f->id = at + 1;
    if (again) {
        f->launches = __atomic_load_n(&again->launches, __ATOMIC_RELAXED);
        f->unmatched = __atomic_load_n(&again->unmatched, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&(*chunk)[at % CHUNK], f, __ATOMIC_RELEASE);
    if (!again)
        __atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
    place(table, f);
    return f;
}

/* Under the lock: another thread may have come first. A handle that came back after an unload as another function gets
 * a new id; the old description stays for launches under way. */
static struct function *function_enter(uint64_t handle) {
    uint32_t now = __atomic_load_n(&epoch, __ATOMIC_RELAXED);
    struct function *old = function_find(table, handle);
    if (old && old->epoch == now)
        return old;
    describe(handle, now);
    if (old && same(old, &fresh.function)) {
        __atomic_store_n(&old->epoch, now, __ATOMIC_RELAXED);
        return old;
    }
    bool again = old && old->code && old->code == fresh.function.code && strcmp(old->name, layout.name) == 0;
    struct function *f = keep(again ? old : NULL);
    if (f && function_named && !again)
        function_named(f);
    return f;
}

static SELDOM struct function *function_ask(uint64_t handle) {
    lock_take(&lock);
    struct function *f = function_enter(handle);
    lock_drop(&lock);
    return f;
}

HOT void function_foresee(uint64_t handle) {
    uintptr_t t = __atomic_load_n(&table, __ATOMIC_RELAXED);
    __builtin_prefetch(entries_of(t) + home(t, handle));
}

HOT struct function *function_of(uint64_t handle) {
    struct function *f = function_find(__atomic_load_n(&table, __ATOMIC_ACQUIRE), handle);
    bool recent = f && __atomic_load_n(&f->epoch, __ATOMIC_RELAXED) == __atomic_load_n(&epoch, __ATOMIC_RELAXED);
    return __builtin_expect(recent, 1) ? f : function_ask(handle);
}

void functions_forget(void) {
    __atomic_fetch_add(&epoch, 1, __ATOMIC_RELAXED);
}

void functions_review(const struct kernel_code *code) {
    lock_take(&lock);
    uint32_t old = __atomic_load_n(&epoch, __ATOMIC_RELAXED) - 1;
    for (uint32_t i = 0; i < count; i++) {
        struct function *f = chunks[i / CHUNK][i % CHUNK];
        if (f->code == code)
            __atomic_store_n(&f->epoch, old, __ATOMIC_RELAXED);
    }
    lock_drop(&lock);
}

const struct function *function_at(uint32_t i) {
    if (i >= __atomic_load_n(&count, __ATOMIC_ACQUIRE))
        return NULL;
    return __atomic_load_n(&chunks[i / CHUNK][i % CHUNK], __ATOMIC_ACQUIRE);
}
