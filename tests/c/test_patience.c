/* How long waits last, and what is owed for those in vain. */
#include "base/patience.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "test.h"

enum { MS = 1000000 };

static void pass(long ms) {
    nanosleep(&(struct timespec){0, ms * MS}, NULL);
}

/* So long would a wish last that begins now. */
static uint64_t allowed(void) {
    struct patience wish = {0};
    return patience_left(&wish, 0);
}

TEST(what_was_waited_in_vain_is_owed) {
    struct patience in_vain = {.most_ns = 100 * MS};
    while (patience_left(&in_vain, 0) > 0)
        pass(10);
    CHECK(allowed() >= PATIENCE_NS - 100 * MS);
    CHECK(allowed() < PATIENCE_NS - 50 * MS);
}

/* As on a machine with more to do than processors. */
TEST(a_look_owes_no_more_than_it_was_to_last) {
    struct patience look = {.most_ns = 1};
    CHECK(patience_left(&look, 0) > 0);
    pass(200);
    CHECK_EQ(patience_left(&look, 0), 0);
    CHECK(allowed() > PATIENCE_NS - 100 * MS);
}

/* It is stopped once it has told that it waits. True: after that it waited for most of what was left. */
static bool waits_on(int tells) {
    struct patience need = {.what = PATIENCE_NEED, .most_ns = 1000 * (uint64_t)MS};
    uint64_t looked = clock_ns(), gap_ends = looked;
    while (patience_left(&need, 0) > 0) {
        uint64_t until = clock_ns() + 50 * (uint64_t)MS;
        if (tells >= 0)
            CHECK_EQ(write(tells, "", 1), 1);
        tells = -1;
        pass(50);
        patience_slept(&need, until);
        if (clock_ns() - looked > 1000 * (uint64_t)MS)
            gap_ends = clock_ns();
        looked = clock_ns();
    }
    return clock_ns() - gap_ends > 300 * (uint64_t)MS;
}

TEST(a_process_that_is_stopped_does_not_wait) {
    int told[2], status;
    char any;
    CHECK_EQ(pipe(told), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(waits_on(told[1]) ? 0 : 1);
    CHECK_EQ(read(told[0], &any, 1), 1);
    kill(child, SIGSTOP);
    pass(999);
    pass(999);
    kill(child, SIGCONT);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}
