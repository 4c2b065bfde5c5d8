#define _GNU_SOURCE
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/options.h"
#include "capture.h"
#include "observe/crc.h"
#include "observe/format.h"
#include "observe/ring.h"
#include "observe/stats.h"
#include "observe/trace.h"

enum { TYPES = RECORD_END + 1 };

enum { A_MINUTE_MS = 60000 }; /* a busy machine may need long: no wait is for less */

static char path[64];

static void open_new(void) {
    snprintf(path, sizeof path, "/tmp/ulms-test-trace-%d", (int)getpid());
    unlink(path);
    CHECK(trace_open(path, "{}"));
}

/* Counts the records of each type in the file, proving every chunk on the way. */
struct seen {
    uint64_t of[TYPES], drops, chunks, op_bytes;
};

static void look_at_chunk(const struct chunk *c, struct seen *s) {
    CHECK_EQ(c->magic, CHUNK_MAGIC);
    CHECK_EQ(c->crc, crc32_of(&c->bytes, sizeof *c - offsetof(struct chunk, bytes) + c->bytes));
    const char *p = (const char *)(c + 1), *end = p + c->bytes;
    uint32_t records = 0;
    for (const struct record *r; p < end; p += 8u * r->words, records++) {
        r = (const struct record *)p;
        CHECK(r->type > 0 && r->type < TYPES);
        CHECK(r->words >= sizeof *r / 8 && p + 8u * r->words <= end);
        s->of[r->type]++;
        s->op_bytes += r->type == RECORD_OP ? 8u * r->words : 0;
        if (r->type == RECORD_DROPS)
            s->drops += ((const struct drops_record *)r)->records;
    }
    CHECK(p == end);
    CHECK_EQ(records, c->records);
    s->chunks++;
}

static struct seen look(void) {
    struct seen s = {0};
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    const char *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0), *end = p + st.st_size;
    const struct file_header *h = (const void *)p;
    CHECK_EQ(memcmp(h->magic, TRACE_MAGIC, 8), 0);
    CHECK_EQ(h->version, TRACE_VERSION);
    CHECK_EQ(h->text_crc, crc32_of(h + 1, h->text_bytes));
    for (p += sizeof *h + h->text_bytes / 8 * 8 + 8; p < end;) {
        const struct chunk *c = (const void *)p;
        CHECK(p + sizeof *c + c->bytes <= end);
        look_at_chunk(c, &s);
        p += sizeof *c + c->bytes;
    }
    close(fd);
    unlink(path);
    return s;
}

static void one_op(uint32_t touches) {
    static struct touch t[TOUCH_MAX] = {{.start = 0x1000, .bytes = 512, .allocation = 1, .mode = TOUCH_READ}};
    struct op op = {.serial = serial_next(), .issued_ns = 1, .count = touches, .touches = t};
    trace_op(&op);
}

/* Reads a file about the writer's thread into text; false when there is no such thread. */
static bool about_writer(const char *file, char *text, size_t size) {
    char name[300];
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; !found && (task = readdir(tasks));) {
        for (int i = 0; i < 2; i++) { /* its name, then what is asked for */
            snprintf(name, sizeof name, "/proc/self/task/%s/%s", task->d_name, i ? file : "comm");
            int fd = open(name, O_RDONLY);
            ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);
            close(fd);
            text[n < 0 ? 0 : n] = 0;
            if (i == 0 && strcmp(text, "ulms-trace\n") != 0)
                break;
            found = i == 1 && n > 0;
        }
    }
    closedir(tasks);
    return found;
}

static bool writer_listed(void) {
    char text[64];
    return about_writer("comm", text, sizeof text);
}

/* It names itself when it starts, and stays listed for a moment after its end. */
static bool writer_becomes(bool there) {
    for (int ms = 0; ms < A_MINUTE_MS && writer_listed() != there; ms++)
        usleep(1000);
    return writer_listed() == there;
}

static bool all_written(uint64_t records) {
    for (int ms = 0; ms < A_MINUTE_MS && stats_sum(COUNT_trace_records) < records; ms++)
        usleep(1000);
    return stats_sum(COUNT_trace_records) >= records;
}

/* Before a fork: a lock of the sanitizer's allocator that the starting writer holds would stay locked in the child. */
static void open_started(void) {
    open_new();
    one_op(1);
    CHECK(all_written(1));
}

TEST(every_kind_of_record) {
    struct touch t[3000] = {{.start = 1, .bytes = 2, .allocation = 3}};
    addr_t pointers[10000] = {1, 2};
    struct allocation a = {.start = 1, .bytes = 2, .id = 3};
    open_new();
    one_op(0);
    one_op(3);
    one_op(TOUCH_MAX);
    trace_retired(1, 2, 3);
    trace_allocation(&a, true);
    trace_allocation(&a, false);
    trace_block(1, 2, true);
    trace_block(1, 2, false);
    trace_function(1, "kernel");
    trace_api(7, "cuLaunchKernel");
    trace_graph(9, 100, t, 3000);
    trace_graph(9, 1, NULL, 0);
    trace_table(1, 2, pointers, 10000);
    trace_table(1, 2, NULL, 0);
    trace_close();
    struct seen s = look();
    static const uint64_t expected[TYPES] = {0, 3, 1, 1, 1, 1, 1, 1, 1, 3 + 1, 3 + 1, 0, 1};
    for (int i = 0; i < TYPES; i++)
        CHECK_EQ(s.of[i], expected[i]);
    CHECK_EQ(stats_sum(COUNT_trace_records), 19);
}

/* Written without being closed, within a few rounds of the writer. */
TEST(a_graph_launch_leaves_its_touches_to_the_graph) {
    struct touch t = {.start = 1, .bytes = 2};
    struct op op = {.serial = 1, .kind = OP_GRAPH, .count = 1, .touches = &t};
    open_new();
    trace_op(&op);
    op.kind = OP_LAUNCH;
    trace_op(&op);
    trace_close();
    CHECK_EQ(look().op_bytes, 2 * sizeof(struct op_record) + sizeof(struct touch_record));
}

TEST(records_reach_the_file_by_themselves) {
    open_new();
    one_op(3);
    CHECK(all_written(1));
    CHECK_EQ(look().of[RECORD_OP], 1);
}

TEST(no_thread_before_opening_and_none_after_closing) {
    one_op(1); /* goes into a ring, which nobody empties */
    CHECK(writer_becomes(false));
    open_new();
    CHECK(writer_becomes(true));
    trace_close();
    CHECK(writer_becomes(false));
    trace_close();
    unlink(path);
}

TEST(the_writer_takes_no_signal) {
    char text[8192];
    open_new();
    CHECK(writer_becomes(true));
    CHECK(about_writer("status", text, sizeof text));
    unsigned long long blocked = strtoull(strstr(text, "SigBlk:") + 7, NULL, 16);
    static const int signals[] = {SIGHUP,  SIGINT,  SIGTERM, SIGUSR1, SIGUSR2,
                                  SIGCHLD, SIGPROF, SIGALRM, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        CHECK(blocked >> (signals[i] - 1) & 1);
    sigset_t ours;
    pthread_sigmask(SIG_SETMASK, NULL, &ours);
    CHECK(!sigismember(&ours, SIGUSR1));
    trace_close();
    unlink(path);
}

enum { THREADS = 10, ROUNDS = 30, EACH = 1000 };

static void *many_ops(void *unused) {
    for (int i = 0; i < EACH; i++)
        one_op(i % 4);
    return unused;
}

/* What is not in the file is counted as dropped; threads that end leave their rings to others. */
TEST(threads_come_and_go_and_nothing_goes_missing) {
    pthread_t threads[THREADS];
    open_new();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, many_ops, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
    }
    trace_close();
    struct seen s = look();
    CHECK_EQ(s.of[RECORD_OP] + s.drops, THREADS * ROUNDS * EACH);
    CHECK_EQ(s.drops, stats_sum(COUNT_trace_drops));
    CHECK_EQ(s.of[RECORD_END], 1);
}

static void *few_ops(void *unused) {
    one_op(1);
    return unused;
}

static bool free_again(const struct ring *r) {
    for (int ms = 0; ms < A_MINUTE_MS && __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) != RING_FREE; ms++)
        usleep(1000);
    return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == RING_FREE;
}

TEST(the_ring_of_a_thread_that_ended_serves_the_next) {
    pthread_t thread;
    open_new();
    for (uint64_t i = 0; i < 10; i++) {
        pthread_create(&thread, NULL, few_ops, NULL);
        pthread_join(thread, NULL);
        CHECK(free_again(ring_first()));
        CHECK(!ring_first()->next_ring);
    }
    trace_close();
    CHECK_EQ(look().of[RECORD_OP], 10);
}

/* Far more than the writer can take: the program does not wait, and the drops are told. */
TEST(a_flood_is_dropped_and_counted) {
    enum { FLOOD = 20000 };
    open_new();
    for (int i = 0; i < FLOOD; i++)
        one_op(1000);
    trace_close();
    struct seen s = look();
    CHECK_EQ(s.of[RECORD_OP] + s.drops, FLOOD);
}

static bool all_dropped(uint64_t records) {
    for (int ms = 0; ms < A_MINUTE_MS && stats_sum(COUNT_trace_drops) < records; ms++)
        usleep(1000);
    return stats_sum(COUNT_trace_drops) == records;
}

TEST(every_drop_is_told_once) {
    open_new();
    one_op(0);
    struct ring *r = thread_self()->ring;
    __atomic_store_n(&r->lost, 5, __ATOMIC_RELAXED);
    CHECK(all_dropped(5));
    __atomic_store_n(&r->lost, 7, __ATOMIC_RELAXED);
    CHECK(all_dropped(7));
    trace_close();
    struct seen s = look();
    CHECK_EQ(s.drops, 7);
    CHECK_EQ(s.of[RECORD_DROPS], 2);
}

TEST(more_threads_than_rings_is_told) {
    for (int i = 0; i < RINGS_MAX; i++)
        CHECK(ring_take(1000) != NULL);
    open_new();
    one_op(1);
    one_op(1);
    CHECK(all_dropped(2));
    one_op(1);
    trace_close();
    struct seen s = look();
    CHECK_EQ(s.drops, 3);
    CHECK_EQ(s.of[RECORD_OP], 0);
}

static void refused(const char *where, const char *why) {
    char line[256];
    snprintf(line, sizeof line, "[ulms] ERROR: no trace in %s: %s\n", where, why);
    capture_start();
    CHECK(!trace_open(where, "{}"));
    CHECK_STR(capture_end(), line);
    CHECK(!trace_on);
    CHECK(writer_becomes(false));
}

TEST(places_that_cannot_be_written) {
    refused("/nonexistent/trace", "No such file or directory");
    refused("/tmp", "Is a directory");
    refused("/dev/full", "No space left on device");
    snprintf(path, sizeof path, "/tmp/ulms-test-fifo-%d", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    refused(path, "No such device or address"); /* and does not wait for a reader */
    unlink(path);
}

TEST(two_processes_do_not_share_a_file) {
    open_started();
    pid_t child = fork();
    if (child == 0) {
        trace_fork_child();
        refused(path, "another process writes there; put %p (the process id) in the name");
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    one_op(1);
    trace_close();
    CHECK_EQ(look().of[RECORD_OP], 2);
}

TEST(an_old_file_is_replaced) {
    open_new();
    for (int i = 0; i < 100; i++)
        one_op(3);
    trace_close();
    CHECK(trace_open(path, "{}"));
    one_op(3);
    trace_close();
    CHECK_EQ(look().of[RECORD_OP], 1);
}

/* The disk is full in the middle: one line, no signal, and the program goes on. */
TEST(a_full_disk_ends_the_trace_only) {
    open_new();
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000});
    capture_start();
    for (int ms = 0; ms < A_MINUTE_MS && trace_on; ms++) {
        one_op(100);
        usleep(1000);
    }
    CHECK(!trace_on);
    for (int i = 0; i < 1000; i++)
        one_op(100);
    trace_close();
    CHECK_STR(capture_end(), "[ulms] WARN: the trace ends here: File too large\n");
    CHECK(writer_becomes(false));
    unlink(path);
}

/* A program that closes all descriptors and opens its own: not a byte of ours goes into its file. */
TEST(a_descriptor_closed_by_the_program) {
    char other[80];
    open_new();
    snprintf(other, sizeof other, "%s.other", path);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    for (int i = 0; i < 1021; i++)
        open(other, O_RDWR | O_CREAT, 0600);
    capture_start();
    one_op(1);
    for (int ms = 0; ms < A_MINUTE_MS && trace_on; ms++)
        usleep(1000);
    CHECK(!trace_on);
    trace_close();
    struct stat st;
    CHECK_EQ(stat(other, &st), 0);
    CHECK_EQ(st.st_size, 0);
    unlink(other);
    unlink(path);
}

TEST(a_killed_program_leaves_a_readable_file) {
    snprintf(path, sizeof path, "/tmp/ulms-test-killed-%d", (int)getpid());
    int ready[2];
    char byte;
    CHECK_EQ(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(trace_open(path, "{}"));
        for (int i = 0; i < 1000; i++)
            one_op(3);
        CHECK(all_written(1000));
        CHECK_EQ(write(ready[1], "x", 1), 1);
        for (;;)
            one_op(3);
    }
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    /* the last chunk may have been cut by the kill: the reader's tests are about that; here the start counts */
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    CHECK(st.st_size > 1000 * 128);
    unlink(path);
}

TEST(after_a_fork_only_the_parent_traces) {
    open_started();
    pid_t child = fork();
    if (child == 0) {
        trace_fork_child();
        thread_fork_child();
        CHECK(!trace_on);
        one_op(1);
        trace_close();
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    one_op(1);
    trace_close();
    CHECK_EQ(look().of[RECORD_OP], 2);
}

/* The child's copy of the descriptor would keep the lock. */
TEST(after_a_fork_the_child_does_not_hold_the_file) {
    open_started();
    pid_t child = fork();
    if (child == 0) {
        trace_fork_child();
        kill(getpid(), SIGSTOP);
        _exit(0);
    }
    int status;
    waitpid(child, &status, WUNTRACED);
    trace_close();
    CHECK(trace_open(path, "{}"));
    trace_close();
    kill(child, SIGKILL);
    unlink(path);
}

#ifndef __SANITIZE_THREAD__ /* which allows no threads after such a fork */
TEST(after_a_fork_the_parents_records_are_the_parents) {
    open_started();
    one_op(1); /* still in its ring */
    pid_t child = fork();
    if (child == 0) {
        trace_fork_child();
        thread_fork_child();
        open_new();
        one_op(1);
        trace_close();
        CHECK_EQ(look().of[RECORD_OP], 1);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
    trace_close();
    unlink(path);
}
#endif

static void *exit_now(void *unused) {
    one_op(1);
    exit(0);
    return unused;
}

static void *trace_forever(void *unused) {
    for (;;)
        one_op(1);
    return unused;
}

/* As the library does: closes when the process exits, from whichever thread, while others go on. */
TEST(exit_from_another_thread) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t busy, leaving;
        CHECK(trace_open("/dev/null", "{}"));
        atexit(trace_close);
        pthread_create(&busy, NULL, trace_forever, NULL);
        pthread_create(&leaving, NULL, exit_now, NULL);
        pause();
    }
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

static void leave(int number) {
    (void)number;
    exit(0);
}

/* The signal may come in the middle of a record. */
TEST(exit_from_a_signal_handler) {
    for (int i = 0; i < 20; i++) {
        int ready[2], status;
        char byte;
        CHECK_EQ(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            CHECK(trace_open("/dev/null", "{}"));
            atexit(trace_close);
            signal(SIGUSR1, leave);
            CHECK_EQ(write(ready[1], "x", 1), 1);
            trace_forever(NULL);
        }
        CHECK_EQ(read(ready[0], &byte, 1), 1);
        usleep(100 * (useconds_t)i);
        kill(child, SIGUSR1);
        waitpid(child, &status, 0);
        CHECK_EQ(status, 0);
    }
}
