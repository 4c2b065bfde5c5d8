/* A small harness: one C file is one test program.
 *
 *     #include "test.h"
 *     TEST(addition) { CHECK_EQ(1 + 1, 2); }
 *
 * Each case runs in a child of its own under a watchdog, so that a crash or a hang is one red line. A failed check ends
 * its case at once, from any thread. The program takes `--list`, or part of a name to run only the cases that hold it.
 * It ends with `N passed, N failed`; status 0: all passed, 1: some failed, 2: no case has such a name. */
#ifndef TEST_H
#define TEST_H

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seconds one case may take: for hangs, as also a sanitizer on a busy machine has to get through. A file with slower
 * cases defines its own before including this. */
#ifndef TEST_SECONDS
#define TEST_SECONDS 240
#endif

/* What a case that ran to its end exits with: code under test that calls exit(0) does not pass. */
enum { TEST_DONE = 42 };

struct test {
    const char *name;
    void (*run)(void);
    struct test *next;
};

static struct test *test_first, **test_end = &test_first;

#define TEST(id)                                                                                                       \
    static void test_run_##id(void);                                                                                   \
    __attribute__((constructor)) static void test_enter_##id(void) {                                                   \
        static struct test entry = {#id, test_run_##id, NULL};                                                         \
        *test_end = &entry;                                                                                            \
        test_end = &entry.next;                                                                                        \
    }                                                                                                                  \
    static void test_run_##id(void)

#define TEST_FAIL(...) (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), _exit(1))

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            TEST_FAIL("CHECK(%s)\n", #condition);                                                                      \
    } while (0)

/* Integers and pointers of any size and sign, compared as 64 bits. */
#define CHECK_EQ(a, b)                                                                                                 \
    do {                                                                                                               \
        long long test_a = (long long)(intptr_t)(a), test_b = (long long)(intptr_t)(b);                                \
        if (test_a != test_b)                                                                                          \
            TEST_FAIL("CHECK_EQ(%s, %s): %lld (0x%llx) and %lld (0x%llx)\n", #a, #b, test_a, test_a, test_b, test_b);  \
    } while (0)

#define CHECK_STR(a, b)                                                                                                \
    do {                                                                                                               \
        const char *test_a = (a), *test_b = (b);                                                                       \
        if (strcmp(test_a, test_b) != 0)                                                                               \
            TEST_FAIL("CHECK_STR(%s, %s): \"%s\" and \"%s\"\n", #a, #b, test_a, test_b);                               \
    } while (0)

/* The statement must end a process by this signal. It runs in one of its own, with nothing on stderr. */
#define CHECK_SIGNAL(number, statement)                                                                                \
    do {                                                                                                               \
        pid_t test_child = fork();                                                                                     \
        if (test_child == 0) {                                                                                         \
            dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);                                                          \
            statement;                                                                                                 \
            _exit(0);                                                                                                  \
        }                                                                                                              \
        int test_status = -1;                                                                                          \
        waitpid(test_child, &test_status, 0);                                                                          \
        if (!WIFSIGNALED(test_status) || WTERMSIG(test_status) != (number))                                            \
            TEST_FAIL("CHECK_SIGNAL(%s, %s): wait status 0x%x\n", #number, #statement, test_status);                   \
    } while (0)

static double test_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool test_passes(const struct test *t) {
    double start = test_seconds();
    pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        alarm(TEST_SECONDS);
        t->run();
        exit(TEST_DONE); /* not _exit: sanitizers report at exit */
    }
    int status = -1;
    waitpid(child, &status, 0);
    kill(-child, SIGKILL); /* what the case has left running */
    double ms = (test_seconds() - start) * 1e3;
    bool passes = WIFEXITED(status) && WEXITSTATUS(status) == TEST_DONE;
    if (passes)
        printf("ok    %-48s %9.1f ms\n", t->name, ms);
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("FAIL  %-48s not done after %d s\n", t->name, TEST_SECONDS);
    else if (WIFSIGNALED(status))
        printf("FAIL  %-48s %s\n", t->name, strsignal(WTERMSIG(status)));
    else
        printf("FAIL  %-48s status %d\n", t->name, WEXITSTATUS(status));
    fflush(stdout); /* or the next child prints it again */
    return passes;
}

int main(int argc, char **argv) {
    bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    int passed = 0, failed = 0;
    for (struct test *t = test_first; t; t = t->next) {
        if (list)
            puts(t->name);
        else if (argc < 2 || strstr(t->name, argv[1]))
            *(test_passes(t) ? &passed : &failed) += 1;
    }
    if (list)
        return 0;
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : passed ? 0 : 2;
}

#endif
