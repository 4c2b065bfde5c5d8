/* Children in which CUDA does not work, made while other threads use whatever has a lock: each asks the driver for all
 * that it has, and ends.
 *
 *   left HOW CHILDREN    HOW: fork, or clone (as by those who make the system call themselves)
 *
 * Prints how many ended well, how many functions each called, which answered otherwise than "not initialised", and
 * whether the parent's counters are still there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "device.h"
#include "emu.h"
#include "emulator_rows.h"

USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemAllocAsync)
USE(cuMemFreeAsync)
USE(cuMemsetD32Async)
USE(cuMemcpyHtoD_v2)
USE(cuMemCreate)
USE(cuMemRelease)
USE(cuMemPoolCreate)
USE(cuMemPoolDestroy)
USE(cuMemPoolGetAttribute)
USE(cuMemAddressReserve)
USE(cuMemAddressFree)
USE(cuArrayCreate_v2)
USE(cuArrayDestroy)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphDestroy)

enum { MIB = 1 << 20, CHILD_S = 60, BLOCKS = 4 };

static CUcontext context;
static bool stop;

/* --- the parent's threads --- */

static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                          .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void use_handles(CUstream unused) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr reserved;
    (void)unused;
    MUST(cuMemCreate(&handle, 2 * MIB, &plain, 0));
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressReserve(&reserved, 4 * MIB, 0, 0, 0));
    MUST(cuMemAddressFree(reserved, 4 * MIB));
}

static void use_pools(CUstream stream) {
    static const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                         .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool;
    CUdeviceptr p;
    uint64_t used;
    MUST(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < 50; i++)
        MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    MUST(cuMemAllocAsync(&p, MIB, stream));
    MUST(cuMemFreeAsync(p, stream));
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemPoolDestroy(pool));
}

static void use_blocks(CUstream stream) {
    CUdeviceptr block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], 4 * MIB));
    for (int i = 0; i < 4 * BLOCKS; i++) {
        MUST(cuMemcpyHtoD_v2(block[i % BLOCKS], block, sizeof block));
        MUST(cuMemsetD32Async(block[i % BLOCKS], 7, MIB, stream));
    }
    MUST(cuStreamSynchronize(stream));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemFree_v2(block[i]));
}

static void use_graphs(CUstream stream) {
    CUgraph graph;
    CUarray array;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphDestroy(graph));
    MUST(cuArrayCreate_v2(&array, &(CUDA_ARRAY_DESCRIPTOR){64, 64, CU_AD_FORMAT_FLOAT, 1}));
    MUST(cuArrayDestroy(array));
}

static void *work(void *use) {
    MUST(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        ((void (*)(CUstream))use)(stream);
    return NULL;
}

/* --- children --- */

typedef CUresult (*function)(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
                             uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);
static const char *const names[] = {
#define X(symbol, base, since, twin) #symbol,
    EMULATOR_ROWS(X)
#undef X
};
enum { NAMES = sizeof names / sizeof *names };
static function functions[NAMES];

static struct shared {
    CUresult answer[NAMES];
} *shared;

static void find_functions(void) {
    for (int i = 0; i < NAMES; i++)
        functions[i] = (function)dlsym(RTLD_DEFAULT, names[i]);
}

/* One that hangs is ended by its alarm. It allocates nothing: the C library's locks may be held, too. */
static void be_child(void) {
    alarm(CHILD_S);
    for (int i = 0; i < NAMES; i++)
        if (functions[i])
            shared->answer[i] = functions[i](0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    exit(0);
}

static pid_t child_of(bool raw) {
    return raw ? (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL) : fork();
}

static bool ends_well(bool raw) {
    int status = 0;
    pid_t child = child_of(raw);
    if (child == 0)
        be_child();
    return waitpid(child, &status, 0) == child && status == 0;
}

/* What needs no driver answers as ever. */
static void print_answers(void) {
    int called = 0;
    for (int i = 0; i < NAMES; i++) {
        called += functions[i] != NULL;
        if (functions[i] && shared->answer[i] != CUDA_ERROR_NOT_INITIALIZED)
            printf("%s: %d\n", names[i], (int)shared->answer[i]);
    }
    printf("%d called\n", called);
}

int main(int argc, char **argv) {
    static void (*const uses[])(CUstream) = {use_handles, use_pools, use_blocks, use_graphs};
    enum { USES = sizeof uses / sizeof *uses };
    pthread_t threads[USES];
    if (argc < 3)
        return 2;
    bool raw = strcmp(argv[1], "clone") == 0;
    int well = 0, children = atoi(argv[2]);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    context = use_device();
    find_functions();
    for (int i = 0; i < USES; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)uses[i]))
            return 2;
    for (int i = 0; i < children && well == i; i++)
        well += ends_well(raw);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < USES; i++)
        pthread_join(threads[i], NULL);
    const char *counters = getenv("ULMS_STATS");
    printf("%s: %d ended well; counters: %d\n", argv[1], well, !counters || access(counters, F_OK) == 0);
    print_answers();
    return 0;
}
