#include "log.h"

#include "emu.h"
#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool on;
static struct emu_touch *entries;
static size_t count, room;

void log_touch(const struct emu_launch *r, uint64_t address, uint64_t bytes, int mode) {
    if (!atomic_load_explicit(&on, memory_order_relaxed))
        return;
    struct emu_touch t = {.operation = r->operation,
                          .address = address,
                          .bytes = bytes,
                          .mode = (uint32_t)mode,
                          .device = r->device->ordinal};
    snprintf(t.name, sizeof t.name, "%s", r->name);
    pthread_mutex_lock(&lock);
    if (count == room) {
        size_t more = room ? 2 * room : 1024;
        struct emu_touch *bigger = realloc(entries, more * sizeof *bigger);
        if (!bigger)
            abort(); /* a log with holes would prove nothing */
        entries = bigger;
        room = more;
    }
    entries[count++] = t;
    pthread_mutex_unlock(&lock);
}

EXPORT void emu_log(int want) {
    pthread_mutex_lock(&lock);
    count = 0;
    atomic_store(&on, want != 0);
    pthread_mutex_unlock(&lock);
}

EXPORT size_t emu_log_read(size_t from, struct emu_touch *out, size_t n) {
    pthread_mutex_lock(&lock);
    size_t there = from < count ? count - from : 0;
    if (n > 0 && there > 0)
        memcpy(out, entries + from, (n < there ? n : there) * sizeof *out);
    size_t all = count;
    pthread_mutex_unlock(&lock);
    return all;
}
