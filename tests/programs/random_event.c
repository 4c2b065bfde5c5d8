#define _GNU_SOURCE
#include "random_program.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STEPS_BEFORE = 160, DELAY_US = 3000, CHILD_S = 30, STATUS = 3, WORDS_ALONE = 1 << 16 };

struct happening {
    const char *name;
    void (*begins)(void);
};

static struct {
    const struct happening *what; /* NULL: none, or it is over */
    uint64_t steps;               /* of the first actor, until it is due */
    useconds_t delay;             /* from then on: it interrupts whatever runs */
    bool whole;                   /* a signal is the process's, not the first actor's */
    pthread_t thread, actor;
    sem_t due;
} event;

/* --- the end of the process --- */

static void tell_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fprintf(stderr, "event %lld.%09ld\n", (long long)now.tv_sec, now.tv_nsec);
}

static void kill_all(void) {
    tell_time();
    kill(getpid(), SIGKILL);
    pause();
}

/* What it interrupted may hold any lock. */
static void end_here(int unused) {
    (void)unused;
    program_ends();
    exit(STATUS);
}

static void end_by_signal(void) {
    signal(SIGTERM, end_here);
    tell_time();
    if (event.whole)
        kill(getpid(), SIGTERM);
    else
        pthread_kill(event.actor, SIGTERM);
    for (;;)
        pause();
}

/* --- children --- */

/* Without the driver. */
static int work_alone(void) {
    uint32_t *words = malloc(WORDS_ALONE * sizeof *words);
    for (uint32_t i = 0; words && i < WORDS_ALONE; i++)
        words[i] = i;
    uint64_t hash = words ? hash_bytes(words, WORDS_ALONE * sizeof *words, 1) : 0;
    free(words);
    return (int)(hash % 97);
}

/* How many of the calls say that CUDA does not work here. They allocate nothing: others may hold the C library's locks,
 * too. */
static int call_driver(void) {
    CUdeviceptr p = 0;
    uint64_t word = 0;
    size_t unused, total;
    const CUresult answers[] = {
        POLL(cuMemGetInfo_v2, &unused, &total), POLL(cuMemAlloc_v2, &p, MIB),
        POLL(cuMemAllocAsync, &p, MIB, NULL),   POLL(cuMemsetD32Async, p, 0, 1, NULL),
        POLL(cuMemcpyHtoD_v2, p, &word, 8),     POLL(cuMemFree_v2, p),
        POLL(cuStreamSynchronize, NULL),        POLL(cuCtxSynchronize),
        POLL(cuStreamBeginCapture_v2, NULL, 0),
    };
    int refused = 0;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        refused += answers[i] == CUDA_ERROR_NOT_INITIALIZED;
    return refused;
}

/* A child that hangs is ended by its alarm. */
static void await_child(pid_t child, int (*does)(void)) {
    int status = 0;
    if (child == 0) {
        alarm(CHILD_S);
        program_ends();
        exit(does());
    }
    if (waitpid(child, &status, 0) != child)
        status = -1;
    printf("child %#x\n", (unsigned)status);
}

static void fork_alone(void) {
    await_child(fork(), work_alone);
}

static void fork_and_call(void) {
    await_child(fork(), call_driver);
}

static void clone_and_call(void) {
    await_child((pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL), call_driver);
}

/* --- its moment --- */

static const struct happening happenings[] = {{"kill", kill_all},
                                              {"exit", end_by_signal},
                                              {"fork", fork_alone},
                                              {"call", fork_and_call},
                                              {"clone", clone_and_call}};

static void *await_moment(void *unused) {
    sem_wait(&event.due);
    usleep(event.delay);
    event.what->begins();
    return unused;
}

void event_choose(const char *name, uint64_t seed) {
    struct actor draw = {.random = seed * 0x9e3779b97f4a7c15ull};
    for (size_t i = 0; i < sizeof happenings / sizeof *happenings; i++)
        if (strcmp(name, happenings[i].name) == 0)
            event.what = &happenings[i];
    if (!event.what)
        exit(2);
    event.steps = random_below(&draw, STEPS_BEFORE);
    event.delay = (useconds_t)random_below(&draw, DELAY_US);
    event.whole = one_in(&draw, 2);
    sem_init(&event.due, 0, 0);
}

void event_begin(const struct actor *a) {
    if (a->number || !event.what)
        return;
    event.actor = pthread_self();
    if (pthread_create(&event.thread, NULL, await_moment, NULL))
        exit(2);
}

void event_step(const struct actor *a) {
    if (a->number == 0 && event.what && event.steps-- == 0)
        sem_post(&event.due);
}

void event_await(const struct actor *a) {
    if (a->number || !event.what)
        return;
    sem_post(&event.due);
    pthread_join(event.thread, NULL);
    event.what = NULL;
}
