#define _GNU_SOURCE
#include "observe/stats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hot.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/output.h"
#include "base/process.h"
#include "base/thread.h"
#include "observe/leftover.h"
#include "ulms.h"

enum { LINE = 64, SHARED = 0 };

_Static_assert((int)COUNTERS <= ULMS_COUNTERS, "no room for another counter");
_Static_assert((int)DEVICE_MAX == ULMS_DEVICES, "one entry for each device");
_Static_assert(offsetof(struct ulms_stats, slot) % LINE == 0, "slots share no cache line");
_Static_assert(sizeof(struct ulms_slot) % LINE == 0, "slots share no cache line");

static struct ulms_stats own __attribute__((aligned(LINE)));      /* while there is no file */
static struct ulms_stats of_child __attribute__((aligned(LINE))); /* in a child: no page of it was written before */
static struct ulms_stats *stats = &own;

static struct lock hiding;

static struct {
    char path[OPTION_PATH_MAX]; /* "": none */
    char hidden[OPTION_PATH_MAX];
    dev_t device;
    ino_t inode;
} file;

/* --- slots: each belongs to one thread, which adds without an atomic; the threads left over share one --- */

static uint64_t taken = 1 << SHARED;

_Static_assert(ULMS_SLOTS == 64, "one bit for each slot");

static void let_go(struct thread *t) {
    if (t->slot != SHARED)
        __atomic_fetch_and(&taken, ~((uint64_t)1 << t->slot), __ATOMIC_RELEASE);
    t->slot = SHARED;
    t->counts = NULL;
}

static void promise_to_let_go(void) {
    static struct thread_end at_end = {.run = let_go};
    thread_at_end(&at_end);
}

/* Only a thread whose end will be told may own a slot. */
static unsigned slot_take(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct thread *self = thread_self();
    run_once(&once, promise_to_let_go);
    uint64_t old = __atomic_load_n(&taken, __ATOMIC_RELAXED);
    while (self && self->slot == SHARED && ~old) {
        unsigned slot = (unsigned)__builtin_ctzll(~old);
        if (__atomic_compare_exchange_n(&taken, &old, old | (uint64_t)1 << slot, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            self->slot = slot;
            self->counts = stats->slot[slot].counts;
        }
    }
    return self ? self->slot : SHARED;
}

void stats_heart(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    __atomic_store_n(&stats->heartbeat_ns, now, __ATOMIC_RELAXED);
}

HOT void stats_foresee(void) {
    fetch((uintptr_t)thread_here.counts, (COUNT_touched_bytes + 1) * sizeof(uint64_t));
}

SELDOM struct counts stats_enter(void) {
    unsigned slot = slot_take();
    return (struct counts){stats->slot[slot].counts, slot == SHARED};
}

uint64_t stats_sum(enum counter c) {
    uint64_t sum = 0;
    for (int slot = 0; slot < ULMS_SLOTS; slot++)
        sum += __atomic_load_n(&stats->slot[slot].counts[c], __ATOMIC_RELAXED);
    return sum;
}

void stats_memory(int device, uint64_t used, uint64_t peak, uint64_t capacity) {
    if (device < 0 || device >= ULMS_DEVICES)
        return;
    struct ulms_memory *m = &stats->memory[device];
    __atomic_store_n(&m->used, used, __ATOMIC_RELAXED);
    __atomic_store_n(&m->capacity, capacity, __ATOMIC_RELAXED);
    uint64_t old = __atomic_load_n(&m->peak, __ATOMIC_RELAXED);
    while (old < peak && !__atomic_compare_exchange_n(&m->peak, &old, peak, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    stats_heart();
}

/* --- the file --- */

static const struct ulms_counter_row rows[COUNTERS] = {
#define X(name, unit, what) {#name, unit, what},
    STATS_COUNTERS(X)
#undef X
};

const char *stats_name(enum counter c) {
    return rows[c].name;
}

/* The magic goes last: a reader that finds it finds the rest. */
static void describe(struct ulms_stats *s) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    s->version = ULMS_STATS_VERSION;
    s->pid = (uint32_t)getpid();
    s->process_start = process_start();
    s->pid_namespace = process_namespace();
    s->opened_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    s->counters = COUNTERS;
    s->devices = ULMS_DEVICES;
    s->slots = ULMS_SLOTS;
    s->row_bytes = sizeof s->row[0];
    s->memory_bytes = sizeof s->memory[0];
    s->slot_bytes = sizeof s->slot[0];
    s->rows_at = offsetof(struct ulms_stats, row);
    s->memory_at = offsetof(struct ulms_stats, memory);
    s->slots_at = offsetof(struct ulms_stats, slot);
    s->held = ULMS_HELD;
    s->held_at = offsetof(struct ulms_stats, held_row);
    s->held_bytes = sizeof s->held_row[0];
    s->file_bytes = sizeof *s;
    process_name(s->program, sizeof s->program);
    memcpy(s->row, rows, sizeof rows);
    uint64_t magic;
    memcpy(&magic, "ulmsstat", sizeof magic);
    __atomic_store_n(&s->magic, magic, __ATOMIC_RELEASE);
}

/* Written first: on a full disk, touching a mapped page that is not there would be a SIGBUS. */
static struct ulms_stats *map(int fd) {
    struct stat st;
    if (!output_write(fd, stats, sizeof *stats) || fstat(fd, &st) < 0)
        return NULL;
    void *p = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return NULL;
    file.device = st.st_dev;
    file.inode = st.st_ino;
    return p;
}

/* NULL: errno says why not. */
static struct ulms_stats *open_file(const char *path) {
    if (strlen(path) >= sizeof file.path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    int fd = output_create(path);
    if (fd < 0)
        return NULL;
    struct ulms_stats *mapped = map(fd);
    int error = errno;
    close(fd);
    if (mapped)
        strcpy(file.path, path);
    else
        unlink(path);
    errno = error;
    return mapped;
}

bool stats_open(const char *path) {
    if (strncmp(path, STATS_FOLDER "/", strlen(STATS_FOLDER "/")) == 0)
        leftovers_remove(STATS_FOLDER);
    struct ulms_stats *mapped = *path ? open_file(path) : NULL;
    bool done = !*path || mapped;
    if (mapped)
        stats = mapped;
    if (!done)
        log_error("no counters in %s: %s", path,
                  errno == EEXIST ? "it exists already; remove it, or put %p (the process id) in the name"
                                  : strerror(errno));
    describe(stats);
    stats_heart();
    return done;
}

void stats_close(void) {
    struct stat st;
    if (file.path[0] && stats->pid == (uint32_t)getpid() && lstat(file.path, &st) == 0 && st.st_dev == file.device &&
        st.st_ino == file.inode)
        unlink(file.path);
    file.path[0] = 0;
}

/* --- while the process is written to a disk --- */

/* In the place of the mapping, which other threads write to. What they count meanwhile may be lost. */
static bool replace(struct ulms_stats *by) {
    memcpy(by, stats, sizeof *by);
    return mremap(by, sizeof *by, sizeof *by, MREMAP_MAYMOVE | MREMAP_FIXED, stats) != MAP_FAILED;
}

/* Unless the name is the user's. */
static void rename_by_start(char path[OPTION_PATH_MAX], uint64_t before, uint64_t now) {
    char own_name[OPTION_PATH_MAX];
    static const char format[] = STATS_FOLDER "/" STATS_PREFIX "%d-%llu";
    snprintf(own_name, sizeof own_name, format, (int)getpid(), (unsigned long long)before);
    if (strcmp(path, own_name) == 0)
        snprintf(path, OPTION_PATH_MAX, format, (int)getpid(), (unsigned long long)now);
}

static bool is_mapped(void) {
    return stats != &own && stats->pid == (uint32_t)getpid();
}

void stats_hide(void) {
    void *p = MAP_FAILED;
    lock_take(&hiding);
    if (file.path[0] && is_mapped())
        p = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED && replace(p)) {
        strcpy(file.hidden, file.path);
        stats_close();
    }
    lock_drop(&hiding);
}

void stats_show(void) {
    lock_take(&hiding);
    if (file.hidden[0] && is_mapped()) {
        uint64_t now = process_start();
        rename_by_start(file.hidden, stats->process_start, now);
        stats->process_start = now;
        struct ulms_stats *mapped = open_file(file.hidden);
        if (!mapped || !replace(mapped))
            log_warn("no counters in %s any more: %s", file.hidden, strerror(errno));
        file.hidden[0] = 0;
    }
    lock_drop(&hiding);
}

void stats_fork_child(void) {
    struct ulms_stats *parents = stats;
    stats = &of_child;
    if (parents == &of_child)
        memset(&of_child, 0, sizeof of_child);
    else if (parents != &own)
        munmap(parents, sizeof *parents);
    file.path[0] = 0;
    taken = 1 << SHARED;
    thread_here.slot = SHARED;
    thread_here.counts = NULL;
}

struct ulms_held *stats_held(void) {
    return stats->held_row;
}

/* Few children ask. */
const struct ulms_stats *ulms_stats(void) {
    if (stats == &of_child && !of_child.magic)
        describe(&of_child);
    return stats;
}

uint64_t ulms_counter(const char *name) {
    for (int c = 0; c < COUNTERS; c++)
        if (strcmp(name, rows[c].name) == 0)
            return stats_sum((enum counter)c);
    return UINT64_MAX;
}
