#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/output.h"
#include "capture.h"

TEST(a_line) {
    ulms_options.level = LOG_DEBUG;
    capture_start();
    log_error("one %d", 1);
    log_warn("two %s", "2");
    log_info("three %.2f", 3.0);
    log_debug("four");
    CHECK_STR(capture_end(), "[ulms] ERROR: one 1\n[ulms] WARN: two 2\n[ulms] INFO: three 3.00\n[ulms] DEBUG: four\n");
}

TEST(below_the_level_nothing_is_said) {
    ulms_options.level = LOG_WARN;
    capture_start();
    log_info("not said");
    log_debug("not said");
    log_warn("said");
    CHECK_STR(capture_end(), "[ulms] WARN: said\n");
}

TEST(silence_after_repeats) {
    capture_start();
    for (int i = 0; i < 1000; i++)
        log_warn("again %d", i);
    log_warn("another call site");
    const char *said = capture_end();
    CHECK(strstr(said, "again 8\n[ulms] WARN: again 9 (said 10 times: not said again)\n[ulms] WARN: another call"));
    CHECK(!strstr(said, "again 10"));
}

TEST(no_limit_without_a_counter) {
    capture_start();
    for (int i = 0; i < 50; i++)
        log_line(LOG_ERROR, NULL, "%d", i);
    CHECK(strstr(capture_end(), "[ulms] ERROR: 49\n"));
}

TEST(long_and_dirty_text_stays_one_line) {
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[3] = '\n';
    text[4] = '\r';
    text[5] = '\x1b';
    capture_start();
    log_error("%s", text);
    log_error("%s", "");
    const char *said = capture_end(), *end = strchr(said, '\n');
    CHECK(strncmp(said, "[ulms] ERROR: xxx???xxx", 23) == 0);
    CHECK(strncmp(end - 4, "x...", 4) == 0);
    CHECK(end - said < 1024);
    CHECK_STR(end + 1, "[ulms] ERROR: \n");
}

TEST(text_that_just_fits_is_not_marked) {
    static char text[1024];
    for (size_t length = 900; length < sizeof text - 1; length++) {
        memset(text, 'x', length);
        capture_start();
        log_line(LOG_ERROR, NULL, "%s", text);
        const char *said = capture_end(), *end = strchr(said, '\n');
        bool cut = end[-1] == '.', whole = (size_t)(end - said) == strlen("[ulms] ERROR: ") + length;
        CHECK(cut != whole);
    }
}

TEST(errno_is_kept) {
    errno = 1234;
    close(STDERR_FILENO);
    log_error("into nothing");
    CHECK_EQ(errno, 1234);
}

/* A program whose reader has gone away must not die of a line of ours. */
TEST(a_closed_pipe_raises_no_signal) {
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    log_error("nobody reads this");
    dup2(kept, STDERR_FILENO);
    sigset_t pending;
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
}

TEST(a_signal_of_the_programs_stays_pending) {
    sigset_t pipe_signal, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    raise(SIGPIPE);
    int ends[2];
    CHECK_EQ(pipe(ends), 0);
    close(ends[0]);
    CHECK(!output_write(ends[1], "x", 1));
    CHECK_EQ(errno, EPIPE);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGPIPE));
}

TEST(a_file_size_limit_raises_no_signal) {
    char path[] = "/tmp/ulms-test-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){10, 10});
    CHECK(!output_write(fd, "more than ten bytes", 19));
    CHECK_EQ(errno, EFBIG);
    CHECK_EQ(lseek(fd, 0, SEEK_END), 10);
}

static void *drain(void *fd) {
    static char text[1 << 20];
    size_t n = 0;
    for (ssize_t got; n < sizeof text && (got = read(*(int *)fd, text + n, sizeof text - n)) > 0;)
        n += (size_t)got;
    for (size_t i = 0; i < n; i++)
        CHECK_EQ(text[i], 'a' + (char)(i % 26));
    return (void *)(intptr_t)n;
}

TEST(partial_writes_go_on) {
    static char text[1 << 20];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = 'a' + (char)(i % 26);
    int ends[2]; /* holds 64 KiB: one write is cut into many by a reader that keeps up */
    pthread_t reader;
    void *n;
    CHECK_EQ(pipe(ends), 0);
    pthread_create(&reader, NULL, drain, &ends[0]);
    CHECK(output_write(ends[1], text, sizeof text));
    close(ends[1]);
    pthread_join(reader, &n);
    CHECK_EQ((intptr_t)n, sizeof text);
}

static int pipe_ends[2];

static void make_room(int number) {
    char text[4096];
    (void)number;
    CHECK_EQ(read(pipe_ends[0], text, sizeof text), sizeof text);
}

/* A signal of the program's that arrives while a line of ours waits for room. */
TEST(interrupted_writes_go_on) {
    static char text[4096];
    struct sigaction action = {.sa_handler = make_room}; /* without SA_RESTART */
    sigaction(SIGALRM, &action, NULL);
    CHECK_EQ(pipe(pipe_ends), 0);
    for (int i = 0; i < 16; i++)
        CHECK_EQ(write(pipe_ends[1], text, sizeof text), sizeof text);
    ualarm(10000, 0);
    CHECK(output_write(pipe_ends[1], text, sizeof text));
}

TEST(our_descriptors_keep_out_of_the_way) {
    int before = dup(0), ours = output_move(dup(0)), after = dup(0);
    CHECK(ours >= 100);
    CHECK_EQ(after, before + 1);
    CHECK(fcntl(ours, F_GETFD) & FD_CLOEXEC);
}

/* In UTF-8 U+009B steers a terminal as ESC [ does; other letters of two bytes stay. */
TEST(controls_beyond_ascii_are_no_text) {
    capture_start();
    log_error("a\xc2\x9b"
              "31mb \xc3\xa9 \xc2\xa0");
    CHECK_STR(capture_end(), "[ulms] ERROR: a??31mb \xc3\xa9 \xc2\xa0\n");
}
