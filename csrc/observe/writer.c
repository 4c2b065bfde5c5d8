#define _GNU_SOURCE
#include "observe/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/log.h"
#include "base/options.h"
#include "base/output.h"
#include "base/thread.h"
#include "observe/crc.h"
#include "observe/format.h"
#include "observe/ring.h"
#include "observe/stats.h"
#include "observe/trace.h"

enum { ROUND_NS = 20000000, COUNT_NS = 100000000, CHUNK_BYTES = 64 << 10, CLOSE_SECONDS = 10, NAMES_MOST = 100 };

static struct {
    int fd;
    dev_t device;
    ino_t inode;
    uint64_t records, drops;
} file;

static struct {
    struct chunk head;
    unsigned char records[CHUNK_BYTES + RING_BYTES / 4]; /* the last record may pass CHUNK_BYTES */
} chunk;

static pthread_t thread;
static bool running;  /* from writer_open to writer_close */
static bool closing;  /* the next round is the last */
static uint32_t bell; /* 1: rung, not answered */
static uint64_t homeless;

/* --- the file --- */

/* A program that closes descriptors it does not know may have got ours back as a file of its own. */
static bool still_ours(void) {
    struct stat st;
    return fstat(file.fd, &st) == 0 && st.st_dev == file.device && st.st_ino == file.inode;
}

static void fail(const char *why) {
    if (still_ours())
        close(file.fd);
    file.fd = -1;
    trace_on = false;
    log_warn("the trace ends here: %s", why);
}

static void write_chunk(struct chunk *head) {
    head->magic = CHUNK_MAGIC;
    head->first_serial = ((const struct record *)chunk.records)->serial;
    head->crc = crc32_of(&head->bytes, sizeof *head - offsetof(struct chunk, bytes) + head->bytes);
    if (!still_ours()) {
        fail("the program closed its file");
    } else if (!output_write(file.fd, &chunk, sizeof *head + head->bytes)) {
        fail(strerror(errno));
    } else {
        file.records += head->records;
        stats_add(COUNT_trace_records, head->records);
    }
}

/* After an error what comes is thrown away. */
static void flush(void) {
    if (chunk.head.records > 0 && file.fd >= 0)
        write_chunk(&chunk.head);
    chunk.head = (struct chunk){0};
}

static void put(const void *record, size_t bytes) {
    memcpy(chunk.records + chunk.head.bytes, record, bytes);
    chunk.head.bytes += (uint32_t)bytes;
    chunk.head.records++;
    if (chunk.head.bytes >= CHUNK_BYTES)
        flush();
}

static struct record own_record(enum record_type type, size_t bytes, uint32_t of_thread) {
    return (struct record){(uint16_t)type, (uint16_t)(bytes / 8), of_thread, serial_next(), clock_ns()};
}

static void put_drops(uint32_t of_thread, uint64_t records) {
    struct drops_record r = {own_record(RECORD_DROPS, sizeof r, of_thread), records};
    put(&r, sizeof r);
    file.drops += records;
    stats_add(COUNT_trace_drops, records);
}

/* --- the counters: named before they are told, told when they changed --- */

enum { NAME_BYTES = 32, TOLD = COUNT_trace_records }; /* those behind tell of the trace itself, and would never rest */
_Static_assert((int)TOLD == (int)COUNT_trace_drops - 1 && (int)COUNT_trace_drops == (int)COUNTERS - 1, "the last two");

static struct {
    bool named;
    uint64_t told_ns;
    uint64_t values[TOLD];
} counters;

static void put_counter_names(void) {
    for (uint32_t id = 0; id < TOLD; id++) {
        struct {
            struct name_record r;
            char text[NAME_BYTES];
        } named = {0};
        const char *name = stats_name((enum counter)id);
        size_t length = strlen(name), bytes = sizeof named.r + (length + 7) / 8 * 8;
        named.r = (struct name_record){own_record(RECORD_COUNTER, bytes, 0), id, (uint32_t)length};
        memcpy(named.text, name, length);
        put(&named, bytes);
    }
    counters.named = true;
}

static void put_counts(void) {
    struct {
        struct counts_record r;
        uint64_t values[TOLD];
    } now;
    for (int c = 0; c < TOLD; c++)
        now.values[c] = stats_sum((enum counter)c);
    counters.told_ns = clock_ns();
    if (memcmp(now.values, counters.values, sizeof now.values) == 0)
        return;
    memcpy(counters.values, now.values, sizeof now.values);
    if (!counters.named)
        put_counter_names();
    now.r.head = own_record(RECORD_COUNTS, sizeof now, 0);
    put(&now, sizeof now);
}

static void put_end(void) {
    struct end_record r = {own_record(RECORD_END, sizeof r, 0), file.records + chunk.head.records, file.drops};
    put(&r, sizeof r);
    flush();
}

/* --- the thread --- */

/* At most one lap, so that a busy thread does not keep the others waiting. What the owner filled before it left is seen
 * here, as its state is read first. */
static void empty(struct ring *ring) {
    uint32_t state = __atomic_load_n(&ring->state, __ATOMIC_ACQUIRE);
    const unsigned char *data;
    size_t run, at;
    for (size_t lap = 0; lap < RING_BYTES && (run = ring_peek(ring, &data)); lap += run) {
        for (at = 0; at < run;) {
            size_t bytes = 8u * ((const struct record *)(data + at))->words;
            put(data + at, bytes);
            at += bytes;
        }
        ring_drain(ring, run);
    }
    uint64_t lost = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED);
    if (lost != ring->told)
        put_drops(__atomic_load_n(&ring->thread, __ATOMIC_RELAXED), lost - ring->told);
    ring->told = lost;
    if (state == RING_LEFT)
        __atomic_store_n(&ring->state, RING_FREE, __ATOMIC_RELEASE);
}

static void round_trip(void) {
    for (struct ring *r = ring_first(); r; r = r->next_ring)
        empty(r);
    uint64_t lost = __atomic_exchange_n(&homeless, 0, __ATOMIC_RELAXED);
    if (lost)
        put_drops(0, lost);
    if (clock_ns() - counters.told_ns >= COUNT_NS)
        put_counts();
    flush();
}

static void rest(void) {
    syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, 0, &(struct timespec){0, ROUND_NS}, NULL, 0);
    __atomic_store_n(&bell, 0, __ATOMIC_RELAXED);
}

static void *run(void *unused) {
    pthread_setname_np(pthread_self(), "ulms-trace");
    for (bool last = false; !last && file.fd >= 0;) {
        rest();
        last = __atomic_load_n(&closing, __ATOMIC_ACQUIRE);
        round_trip();
    }
    if (file.fd >= 0) {
        put_counts();
        put_end();
    }
    if (file.fd >= 0)
        close(file.fd);
    file.fd = -1;
    return unused;
}

void writer_wake(void) {
    if (!__atomic_load_n(&bell, __ATOMIC_RELAXED) && !__atomic_exchange_n(&bell, 1, __ATOMIC_RELAXED))
        syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void writer_lose(void) {
    __atomic_add_fetch(&homeless, 1, __ATOMIC_RELAXED);
}

/* --- opening and closing --- */

static bool write_header(const char *text) {
    static const char fill[8] = "       \n";
    uint64_t monotonic = clock_ns();
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    size_t bytes = strlen(text), padding = 8 - bytes % 8;
    struct file_header h = {
        .version = TRACE_VERSION,
        .text_bytes = (uint32_t)bytes,
        .text_crc = crc32_of(text, bytes),
        .pid = (uint32_t)getpid(),
        .monotonic_ns = monotonic,
        .realtime_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
    };
    memcpy(h.magic, TRACE_MAGIC, sizeof h.magic);
    return output_write(file.fd, &h, sizeof h) && output_write(file.fd, text, bytes) &&
           output_write(file.fd, fill + sizeof fill - padding, padding);
}

/* PATH, then PATH.PID, PATH.PID.2 and so on: a program that a process ran before has its number. False: it is too long.
 */
static bool number(char *name, const char *path, int i) {
    int length = i == 0   ? snprintf(name, OPTION_PATH_MAX, "%s", path)
                 : i == 1 ? snprintf(name, OPTION_PATH_MAX, "%s.%d", path, (int)getpid())
                          : snprintf(name, OPTION_PATH_MAX, "%s.%d.%d", path, (int)getpid(), i);
    return length >= 0 && length < OPTION_PATH_MAX;
}

static bool is_file(const char *name) {
    struct stat st;
    return lstat(name, &st) < 0 || S_ISREG(st.st_mode);
}

/* What another process wrote is never replaced: the name is given a number until there is no such file. Nothing else is
 * written to: somebody may have put a link there, or a pipe that nobody reads. */
static int create(const char *path, char *name) {
    int fd = -1;
    for (int i = 0; fd < 0 && i < NAMES_MOST; i++) {
        if (!number(name, path, i)) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = output_create(name);
        if (fd < 0 && (errno != EEXIST || !is_file(name)))
            return -1;
    }
    return fd;
}

static bool open_file(const char *path) {
    static char name[OPTION_PATH_MAX]; /* the program's stack may be small */
    struct stat st;
    int fd = create(path, name);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) < 0) {
        close(fd);
        return false;
    }
    file.fd = output_move(fd);
    file.device = st.st_dev;
    file.inode = st.st_ino;
    if (strcmp(name, path) == 0)
        log_info("the trace is written to %s", name);
    else
        log_warn("%s exists already: the trace is written to %s", path, name);
    return true;
}

static bool start_thread(void) {
    errno = background_start(&thread, run, NULL);
    return errno == 0;
}

bool writer_open(const char *path, const char *header) {
    file.records = file.drops = 0;
    memset(&counters, 0, sizeof counters);
    __atomic_store_n(&closing, false, __ATOMIC_RELAXED);
    bool opened = open_file(path);
    running = opened && write_header(header) && start_thread();
    if (running)
        return true;
    log_error("no trace in %s: %s", path,
              errno == EEXIST ? "it is no file of a trace's own: links, pipes and devices are not opened"
                              : strerror(errno));
    if (opened)
        close(file.fd);
    return false;
}

/* Waits for the writer as long as the file takes what it writes, if slowly. */
static bool ends(void) {
    uint64_t before;
    do {
        before = stats_sum(COUNT_trace_records);
        if (background_join(thread, clock_ns() + CLOSE_SECONDS * 1000000000ull))
            return true;
    } while (stats_sum(COUNT_trace_records) != before);
    return false;
}

void writer_close(void) {
    if (!__atomic_exchange_n(&running, false, __ATOMIC_ACQ_REL))
        return;
    __atomic_store_n(&closing, true, __ATOMIC_RELEASE);
    writer_wake();
    if (!ends()) {
        log_warn("the trace is not complete: its file took nothing for %d s", CLOSE_SECONDS);
        pthread_detach(thread);
    }
}

void writer_forget(void) {
    if (__atomic_exchange_n(&running, false, __ATOMIC_RELAXED) && file.fd >= 0 && still_ours())
        close(file.fd);
    file.fd = -1;
}
