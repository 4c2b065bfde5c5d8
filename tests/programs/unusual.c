/* What few programs do, over and over, while their memory moves.
 *
 *   unusual crossed    memory is freed in the other way than it was allocated, twice, and in the middle
 *   unusual spawned    children are made by vfork, posix_spawn and system
 *   unusual cancelled  a thread is cancelled while it launches and allocates, neither of which a cancellation ends
 *   unusual timed      a timer's signals interrupt all calls, and their handler has a stack of its own
 *   unusual awaited    all threads of the program block signals that were let through before, and one waits for them
 *   unusual freed      one thread frees what another's kernel still writes
 *   unusual replaced   the process executes itself, three times
 *   unusual contexts   contexts go with memory in them
 *   unusual pieces     a reservation's memory is mapped backwards, unmapped in other pieces, moved, and outlives
 * handles unusual many       hundreds of short threads, each with a stream of its own
 *
 * Prints what the driver answered and what the memory held. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "device.h"
#include "part.h"

USE(cuCtxCreate_v2)
USE(cuCtxDestroy_v2)
USE(cuCtxSynchronize)
USE(cuLaunchKernel)
USE(cuMemAddressFree)
USE(cuMemAddressReserve)
USE(cuMemAlloc_v2)
USE(cuMemAllocAsync)
USE(cuMemCreate)
USE(cuMemFree_v2)
USE(cuMemFreeAsync)
USE(cuMemMap)
USE(cuMemRelease)
USE(cuMemRetainAllocationHandle)
USE(cuMemSetAccess)
USE(cuMemUnmap)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyPeer)
USE(cuMemsetD32Async)
USE(cuModuleGetFunction)
USE(cuModuleLoadData)
USE(cuStreamDestroy_v2)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, BLOCK = 4 * MIB, WORDS = BLOCK / 4, BLOCKS = 12 };

static CUcontext context;
static CUstream stream;
static CUmodule module;
static CUfunction kernel; /* scale */
static CUdeviceptr block[BLOCKS];
static char **arguments;

#define SAY(call) printf("%d %s\n", (int)(call), #call)

static void set(CUdeviceptr p, float value, size_t words) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    MUST(cuMemsetD32Async(p, bits, words, stream));
}

/* Each block is read and written, and stays what it was. */
static void use_blocks(int times) {
    float one = 1;
    uint64_t words = WORDS;
    for (int i = 0; i < times * BLOCKS; i++)
        MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&block[i % BLOCKS], &one, &words}, NULL));
}

static float word(CUdeviceptr p) {
    float found;
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemcpyDtoH_v2(&found, p, sizeof found));
    return found;
}

/* --- the parts --- */

static void crossed(void) {
    for (int i = 0; i < 6; i++) {
        CUdeviceptr plain, ordered;
        MUST(cuMemAlloc_v2(&plain, 6 * MIB));
        MUST(cuMemAllocAsync(&ordered, 6 * MIB, stream));
        set(plain, 1, WORDS);
        set(ordered, 2, WORDS);
        SAY(cuMemFreeAsync(plain, stream));
        printf("%g\n", (double)word(ordered + MIB));
        SAY(cuMemFree_v2(ordered + MIB));
        SAY(cuMemFree_v2(ordered));
        SAY(cuMemFree_v2(ordered));
        SAY(cuMemFreeAsync(ordered, stream));
        use_blocks(1);
    }
}

static int wait_for(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void spawned(void) {
    extern char **environ;
    char *command[] = {"/bin/true", NULL};
    for (int i = 0; i < 10; i++) {
        pid_t child;
        use_blocks(1);
        printf("%d", posix_spawn(&child, command[0], NULL, NULL, command, environ) ? -1 : wait_for(child));
        if ((child = vfork()) == 0) {
            execv(command[0], command);
            _exit(1);
        }
        printf(" %d", wait_for(child));
        printf(" %d\n", system(command[0]));
    }
}

static volatile int reached; /* by the other thread */

static void *launch_cancelled(void *unused) {
    CUdeviceptr p;
    int before;
    MUST(cuCtxSetCurrent(context));
    reached = 1;
    for (int i = 0; i < 4; i++) {
        use_blocks(1);
        MUST(cuMemAlloc_v2(&p, BLOCK));
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* the driver may wait at a condition */
        MUST(cuMemFree_v2(p));
        pthread_setcancelstate(before, &before);
    }
    reached = 2;
    pthread_testcancel();
    reached = 3;
    return unused;
}

static void cancelled(void) {
    pthread_t thread;
    void *answer;
    pthread_create(&thread, NULL, launch_cancelled, NULL);
    while (!reached)
        usleep(10);
    pthread_cancel(thread);
    pthread_join(thread, &answer);
    printf("cancelled %d, reached %d\n", answer == PTHREAD_CANCELED, reached);
}

static volatile int ticks;

static void tick(int number) {
    (void)number;
    ticks++;
}

static void set_timer(long us) {
    struct itimerval every = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &every, NULL);
}

static void timed(void) {
    static char alternate[64 << 10];
    const stack_t handlers = {.ss_sp = alternate, .ss_size = sizeof alternate};
    const struct sigaction action = {.sa_handler = tick, .sa_flags = SA_ONSTACK};
    sigaltstack(&handlers, NULL);
    sigaction(SIGALRM, &action, NULL);
    set_timer(1000);
    for (int i = 0; i < 10 || ticks == 0; i++) {
        CUdeviceptr p;
        use_blocks(1);
        MUST(cuMemAlloc_v2(&p, 3 * MIB));
        set(p, 1, MIB / 4);
        MUST(cuMemFreeAsync(p, stream));
    }
    MUST(cuStreamSynchronize(stream));
    set_timer(0);
}

static void awaited(void) {
    static const int numbers[] = {SIGUSR1, SIGTERM, SIGINT};
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < 3; i++)
        sigaddset(&all, numbers[i]);
    use_blocks(2);
    MUST(cuStreamSynchronize(stream));
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < 18; i++) {
        use_blocks(1);
        kill(getpid(), numbers[i % 3]);
        printf("%d\n", sigtimedwait(&all, NULL, &(struct timespec){60, 0}));
    }
}

static void *free_one(void *p) {
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemFree_v2(*(CUdeviceptr *)p));
    return p;
}

static void freed(void) {
    for (int i = 0; i < 20; i++) {
        CUdeviceptr p;
        pthread_t thread;
        MUST(cuMemAlloc_v2(&p, BLOCK));
        set(p, 1, WORDS);
        pthread_create(&thread, NULL, free_one, &p);
        use_blocks(1);
        pthread_join(thread, NULL);
    }
}

static void replaced(void) {
    char again[] = "0";
    int left = arguments[2] ? arguments[2][0] - '0' : 3;
    use_blocks(2);
    printf("%d, block %g\n", left, (double)word(block[5]));
    fflush(stdout);
    again[0] = (char)('0' + left - 1);
    if (left > 0)
        execl("/proc/self/exe", arguments[0], arguments[1], again, NULL);
}

static void contexts(void) {
    for (int i = 0; i < 5; i++) {
        CUcontext other;
        CUdeviceptr p[4];
        MUST(cuCtxCreate_v2(&other, 0, 0));
        for (int k = 0; k < 4; k++) {
            MUST(cuMemAlloc_v2(&p[k], BLOCK));
            MUST(cuMemsetD32Async(p[k], 5, WORDS, NULL));
        }
        MUST(cuMemcpyPeer(p[2], other, block[1], context, BLOCK));
        printf("%g\n", (double)word(p[2]));
        SAY(cuCtxDestroy_v2(other));
        MUST(cuCtxSetCurrent(context));
        SAY(cuMemFree_v2(p[0]));
        SAY(cuMemsetD32Async(p[1], 0, 1, stream));
        use_blocks(1);
    }
}

static void pieces(void) {
    enum { UNIT = 2 * MIB, UNITS = 4 };
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    const CUmemAccessDesc all = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (int i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle h[UNITS], again;
        CUdeviceptr at;
        MUST(cuMemAddressReserve(&at, 8 * UNIT, 0, 0, 0));
        for (int k = 0; k < UNITS; k++) {
            MUST(cuMemCreate(&h[k], UNIT, &prop, 0));
            MUST(cuMemMap(at + (UNITS - 1 - k) * UNIT, UNIT, 0, h[k], 0));
        }
        SAY(cuMemSetAccess(at, 5 * UNIT, &all, 1));
        SAY(cuMemSetAccess(at, 4 * UNIT, &all, 1));
        for (int k = 0; k < UNITS; k++)
            set(at + k * UNIT, (float)k, UNIT / 4);
        SAY(cuMemMap(at, UNIT, 0, h[1], 0));
        SAY(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + UNIT)));
        printf("same %d\n", again == h[2]);
        SAY(cuMemRelease(again));
        SAY(cuMemRelease(h[0]));
        MUST(cuStreamSynchronize(stream));
        SAY(cuMemUnmap(at + UNIT / 2, UNIT));
        SAY(cuMemUnmap(at, 2 * UNIT));
        SAY(cuMemUnmap(at, UNIT));
        SAY(cuMemAddressFree(at, 8 * UNIT));
        SAY(cuMemMap(at + 5 * UNIT, UNIT, 0, h[3], 0));
        SAY(cuMemSetAccess(at + 5 * UNIT, UNIT, &all, 1));
        use_blocks(1);
        printf("moved %g, kept %g\n", (double)word(at + 5 * UNIT), (double)word(at + 3 * UNIT));
        for (int k = 1; k < UNITS; k++)
            SAY(cuMemRelease(h[k]));
        use_blocks(1);
        printf("without a handle %g\n", (double)word(at + 2 * UNIT));
        SAY(cuMemUnmap(at + 2 * UNIT, 2 * UNIT));
        SAY(cuMemUnmap(at + 5 * UNIT, UNIT));
        SAY(cuMemRelease(h[1]));
        SAY(cuMemAddressFree(at, 8 * UNIT));
    }
}

static void *use_one(void *p) {
    float one = 1;
    uint64_t words = WORDS;
    MUST(cuCtxSetCurrent(context));
    CUstream own = new_stream();
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, own, (void *[]){p, &one, &words}, NULL));
    MUST(cuStreamSynchronize(own));
    MUST(cuStreamDestroy_v2(own));
    return NULL;
}

/* A block is one thread's at a time. */
static void many(void) {
    for (int i = 0; i < 25; i++) {
        pthread_t thread[BLOCKS];
        for (int k = 0; k < BLOCKS; k++)
            pthread_create(&thread[k], NULL, use_one, &block[k]);
        for (int k = 0; k < BLOCKS; k++)
            pthread_join(thread[k], NULL);
    }
}

static const struct part parts[] = {
    {"crossed", crossed}, {"spawned", spawned},   {"cancelled", cancelled}, {"timed", timed},   {"awaited", awaited},
    {"freed", freed},     {"replaced", replaced}, {"contexts", contexts},   {"pieces", pieces}, {"many", many},
    {NULL, NULL}};

int main(int argc, char **argv) {
    arguments = argv;
    setvbuf(stdout, NULL, _IOLBF, 0);
    context = use_device();
    stream = new_stream();
    MUST(cuModuleLoadData(&module, "emu:builtin"));
    MUST(cuModuleGetFunction(&kernel, module, "scale"));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuMemAlloc_v2(&block[i], BLOCK));
        set(block[i], (float)i, WORDS);
    }
    int status = run_part(parts, argc, argv);
    MUST(cuCtxSynchronize());
    for (int i = 0; i < BLOCKS; i++)
        printf("block %d: %g %g\n", i, (double)word(block[i]), (double)word(block[i] + BLOCK - 4));
    return status;
}
