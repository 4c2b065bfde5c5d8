#include "launch/function.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Readers walk a table that never loses an entry; a full table is replaced by a larger one. */
struct table {
    struct table *older; /* late readers may still be walking it */
    size_t capacity;     /* power of two */
    struct function *entries[];
};

void (*function_describe)(uint64_t handle, struct layout *out);
void (*function_named)(const struct function *f);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *table;
static uint32_t epoch;

enum { CHUNK = 256, CHUNKS = 4096 };
static struct function *chunks[CHUNKS]; /* functions by id, in the order seen */
static uint32_t count;

static size_t home(const struct table *t, uint64_t handle) {
    return (size_t)((handle * 0x9e3779b97f4a7c15u) >> 32) & (t->capacity - 1);
}

/* The entry of the handle, or the empty one where it would go. */
static struct function **entry_of(struct table *t, uint64_t handle) {
    size_t i = home(t, handle);
    for (struct function *f; (f = __atomic_load_n(&t->entries[i], __ATOMIC_ACQUIRE)) && f->handle != handle;)
        i = (i + 1) & (t->capacity - 1);
    return &t->entries[i];
}

static struct function *find(struct table *t, uint64_t handle) {
    return t ? __atomic_load_n(entry_of(t, handle), __ATOMIC_ACQUIRE) : NULL;
}

static void place(struct table *t, struct function *f) {
    __atomic_store_n(entry_of(t, f->handle), f, __ATOMIC_RELEASE);
}

static bool make_room(void) {
    if (table && 2 * (count + 1) <= table->capacity)
        return true;
    size_t capacity = table ? 2 * table->capacity : 1024;
    struct table *larger = calloc(1, sizeof *larger + capacity * sizeof larger->entries[0]);
    if (!larger)
        return false;
    larger->older = table;
    larger->capacity = capacity;
    for (size_t i = 0; table && i < table->capacity; i++)
        if (table->entries[i])
            place(larger, table->entries[i]);
    __atomic_store_n(&table, larger, __ATOMIC_RELEASE);
    return true;
}

static struct word_run words_of(const struct layout *l, uint32_t i) {
    unsigned skip = -(unsigned)l->offset[i] & 7;
    unsigned words = l->size[i] > skip ? (l->size[i] - skip) / 8 : 0;
    return (struct word_run){(uint16_t)i, (uint16_t)skip, (uint16_t)words, (uint16_t)(l->offset[i] + skip)};
}

static void discard(struct function *f) {
    free(f->run);
    free(f->name);
}

/* now: the epoch since before the driver is asked. A module that goes meanwhile makes the answer an old one. */
static bool describe(struct function *f, uint64_t handle, uint32_t now) {
    static struct layout layout; /* large; under the lock */
    layout.known = false;
    layout.parameters = 0;
    strcpy(layout.name, "?");
    function_describe(handle, &layout);
    *f = (struct function){.handle = handle, .known = layout.known, .epoch = now};
    f->parameters = (uint16_t)layout.parameters;
    f->name = strdup(layout.name);
    f->run = malloc((layout.parameters + 1) * sizeof *f->run);
    if (!f->name || !f->run) {
        discard(f);
        return false;
    }
    f->slots = layout.known ? slots_find(&layout) : 0;
    for (uint32_t i = 0; i < layout.parameters; i++) {
        struct word_run r = words_of(&layout, i);
        bool slots = f->slots && slots_at(f->slots)->parameter == i;
        if (r.words && !slots)
            f->run[f->runs++] = r;
    }
    return true;
}

static bool same(const struct function *a, const struct function *b) {
    return a->known == b->known && a->runs == b->runs && a->slots == b->slots && strcmp(a->name, b->name) == 0 &&
           memcmp(a->run, b->run, a->runs * sizeof *a->run) == 0;
}

static struct function *keep(const struct function *fresh) {
    struct function **chunk = &chunks[count / CHUNK];
    if (count == CHUNK * CHUNKS || !make_room() || (!*chunk && !(*chunk = calloc(CHUNK, sizeof **chunk))))
        return NULL;
    struct function *f = &(*chunk)[count % CHUNK];
    *f = *fresh;
    f->id = count + 1;
    __atomic_store_n(&count, count + 1, __ATOMIC_RELEASE);
    place(table, f);
    return f;
}

/* Under the lock: another thread may have come first. A handle that came back after an unload as another function gets
 * a new id; the old description stays for launches under way. */
static struct function *enter(uint64_t handle) {
    uint32_t now = __atomic_load_n(&epoch, __ATOMIC_RELAXED);
    struct function *old = find(table, handle), fresh;
    if ((old && old->epoch == now) || !describe(&fresh, handle, now))
        return old;
    struct function *f = old && same(old, &fresh) ? NULL : keep(&fresh);
    if (!f) {
        discard(&fresh);
        if (old)
            __atomic_store_n(&old->epoch, now, __ATOMIC_RELAXED);
        return old;
    }
    if (function_named)
        function_named(f);
    return f;
}

struct function *function_of(uint64_t handle) {
    struct function *f = find(__atomic_load_n(&table, __ATOMIC_ACQUIRE), handle);
    if (__builtin_expect(f && __atomic_load_n(&f->epoch, __ATOMIC_RELAXED) == __atomic_load_n(&epoch, __ATOMIC_RELAXED),
                         1))
        return f;
    pthread_mutex_lock(&lock);
    f = enter(handle);
    pthread_mutex_unlock(&lock);
    return f;
}

void functions_forget(void) {
    __atomic_fetch_add(&epoch, 1, __ATOMIC_RELAXED);
}

const struct function *function_at(uint32_t i) {
    return i < __atomic_load_n(&count, __ATOMIC_ACQUIRE) ? &chunks[i / CHUNK][i % CHUNK] : NULL;
}
