/* Jumps out of handlers of signals that interrupted a section. */
#define _GNU_SOURCE
#include "base/jump.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "base/lock.h"
#include "base/patience.h"
#include "test.h"

static struct lock l;
static int before, after; /* what the lock guards */
static sigjmp_buf env, own;

static void leave(sigjmp_buf to) {
    jump_put_off((jump_function)siglongjmp, to, 1);
    siglongjmp(to, 1);
}

static void jump(int signal) {
    if (signal == SIGUSR2)
        raise(SIGUSR1);
    leave(env);
}

static void jump_within(int unused) {
    (void)unused;
    if (!sigsetjmp(own, 1))
        leave(own);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction act = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(signal, &act, NULL) == 0);
}

static __attribute__((noinline)) void change_under_lock(int signal) {
    lock_take(&l);
    before++;
    raise(signal);
    after++;
    lock_drop(&l);
}

/* Whether the signal ended it. */
static bool change(int signal) {
    volatile bool jumped = true;
    if (!sigsetjmp(env, 1)) {
        change_under_lock(signal);
        jumped = false;
    }
    return jumped;
}

static void check_whole(int times) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    CHECK(!sigismember(&blocked, SIGUSR1) && !sigismember(&blocked, SIGUSR2) && !sigismember(&blocked, SIGTERM));
    CHECK_EQ(before, times);
    CHECK_EQ(after, times);
    CHECK_EQ(thread_here.sections, 0);
    CHECK(lock_try(&l));
    lock_drop(&l);
}

TEST(a_jump_waits_for_the_end_of_a_section) {
    handle(SIGUSR1, jump, 0);
    for (int i = 1; i <= 3; i++) {
        CHECK(change(SIGUSR1));
        check_whole(i);
    }
}

TEST(so_does_one_from_a_handler_that_interrupted_another) {
    handle(SIGUSR1, jump, 0);
    handle(SIGUSR2, jump, 0);
    CHECK(change(SIGUSR2));
    check_whole(1);
}

TEST(so_does_one_from_a_stack_of_the_handlers_own) {
    handle(SIGUSR1, jump, SA_ONSTACK);
    static char stack[1 << 16];
    CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0);
    CHECK(change(SIGUSR1));
    check_whole(1);
}

static struct condition never;

static __attribute__((noinline)) void wait_under_lock(void) {
    struct patience wish = {0};
    lock_take(&l);
    before++;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 10000}}, NULL);
    while (patience_left(&wish, 0) > 0)
        condition_wait(&never, &l, clock_ns() + 100 * PATIENCE_NS);
    after++;
    lock_drop(&l);
}

TEST(so_does_one_out_of_a_wait_and_the_wait_is_over) {
    handle(SIGALRM, jump, 0);
    if (!sigsetjmp(env, 1)) {
        wait_under_lock();
        CHECK(false);
    }
    check_whole(1);
    CHECK_EQ(never.waiters, 0);
}

TEST(a_jump_that_stays_in_the_handler_is_made_at_once) {
    handle(SIGUSR1, jump_within, 0);
    CHECK(!change(SIGUSR1));
    check_whole(1);
}

static __attribute__((noinline)) void fault_under_lock(const volatile char *nowhere) {
    lock_take(&l);
    before = *nowhere;
    CHECK(false);
}

TEST(so_is_one_out_of_a_section_that_faults) {
    handle(SIGSEGV, jump, 0);
    void *nowhere = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!sigsetjmp(env, 1))
        fault_under_lock(nowhere);
    CHECK_EQ(thread_here.sections, 0);
    CHECK(!thread_here.jumps);
}

TEST(so_is_one_out_of_no_section) {
    handle(SIGUSR1, jump, 0);
    if (!sigsetjmp(env, 1)) {
        raise(SIGUSR1);
        CHECK(false);
    }
    check_whole(0);
}

TEST(a_jump_of_the_section_itself_is_made_at_once) {
    if (!sigsetjmp(env, 1)) {
        lock_take(&l);
        leave(env);
        CHECK(false);
    }
    CHECK_EQ(thread_here.sections, 0);
}
