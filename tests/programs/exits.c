/* A program that ends at any moment, in any way, while pages move: at once, and as it would by itself.
 *
 *   exits HOW TIMES    HOW: one of the names below
 *
 * Makes so many children, one after the other; each works over more memory than the budget. The first five are told to
 * end by SIGTERM, whose handler ends the process wherever it interrupted it; in the others a second thread does.
 * Prints how many ended as they should, and how many took longer than LATE_MS. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "device.h"
#include "emu.h"

USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemAllocAsync)
USE(cuMemFreeAsync)
USE(cuMemcpyHtoD_v2)
USE(cuMemsetD8Async)
USE(cuMemsetD32Async)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BLOCK = 4 * MIB, BLOCKS = 12, STATUS = 3, LATE_MS = 4000, WORST_S = 40 };

static CUcontext context;
static CUdeviceptr block[BLOCKS];

static void end_by_exit(int unused) {
    (void)unused;
    exit(STATUS);
}
static void end_by_quick_exit(int unused) {
    (void)unused;
    quick_exit(STATUS);
}
static void end_at_once(int unused) {
    (void)unused;
    _exit(STATUS);
}
static void end_by_abort(int unused) {
    (void)unused;
    abort();
}
static void end_by_exec(int unused) {
    (void)unused;
    execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
}

static const struct way {
    const char *name;
    void (*end)(int);
    int signal; /* that it ends by; 0: it ends by status */
    bool other; /* another thread ends it */
} ways[] = {
    {"exit", end_by_exit, 0, false},
    {"quick_exit", end_by_quick_exit, 0, false},
    {"_exit", end_at_once, 0, false},
    {"abort", end_by_abort, SIGABRT, false},
    {"exec", end_by_exec, 0, false},
    {"other_exit", end_by_exit, 0, true},
    {"other_abort", end_by_abort, SIGABRT, true},
};

/* --- the child --- */

static void work_once(CUstream stream, unsigned n) {
    CUdeviceptr p;
    MUST(cuMemsetD32Async(block[n % BLOCKS], n, BLOCK / 4, stream));
    MUST(cuMemsetD8Async(block[(n + 3) % BLOCKS], 1, 4096, stream));
    if (n % 4 == 0)
        MUST(cuMemcpyHtoD_v2(block[n % BLOCKS], block, sizeof block));
    if (n % 8 == 0) {
        MUST(cuMemAlloc_v2(&p, MIB));
        MUST(cuMemFree_v2(p));
        MUST(cuMemAllocAsync(&p, MIB, stream));
        MUST(cuMemFreeAsync(p, stream));
        MUST(cuStreamSynchronize(stream));
    }
}

/* Only the main thread is interrupted. */
static void *work_beside(void *unused) {
    MUST(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (unsigned n = 5;; n++)
        work_once(stream, n);
    return unused;
}

static void *end_beside(void *way) {
    int signal;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigwait(&set, &signal);
    ((const struct way *)way)->end(SIGTERM);
    return NULL;
}

static void begin_thread(void *(*run)(void *), void *data) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, run, data))
        _exit(1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void be_child(const struct way *way, int ready) {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    if (way->other)
        pthread_sigmask(SIG_BLOCK, &term, NULL);
    else
        signal(SIGTERM, way->end);
    context = use_device();
    CUstream stream = new_stream();
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
    for (unsigned n = 0; n < BLOCKS; n++)
        work_once(stream, n);
    begin_thread(work_beside, NULL);
    if (way->other)
        begin_thread(end_beside, (void *)way);
    if (write(ready, "", 1) != 1)
        _exit(1);
    for (unsigned n = 0;; n++)
        work_once(stream, n);
}

/* --- the parent --- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool ended(pid_t child, int *status, double until_ms) {
    while (waitpid(child, status, WNOHANG) == 0) {
        if (now_ms() > until_ms)
            return false;
        usleep(500);
    }
    return true;
}

/* Milliseconds from SIGTERM to the end; below 0: it did not end as it should. */
static double end_one(const struct way *way, char **argv, unsigned delay_us) {
    int pipes[2], status;
    char byte, number[16];
    if (pipe(pipes))
        exit(2);
    pid_t child = fork();
    if (child == 0) {
        snprintf(number, sizeof number, "%d", pipes[1]);
        execl("/proc/self/exe", argv[0], "child", way->name, number, (char *)NULL);
        _exit(1);
    }
    close(pipes[1]);
    bool began = read(pipes[0], &byte, 1) == 1;
    close(pipes[0]);
    usleep(delay_us);
    double told = now_ms();
    kill(child, SIGTERM);
    if (!ended(child, &status, told + WORST_S * 1e3)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    double took = now_ms() - told;
    bool well = way->signal ? WIFSIGNALED(status) && WTERMSIG(status) == way->signal
                            : WIFEXITED(status) && WEXITSTATUS(status) == STATUS;
    if (!began || !well)
        fprintf(stderr, "%s: began %d, status %#x after %.0f ms\n", way->name, began, (unsigned)status, took);
    else if (took > LATE_MS)
        fprintf(stderr, "%s: %.0f ms\n", way->name, took);
    return began && well ? took : -1;
}

int main(int argc, char **argv) {
    const struct way *way = ways, *end = ways + sizeof ways / sizeof *ways;
    bool child = argc > 3 && strcmp(argv[1], "child") == 0;
    const char *name = argc > 2 ? argv[child ? 2 : 1] : "";
    while (way < end && strcmp(way->name, name) != 0)
        way++;
    if (way == end)
        return 2;
    if (child)
        be_child(way, atoi(argv[3]));
    int times = atoi(argv[2]), well = 0, late = 0;
    for (int i = 0; i < times; i++) {
        double ms = end_one(way, argv, (unsigned)(i * 7919 % 40) * 500);
        well += ms >= 0;
        late += ms > LATE_MS;
    }
    printf("%s: %d of %d ended well, %d late\n", way->name, well, times, late);
    return 0;
}
