#include "shared.h"

#include "saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROCESSES_MAX = 64 };

/* pid 0: nobody's. Times tell a process from a later one of the same number. */
struct process {
    int pid;
    uint64_t born;
    uint64_t used[DEVICES_MAX], pages[DEVICES_MAX];
    uint64_t kept[DEVICES_MAX]; /* what it held when it was checkpointed */
    struct shared_life life;
    uint64_t waits[DEVICES_MAX]; /* since when it waits for a slice of the device, ns; 0: it does not */
};

/* Readers of the file know where the memory is: at its start. */
struct shared {
    struct shared_memory memory[DEVICES_MAX];
    bool made;
    pthread_mutex_t
        lock; /* of all below and above; one who died in it left no sum half done that drop_dead does not mend */
    struct shared_time time;
    struct process process[PROCESSES_MAX];
};

static struct shared own, *all = &own;

/* In this process's own memory: what another one that checkpointed it must know if it is restarted. It writes it there.
 */
static struct saved {
    struct process process;
    int64_t self; /* index of its row; -1: none yet */
    atomic_bool is_away;
} saved = {.self = -1};

/* NULL: it has none yet. */
static struct process *self(void) {
    return saved.self >= 0 ? all->process + saved.self : NULL;
}

static void make(struct shared *s) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->lock, &kind);
    for (int i = 0; i < DEVICES_MAX; i++)
        s->time.turn[i].owner = -1;
    s->made = true;
}

static struct shared *map(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *at = MAP_FAILED;
    if (file >= 0 && flock(file, LOCK_EX) == 0 && ftruncate(file, sizeof own) == 0)
        at = mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        perror("emu: EMU_SHARED");
        abort();
    }
    if (!((struct shared *)at)->made)
        make(at);
    flock(file, LOCK_UN); /* the mapping keeps the file open */
    close(file);
    return at;
}

void shared_open(void) {
    const char *path = getenv("EMU_SHARED");
    if (path)
        all = map(path);
    else
        make(&own);
}

static size_t read_text(const char *path, char *out, size_t room) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, out, room - 1) : -1;
    if (file >= 0)
        close(file);
    out[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* Clock ticks by which /proc shifts what it tells this process: a restarted one has a time namespace of its own. */
static uint64_t shift(void) {
    char text[128];
    long seconds = 0, ns = 0, ticks = sysconf(_SC_CLK_TCK);
    read_text("/proc/self/timens_offsets", text, sizeof text);
    const char *p = strstr(text, "boottime");
    if (!p || sscanf(p, "boottime %ld %ld", &seconds, &ns) != 2)
        return 0;
    return (uint64_t)(seconds * ticks + ns / (1000000000 / ticks));
}

/* When it was started, in clock ticks, give or take one; 0: it has ended, waited for or not. */
static uint64_t birth(int pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_text(path, text, sizeof text);
    char *name_end = strrchr(text, ')'), state = 'X';
    unsigned long long born = 0;
    if (!name_end ||
        sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state,
               &born) != 2)
        return 0;
    return state == 'Z' || state == 'X' ? 0 : born - shift();
}

static bool lives(const struct process *p) {
    uint64_t born = birth(p->pid);
    return born && born - p->born + 1 <= 2;
}

/* What ended processes held is nobody's, and sums are right again. */
static void drop_dead(void) {
    uint64_t used[DEVICES_MAX] = {0}, pages[DEVICES_MAX] = {0};
    for (struct process *p = all->process; p < all->process + PROCESSES_MAX; p++) {
        if (p->pid && p != self() && !lives(p))
            memset(p, 0, sizeof *p);
        for (int i = 0; i < DEVICES_MAX; i++) {
            used[i] += p->used[i];
            pages[i] += p->pages[i];
        }
    }
    for (int i = 0; i < DEVICES_MAX; i++) {
        all->memory[i].used = used[i];
        all->memory[i].pages = pages[i];
    }
}

static void lock(void) {
    if (pthread_mutex_lock(&all->lock) == EOWNERDEAD) {
        pthread_mutex_consistent(&all->lock);
        drop_dead();
    }
}

static void unlock(void) {
    pthread_mutex_unlock(&all->lock);
}

/* Under the lock. */
static struct process *here(void) {
    if (self())
        return self();
    for (struct process *p = all->process; p < all->process + PROCESSES_MAX; p++)
        p->born = p->pid == getpid() ? 0 : p->born; /* before an exec */
    drop_dead();
    for (struct process *p = all->process; p < all->process + PROCESSES_MAX; p++)
        if (!p->pid) {
            *p = (struct process){.pid = getpid(), .born = birth(getpid())};
            saved.self = p - all->process;
            return p;
        }
    fprintf(stderr, "emu: more than %d processes in EMU_SHARED\n", PROCESSES_MAX);
    abort();
}

static void change(uint64_t *mine, uint64_t *sum, uint64_t *most, int64_t bytes) {
    *mine += (uint64_t)bytes;
    *sum += (uint64_t)bytes;
    *most = *sum > *most ? *sum : *most;
}

bool shared_take(int device, uint64_t bytes, uint64_t of) {
    struct shared_memory *m = &all->memory[device];
    lock();
    struct process *p = here();
    if (m->used + bytes > of && m->used != p->used[device])
        drop_dead();
    bool room = bytes <= of && m->used <= of - bytes;
    if (room)
        change(&p->used[device], &m->used, &m->most, (int64_t)bytes);
    unlock();
    return room;
}

void shared_give(int device, uint64_t bytes) {
    lock();
    change(&here()->used[device], &all->memory[device].used, &all->memory[device].most, -(int64_t)bytes);
    unlock();
}

void shared_change_pages(int device, int64_t bytes) {
    lock();
    change(&here()->pages[device], &all->memory[device].pages, &all->memory[device].pages_most, bytes);
    unlock();
}

struct shared_memory shared_memory(int device) {
    lock();
    if (self() ? all->memory[device].used != self()->used[device] : all->memory[device].used)
        drop_dead();
    struct shared_memory m = all->memory[device];
    unlock();
    return m;
}

/* --- time --- */

bool shared_with_others(void) {
    return all != &own;
}

struct shared_time *shared_time_take(void) {
    lock();
    return &all->time;
}

void shared_time_give(void) {
    unlock();
}

int shared_self(void) {
    return (int)(here() - all->process);
}

void shared_want(int device, uint64_t ns) {
    uint64_t *since = &here()->waits[device];
    *since = *since && ns ? *since : ns;
}

static struct process *longest_waiting(int device) {
    struct process *first = NULL;
    for (struct process *p = all->process; p < all->process + PROCESSES_MAX; p++)
        if (p->waits[device] && (!first || p->waits[device] < first->waits[device]))
            first = p;
    return first;
}

int shared_next(int device) {
    struct process *p = longest_waiting(device);
    if (p && p != self() && !lives(p)) {
        drop_dead();
        p = longest_waiting(device);
    }
    return p ? (int)(p - all->process) : -1;
}

/* --- checkpoints --- */

struct shared_life *shared_life(void) {
    return self() ? &self()->life : &own.process[0].life;
}

static struct process *process_numbered(int pid) {
    for (struct process *p = all->process; p < all->process + PROCESSES_MAX; p++)
        if (p->pid == pid)
            return p;
    return NULL;
}

bool shared_is_away(void) {
    return atomic_load_explicit(&saved.is_away, memory_order_relaxed);
}

/* One that was restarted has no row, but was told what was in it. */
static struct process *adopt(int pid, uint64_t born) {
    struct saved found;
    lock();
    drop_dead();
    struct process *p = process_numbered(0);
    bool is_one = p && saved_read(pid, &saved, &found, sizeof found) && found.is_away && found.process.pid == pid;
    if (is_one) {
        *p = found.process;
        p->born = born;
        found.self = p - all->process;
        is_one = saved_write(pid, &saved, &found, sizeof found);
        p->pid = is_one ? pid : 0;
    }
    unlock();
    return is_one ? p : NULL;
}

static struct process *process_of(int pid) {
    struct process *p = pid > 0 ? process_numbered(pid) : NULL;
    if (p && lives(p))
        return p;
    uint64_t born = pid > 0 ? birth(pid) : 0;
    return born ? adopt(pid, born) : NULL;
}

struct shared_life *shared_life_of(int pid) {
    struct process *p = process_of(pid);
    return p ? &p->life : NULL;
}

/* Under the lock. */
static bool tell(const struct process *p, bool is_away) {
    struct saved now = {.process = *p, .self = p - all->process, .is_away = is_away};
    return saved_write(p->pid, &saved, &now, sizeof now);
}

bool shared_let_go(int pid) {
    struct process *p = process_of(pid);
    lock();
    for (int i = 0; p && i < DEVICES_MAX; i++) {
        p->kept[i] = p->used[i];
        change(&p->used[i], &all->memory[i].used, &all->memory[i].most, -(int64_t)p->kept[i]);
    }
    if (p)
        atomic_store(&p->life.state, CU_PROCESS_STATE_CHECKPOINTED);
    bool told = p && tell(p, true);
    for (int i = 0; p && !told && i < DEVICES_MAX; i++)
        change(&p->used[i], &all->memory[i].used, &all->memory[i].most, (int64_t)p->kept[i]);
    if (p && !told)
        atomic_store(&p->life.state, CU_PROCESS_STATE_LOCKED);
    unlock();
    return told;
}

bool shared_hold_again(int pid, uint64_t of) {
    struct process *p = process_of(pid);
    lock();
    drop_dead();
    bool room = p != NULL;
    for (int i = 0; room && i < DEVICES_MAX; i++)
        room = all->memory[i].used + p->kept[i] <= of;
    room = room && tell(p, false);
    for (int i = 0; room && i < DEVICES_MAX; i++)
        change(&p->used[i], &all->memory[i].used, &all->memory[i].most, (int64_t)p->kept[i]);
    if (room)
        atomic_store(&p->life.state, CU_PROCESS_STATE_LOCKED);
    unlock();
    return room;
}
