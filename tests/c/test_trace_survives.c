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

static const char no_file[] = "it is no file of a trace's own: links, pipes and devices are not opened";

TEST(places_that_cannot_be_written) {
    refused("/nonexistent/trace", "No such file or directory");
    refused("/tmp", no_file);
    refused("/dev/null", no_file);
    snprintf(path, sizeof path, "/tmp/ulms-test-fifo-%d", (int)getpid());
    CHECK_EQ(mkfifo(path, 0600), 0);
    refused(path, no_file); /* and does not wait for a reader */
    unlink(path);
}

/* Neither a link to a file nor one to where there is none: nothing is written there, and nothing made. */
TEST(links_that_somebody_put_there) {
    char target[80];
    struct stat st;
    snprintf(path, sizeof path, "/tmp/ulms-test-link-%d", (int)getpid());
    snprintf(target, sizeof target, "%s.target", path);
    CHECK_EQ(symlink(target, path), 0);
    refused(path, no_file);
    CHECK(stat(target, &st) < 0);
    int fd = open(target, O_WRONLY | O_CREAT, 0600);
    CHECK_EQ(write(fd, "mine", 4), 4);
    refused(path, no_file);
    CHECK_EQ(lseek(fd, 0, SEEK_END), 4);
    unlink(path);
    CHECK_EQ(link(target, path), 0);
    char named[100];
    snprintf(named, sizeof named, "%s.%d", path, (int)getpid());
    CHECK(trace_open(path, "{}")); /* beside it */
    trace_close();
    CHECK_EQ(lseek(fd, 0, SEEK_END), 4);
    CHECK_EQ(stat(named, &st), 0);
    unlink(named);
    unlink(target);
    unlink(path);
}

TEST(the_file_is_its_owners_alone) {
    static const mode_t masks[] = {0, 0777};
    for (int i = 0; i < 2; i++) {
        struct stat st;
        umask(masks[i]);
        open_new();
        CHECK_EQ(stat(path, &st), 0);
        CHECK_EQ(st.st_mode & 07777, 0600);
        trace_close();
        CHECK_EQ(look().of[RECORD_END], 1);
    }
}

#ifndef __SANITIZE_THREAD__ /* which ends a child that starts a thread, when its parent had some */
/* Whichever process comes second, while the first one traces or later: what is there stays. */
TEST(no_process_replaces_what_another_one_wrote) {
    char second[100], third[100], line[300];
    open_started();
    struct stat before, after;
    pid_t child = fork();
    if (child == 0) {
        trace_fork_child();
        thread_fork_child();
        snprintf(second, sizeof second, "%s.%d", path, (int)getpid());
        snprintf(third, sizeof third, "%s.%d.2", path, (int)getpid());
        snprintf(line, sizeof line, "[ulms] WARN: %s exists already: the trace is written to %s\n", path, second);
        capture_start();
        CHECK(trace_open(path, "{}"));
        CHECK_STR(capture_end(), line);
        one_op(1);
        one_op(1);
        trace_close();
        CHECK(trace_open(path, "{}")); /* as a program does that it runs in its place */
        trace_close();
        strcpy(path, second);
        CHECK_EQ(look().of[RECORD_OP], 2);
        strcpy(path, third);
        CHECK_EQ(look().of[RECORD_OP], 0);
        exit(0);
    }
    ends_well(child);
    one_op(1);
    trace_close();
    CHECK_EQ(stat(path, &before), 0);
    CHECK(trace_open(path, "{}"));
    trace_close();
    CHECK_EQ(stat(path, &after), 0);
    CHECK_EQ(before.st_ino, after.st_ino);
    CHECK_EQ(before.st_size, after.st_size);
    CHECK_EQ(look().of[RECORD_OP], 2);
    snprintf(path, sizeof path, "/tmp/ulms-test-trace-%d.%d", (int)getpid(), (int)getpid());
    CHECK_EQ(look().of[RECORD_OP], 0);
}
#endif

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
        open_new();
        unlink(path); /* it may become large */
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
