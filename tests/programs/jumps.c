/* A program whose handler of SIGALRM jumps back to its loop, at any moment: out of its own code, and out of ulms.so's.
 * A second thread works all the while. Only the emulator and the C library are never left: their locks would stay.
 *
 *   jumps ROUNDS
 *
 * Prints each block that does not hold what was put there last, how often it jumped out of ulms.so, and how often that
 * was put off. */
#define _GNU_SOURCE
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "device.h"

USE(cuLaunchKernel)
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemAllocAsync)
USE(cuMemFreeAsync)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuMemsetD8Async)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamSynchronize)

enum { BYTES = 2 << 20, FLOATS = 256, BLOCKS = 10, EACH = BLOCKS / 2, SMALL = 64 << 10, LATEST_US = 300, DEPTH = 64 };

static CUcontext context;
static CUfunction fill;
static CUdeviceptr block[BLOCKS];
static float last[BLOCKS];
static bool finished;
static sigjmp_buf loop;
static volatile sig_atomic_t may_jump, jumps, put_off;
static __thread volatile sig_atomic_t asked;

/* --- where a jump is no harm --- */

static struct code {
    uintptr_t start, end;
} program, ours;

static struct code code_of(const char *file) {
    char line[512], name[256], rights[8];
    unsigned long start, end;
    struct code found = {0, 0};
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, rights, name) == 4 && rights[2] == 'x' &&
            strcmp(strrchr(name, '/') ? strrchr(name, '/') + 1 : name, file) == 0)
            found = (struct code){start, end};
    if (maps)
        fclose(maps);
    return found;
}

static bool is_in(const void *at, struct code c) {
    return (uintptr_t)at >= c.start && (uintptr_t)at < c.end;
}

/* It leaves nothing behind. */
static bool is_sleep(const void *at) {
    enum { NEAR = 64 };
    return (uintptr_t)at - (uintptr_t)syscall < NEAR || (uintptr_t)at - (uintptr_t)sched_yield < NEAR;
}

/* The handler's frames come first, and the one by which it returns. */
static bool is_free(bool *in_ours) {
    void *frame[DEPTH];
    int n = backtrace(frame, DEPTH), i = 0;
    while (i < n && is_in(frame[i], program))
        i++;
    i++;
    i += i < n && is_sleep(frame[i]);
    *in_ours = i < n && is_in(frame[i], ours);
    while (i < n && is_in(frame[i], ours))
        i++;
    return i < n && is_in(frame[i], program);
}

/* What was put off ends with this. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    put_off += asked && how == SIG_SETMASK;
    return sigprocmask(how, set, old);
}

/* At any moment: the emulated driver holds signals back, and would let all go in the same place. */
static void set_alarm(void) {
    static uint32_t drawn;
    drawn = drawn * 1664525u + 1013904223u;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 1 + (drawn >> 8) % LATEST_US}}, NULL);
}

static void jump(int unused) {
    (void)unused;
    if (!finished)
        set_alarm();
    bool in_ours;
    if (!may_jump || !is_free(&in_ours))
        return;
    may_jump = 0;
    jumps += in_ours;
    asked = 1;
    siglongjmp(loop, 1);
}

static void start_alarms(void) {
    struct sigaction act = {.sa_handler = jump};
    void *frame[DEPTH];
    backtrace(frame, DEPTH); /* loads what it needs */
    sigaction(SIGALRM, &act, NULL);
    set_alarm();
}

/* --- work --- */

static void launch(int b, float value, CUstream s) {
    uint64_t n = FLOATS;
    MUST(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){&block[b], &value, &n}, NULL));
}

static void work(int first, unsigned n, CUstream s) {
    int b = first + (int)(n % EACH);
    float value = (float)n;
    launch(b, value, s);
    last[b] = value;
    if (n % 4 == 0) {
        int from = first + (int)((n + 1) % EACH);
        MUST(cuMemcpyDtoDAsync_v2(block[b], block[from], FLOATS * 4, s));
        launch(b, value, s);
    }
    if (n % 8 == 0) {
        CUdeviceptr p = 0;
        MUST(cuMemAlloc_v2(&p, SMALL));
        MUST(cuMemFree_v2(p));
        MUST(cuMemAllocAsync(&p, SMALL, s));
        MUST(cuMemFreeAsync(p, s));
    }
    if (n % 16 == 0)
        MUST(cuStreamSynchronize(s));
}

static void *work_beside(void *unused) {
    MUST(cuCtxSetCurrent(context));
    CUstream s = new_stream();
    for (unsigned n = 0; !__atomic_load_n(&finished, __ATOMIC_ACQUIRE); n++)
        work(EACH, n, s);
    MUST(cuStreamSynchronize(s));
    return unused;
}

/* What was interrupted is done once more, and not interrupted then. */
static void work_and_jump(unsigned rounds, CUstream s) {
    static unsigned n;
    int jumped = sigsetjmp(loop, 1);
    asked = 0;
    for (; n < rounds; jumped = 0) {
        may_jump = !jumped;
        work(0, n, s);
        may_jump = 0;
        n++;
    }
    __atomic_store_n(&finished, true, __ATOMIC_RELEASE);
    for (int i = 0; i < EACH; i++)
        work(0, n++, s);
}

static void check(void) {
    float value;
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemcpyDtoH_v2(&value, block[i], sizeof value));
        if (value != last[i])
            printf("block %d holds %g, not %g\n", i, (double)value, (double)last[i]);
    }
}

int main(int argc, char **argv) {
    pthread_t other;
    sigset_t alarms;
    CUmodule module;
    context = use_device();
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&fill, module, "fill"));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BYTES));
    CUstream s = new_stream();
    program = code_of("jumps");
    ours = code_of("ulms.so");
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    if (pthread_create(&other, NULL, work_beside, NULL))
        return 2;
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    start_alarms();
    work_and_jump(argc > 1 ? (unsigned)atoi(argv[1]) : 1, s);
    pthread_join(other, NULL);
    MUST(cuStreamSynchronize(s));
    check();
    printf("%d jumps, %d put off\n", (int)jumps, (int)put_off);
    return 0;
}
