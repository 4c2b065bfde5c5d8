/* Threads and processes that end while pages move.
 *
 *   ends children   a thread works over more memory than the budget; meanwhile children are forked, which exit
 *   ends cancelled  a thread is cancelled while its operation cannot run yet
 *   ends meanwhile  a thread's operation waits for pages when the process ends
 *   ends watched    what is to be done at exit was said before pages moved: none of ulms.so's threads run by then
 *
 * Prints how they ended and what the others computed: the same without ulms.so. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "device.h"
#include "emu.h"
#include "gate.h"
#include "part.h"

USE(cuMemAlloc_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoHAsync_v2)
USE(cuStreamSynchronize)

enum { MIB = 1 << 20, WORDS = MIB / 4, BLOCKS = 8, BLOCK_MIB = 4, CHILDREN = 60, CHILD_S = 120, SEEN_US = 20000 };

static CUcontext context;
static CUstream stream;
static CUdeviceptr block[BLOCKS];

static void set(CUdeviceptr p, unsigned value, size_t mib, CUstream s) {
    MUST(cuMemsetD32Async(p, value, mib * WORDS, s));
}

static void print_first(CUdeviceptr p, CUstream s) {
    unsigned word;
    MUST(cuMemcpyDtoHAsync_v2(&word, p, sizeof word, s));
    MUST(cuStreamSynchronize(s));
    printf("%u\n", word);
}

/* --- children --- */

static bool stop, ends;

static void *work(void *unused) {
    MUST(cuCtxSetCurrent(context));
    for (unsigned n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        set(block[n % BLOCKS], n, BLOCK_MIB, stream);
        if (n % BLOCKS == 0)
            MUST(cuStreamSynchronize(stream));
    }
    for (unsigned i = 0; i < BLOCKS && !ends; i++)
        set(block[i], i, BLOCK_MIB, stream);
    return unused;
}

/* A child that hangs is ended by its alarm. */
static bool ends_well(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_S);
        exit(0);
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

static void children(void) {
    pthread_t thread;
    int well = 0;
    if (pthread_create(&thread, NULL, work, NULL))
        _exit(1);
    for (int i = 0; i < CHILDREN && well == i; i++)
        well += ends_well();
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    printf("children: %d\n", well);
    for (int i = 0; i < BLOCKS; i++)
        print_first(block[i], stream);
}

/* --- cancelled --- */

struct waiting {
    CUdeviceptr start;
    CUstream stream;
};

static void *overwrite_and_wait(void *data) {
    const struct waiting *w = data;
    MUST(cuCtxSetCurrent(context));
    set(w->start, 99, 2 * BLOCK_MIB, w->stream);
    while (!stop)
        pause();
    return NULL;
}

/* Two blocks fit. One is in use behind the gate, so that not all of `two` can come before the gate opens. */
static void cancelled(void) {
    struct waiting two = {.stream = new_stream()};
    CUstream behind = new_stream();
    pthread_t thread;
    void *end;
    MUST(cuMemAlloc_v2(&two.start, 2 * BLOCK_MIB * MIB));
    volatile unsigned *gate = close_gate(behind);
    set(block[0], 100, BLOCK_MIB, behind);
    if (pthread_create(&thread, NULL, overwrite_and_wait, &two))
        _exit(1);
    usleep(SEEN_US);
    pthread_cancel(thread);
    usleep(SEEN_US);
    *gate = 1;
    pthread_join(thread, &end);
    printf("cancelled: %d\n", end == PTHREAD_CANCELED);
    print_first(two.start, two.stream);
    print_first(block[0], behind);
}

/* --- meanwhile --- */

static void meanwhile(void) {
    pthread_t thread;
    ends = true;
    if (pthread_create(&thread, NULL, work, NULL))
        _exit(1);
    usleep(5 * SEEN_US);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    printf("meanwhile\n");
}

/* --- watched --- */

/* The emulated device's threads are called as those that made them: of ulms.so's count those that make none. */
static bool is_ours(const char *thread) {
    static const char *const names[] = {"ulms-watch", "ulms-past", "ulms-frames"};
    bool ours = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ours = ours || strncmp(thread, names[i], strlen(names[i])) == 0;
    return ours;
}

static int our_threads(void) {
    char path[300], name[32];
    int ours = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *f = fopen(path, "r");
        ours += f && fgets(name, sizeof name, f) && is_ours(name);
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return ours;
}

/* Who was joined may be listed for a moment, on a busy machine for a long one. */
static void count_threads(void) {
    for (int ms = 0; ms < 60000 && our_threads() > 0; ms++)
        usleep(1000);
    printf("threads: %d\n", our_threads());
}

static void watched(void) {
    for (int i = 0; i < BLOCKS; i++)
        set(block[i], (unsigned)i, BLOCK_MIB, stream);
    for (int i = 0; i < BLOCKS; i++)
        print_first(block[i], stream);
    bool under_ulms = dlsym(RTLD_DEFAULT, "ulms_stats");
    printf("moves: %d\n", !under_ulms || our_threads() > 0);
}

static const struct part parts[] = {
    {"children", children}, {"cancelled", cancelled}, {"meanwhile", meanwhile}, {"watched", watched}, {NULL, NULL}};

int main(int argc, char **argv) {
    context = use_device();
    stream = new_stream();
    if (argc > 1 && strcmp(argv[1], "watched") == 0)
        atexit(count_threads);
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK_MIB * MIB));
    return run_part(parts, argc, argv);
}
