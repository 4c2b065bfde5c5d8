/* What a trace survives: places that cannot be written, crashes, forks, exits. */
#define _GNU_SOURCE
#include "trace_file.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/options.h"
#include "capture.h"

static void refused(const char *where, const char *why) {
    char line[256];
    snprintf(line, sizeof line, "[ulms] ERROR: no trace in %s: %s\n", where, why);
    capture_start();
    CHECK(!trace_open(where, "{}"));
    CHECK_STR(capture_end(), line);
    CHECK(!trace_on);
    CHECK(writer_becomes(false));
}

static void ends_well(pid_t child) {
    int status;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
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
    ends_well(child);
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
    ends_well(child);
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
    ends_well(child);
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
    ends_well(child);
}

static void leave(int number) {
    (void)number;
    exit(0);
}

/* The signal may come in the middle of a record. */
TEST(exit_from_a_signal_handler) {
    for (int i = 0; i < 20; i++) {
        int ready[2];
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
        ends_well(child);
    }
}
