/* What is written into a trace, and what is not. */
#define _GNU_SOURCE
#include "trace_file.h"

#include <pthread.h>

#include "observe/ring.h"

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
    trace_move(1, &(struct ulms_move){.id = 1, .kind = ULMS_FILL}, MOVE_FAILED, 2, 3);
    trace_hold(1, 2, 3, 4, 5);
    trace_close();
    struct seen s = look();
    static const uint64_t expected[TYPES] = {0, 3, 1, 1, 1, 1, 1, 1, 1, 3 + 1, 3 + 1, 0, 1, 1, 1, 0, 0};
    for (int i = 0; i < TYPES; i++)
        CHECK_EQ(s.of[i], expected[i]);
    CHECK_EQ(stats_sum(COUNT_trace_records), 21);
}

/* Once at the end, if not before: named by then, and not again while nothing is counted. */
TEST(counters_are_told_when_they_change) {
    open_new();
    stats_add(COUNT_kernels, 3);
    while (stats_sum(COUNT_trace_records) == 0)
        usleep(1000);
    usleep(300000); /* rounds that would tell them */
    trace_close();
    struct seen s = look();
    CHECK_EQ(s.of[RECORD_COUNTS], 1);
    CHECK_EQ(s.of[RECORD_COUNTER], COUNTERS - 2);
    stats_add(COUNT_kernels, 1);
    open_new(); /* any round may be the one that tells them */
    trace_close();
    s = look();
    CHECK_EQ(s.of[RECORD_COUNTS], 1);
    CHECK_EQ(s.of[RECORD_COUNTER], COUNTERS - 2);
}

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

/* Written without being closed, within a few rounds of the writer. */
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

TEST(the_writer_takes_no_signal_but_of_its_own_faults) {
    char text[8192];
    open_new();
    CHECK(writer_becomes(true));
    CHECK(about_writer("status", text, sizeof text));
    unsigned long long blocked = strtoull(strstr(text, "SigBlk:") + 7, NULL, 16);
    static const int signals[] = {SIGHUP,  SIGINT,  SIGTERM, SIGUSR1, SIGUSR2,
                                  SIGCHLD, SIGPROF, SIGALRM, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        CHECK(blocked >> (signals[i] - 1) & 1);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        CHECK(!(blocked >> (faults[i] - 1) & 1));
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
