/* Memory that one process shares with another, which maps it by its handle.
 *
 *   ipc read      opens, reads and writes what is shared, 20 times
 *   ipc twice     opens the same handle twice, and one of its own
 *   ipc orphan    the exporter is killed while its memory is open, and has a child that goes on
 *   ipc widow     the importer is killed while it has memory open
 *   ipc freed     the exporter frees what is open
 *   ipc asked     asks about what it opened
 *   ipc bad       handles of memory that is gone, and of nothing
 *   ipc busy      the exporter's device has work that does not end until the importer has asked in vain
 *   ipc refused   asks for a handle, twice
 *
 * IPC_IMPORTER: the backend of the importing process. IPC_MOST: bytes that the exporter may ever have on the device.
 *
 * A first child exports some of its blocks, works on the others until it is told to check all of them, and knows what
 * each must hold; a second one imports. Prints what the second saw, then whether the first found all as it must be. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "device.h"
#include "emu.h"
#include "part.h"

USE(cuCtxSynchronize)
USE(cuLaunchHostFunc)
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemsetD32_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemGetAddressRange_v2)
USE(cuPointerGetAttribute)
USE(cuIpcGetMemHandle)
USE(cuIpcOpenMemHandle_v2)
USE(cuIpcCloseMemHandle)

enum { MIB = 1 << 20, BLOCKS = 12, SHARED = 4, ROUNDS = 8, GRAIN = 2 * MIB, AROUND = 4 };

/* Two of them meet in one page, others' neighbours are not shared. The last bytes of a grain are nobody's. */
static const size_t sizes[BLOCKS] = {6 * MIB,  10 * MIB, 6 * MIB, 4 * MIB, 5 * MIB, 6 * MIB,
                                     12 * MIB, 8 * MIB,  6 * MIB, 6 * MIB, 6 * MIB, 7 * MIB};
static const int shared[SHARED] = {1, 4, 5, 8};

struct offer {
    CUipcMemHandle handle;
    size_t bytes;
    unsigned value;
};

static pid_t exporter;
static int to_exporter[2], from_exporter[2], goes_on[2];

static void put(int file, const void *what, size_t bytes) {
    if (write(file, what, bytes) != (ssize_t)bytes)
        _exit(3);
}

static void get(int file, void *what, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = read(file, (char *)what + done, bytes - done);
        if (n <= 0)
            _exit(4);
        done += (size_t)n;
    }
}

static int holds(CUdeviceptr p, size_t bytes, unsigned value) {
    unsigned *host = malloc(bytes);
    MUST(cuMemcpyDtoH_v2(host, p, bytes));
    size_t i = 0;
    while (i < bytes / 4 && host[i] == value)
        i++;
    if (i < bytes / 4)
        fprintf(stderr, "word %zu of %zu is %#x, not %#x\n", i, bytes / 4, host[i], value);
    free(host);
    return i == bytes / 4;
}

/* --- the exporter --- */

static CUdeviceptr block[BLOCKS];
static unsigned value[BLOCKS];

static void fill(int i, unsigned with) {
    value[i] = with;
    MUST(cuMemsetD32_v2(block[i], with, sizes[i] / 4));
    MUST(cuCtxSynchronize());
}

static int is_shared(int i) {
    int k = 0;
    while (k < SHARED && shared[k] != i)
        k++;
    return k < SHARED;
}

static void count_resident(void) {
    const char *most = getenv("IPC_MOST");
    uint64_t used, total;
    emu_device_memory(0, &used, &total);
    if (most && used > strtoull(most, NULL, 10)) {
        fprintf(stderr, "%llu bytes are on the device\n", (unsigned long long)used);
        _exit(7);
    }
}

static void work(void) {
    count_resident();
    static unsigned turn;
    int i = (int)(turn++ % BLOCKS);
    if (is_shared(i))
        return;
    if (!holds(block[i], sizes[i], value[i]))
        _exit(5);
    fill(i, 0xe0000000u + turn);
}

/* Where another process wrote, it wrote this to all of them. */
static char check(unsigned written) {
    char good = 'y';
    for (int i = 0; i < BLOCKS; i++)
        if (block[i] && !holds(block[i], sizes[i], is_shared(i) && written ? written : value[i]))
            good = 'n';
    return good;
}

static atomic_int ended;

static void wait_for_end(void *unused) {
    (void)unused;
    while (!atomic_load(&ended))
        usleep(1000);
}

static void obey(char command) {
    unsigned written;
    char answer = 'y';
    switch (command) {
    case 'c':
        get(to_exporter[0], &written, sizeof written);
        answer = check(written);
        break;
    case 'f': /* and what comes there next is nobody else's */
        for (int k = 0; k < SHARED; k++) {
            MUST(cuMemFree_v2(block[shared[k]]));
            MUST(cuMemAlloc_v2(&block[shared[k]], sizes[shared[k]]));
            fill(shared[k], 0xdead0000u);
        }
        break;
    case 'F': /* it has no CUDA, but all files, and goes on when its parent is gone */
        if (fork() == 0) {
            while (read(goes_on[0], &command, 1) > 0) /* until the last process of this program ends */
                ;
            _exit(0);
        }
        break;
    case 'b':
        MUST(cuLaunchHostFunc(NULL, wait_for_end, NULL));
        break;
    case 'e':
        atomic_store(&ended, 1);
        MUST(cuCtxSynchronize());
        break;
    default:
        exit(0);
    }
    put(from_exporter[1], &answer, 1);
}

static void export(void) {
    use_device();
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], sizes[i]));
    for (int i = 0; i < BLOCKS; i++)
        fill(i, 0xb10c0000u + (unsigned)i);
    for (int k = 0; k < SHARED; k++) {
        struct offer o = {.bytes = sizes[shared[k]], .value = value[shared[k]]};
        CUipcMemHandle again;
        MUST(cuIpcGetMemHandle(&o.handle, block[shared[k]]));
        MUST(cuIpcGetMemHandle(&again, block[shared[k]] + o.bytes / 2));
        if (memcmp(&again, &o.handle, sizeof again) != 0)
            _exit(6);
        put(from_exporter[1], &o, sizeof o);
    }
    struct pollfd told = {.fd = to_exporter[0], .events = POLLIN};
    close(goes_on[1]);
    for (char command, waits = 0;;) {
        if (!waits)
            work();
        if (poll(&told, 1, 0) == 0)
            continue;
        get(to_exporter[0], &command, 1);
        waits = command == 'b';
        obey(command);
    }
}

static char tell(char command, unsigned word) {
    char answer;
    put(to_exporter[1], &command, 1);
    if (command == 'c')
        put(to_exporter[1], &word, sizeof word);
    get(from_exporter[0], &answer, 1);
    return answer;
}

/* --- the importer --- */

static struct offer offers[SHARED];
static CUdeviceptr at[SHARED];

static CUresult try_open(int k) {
    return cuIpcOpenMemHandle_v2(&at[k], offers[k].handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static void open_all(void) {
    for (int k = 0; k < SHARED; k++)
        MUST(try_open(k));
}

static void close_all(void) {
    for (int k = 0; k < SHARED; k++)
        MUST(cuIpcCloseMemHandle(at[k]));
}

static int all_hold(unsigned written) {
    int good = 1;
    for (int k = 0; k < SHARED; k++)
        good &= holds(at[k], offers[k].bytes, written ? written : offers[k].value);
    return good;
}

/* Nothing but the other's own zeros may be seen before and behind it. */
static int sees_neighbours(int k) {
    int seen = 0;
    for (int grain = -AROUND; grain < AROUND; grain++)
        for (int64_t step = 0; step < GRAIN; step += GRAIN / 8) {
            unsigned word = 0;
            int64_t from = grain < 0 ? 0 : (int64_t)offers[k].bytes;
            CUdeviceptr p = at[k] + (uint64_t)(from + (int64_t)grain * GRAIN + step);
            int other = 0;
            for (int j = 0; j < SHARED; j++)
                other |= p >= at[j] && p < at[j] + offers[j].bytes;
            if (!other && cuMemcpyDtoH_v2(&word, p, sizeof word) == CUDA_SUCCESS && word != 0)
                seen++;
        }
    return seen;
}

static void part_read_(void) {
    unsigned written = 0;
    for (int round = 1; round <= ROUNDS; round++) {
        open_all();
        if (!all_hold(written))
            printf("round %d: other content\n", round);
        for (int k = 0; k < SHARED; k++)
            if (sees_neighbours(k))
                printf("round %d: neighbours are seen\n", round);
        written = 0xc0de0000u + (unsigned)round;
        for (int k = 0; k < SHARED; k++)
            MUST(cuMemsetD32_v2(at[k], written, offers[k].bytes / 4));
        MUST(cuCtxSynchronize());
        close_all();
        if (tell('c', written) != 'y')
            printf("round %d: the exporter finds other content\n", round);
    }
    printf("read %d rounds, then %d\n", ROUNDS, (int)cuIpcCloseMemHandle(at[0]) != CUDA_SUCCESS);
}

static void part_twice(void) {
    CUdeviceptr own, p;
    CUipcMemHandle handle;
    open_all();
    CUdeviceptr first = at[1];
    MUST(try_open(1));
    printf("again %s\n", at[1] == first ? "the same" : "another");
    MUST(cuIpcCloseMemHandle(at[1]));
    printf("still %d\n", all_hold(0));
    close_all();
    MUST(cuMemAlloc_v2(&own, 8 * MIB));
    MUST(cuIpcGetMemHandle(&handle, own));
    printf("own %d\n", (int)cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    printf("flags %d\n", (int)cuIpcOpenMemHandle_v2(&p, offers[0].handle, 0));
}

static void part_orphan(void) {
    for (int k = 0; k < SHARED - 1; k++)
        MUST(try_open(k));
    tell('F', 0);
    kill(exporter, SIGKILL);
    waitid(P_PID, (id_t)exporter, NULL, WEXITED | WNOWAIT);
    usleep(100000);
    printf("another %d\n", try_open(SHARED - 1) != CUDA_SUCCESS);
    for (int k = 0; k < SHARED - 1; k++) {
        printf("%d ", holds(at[k], offers[k].bytes, offers[k].value));
        MUST(cuIpcCloseMemHandle(at[k]));
    }
    printf("\n");
}

static void part_widow(void) {
    open_all();
    printf("opened %d\n", all_hold(0));
    fflush(stdout);
    kill(getpid(), SIGKILL);
}

static void part_freed(void) {
    open_all();
    tell('f', 0);
    for (int k = 0; k < SHARED; k++) {
        unsigned word = 1;
        MUST(cuMemcpyDtoH_v2(&word, at[k], sizeof word));
        if (word == 0xdead0000u)
            printf("%d: another allocation's bytes\n", k);
    }
    close_all();
    printf("closed\n");
}

static void part_asked(void) {
    open_all();
    for (int k = 0; k < SHARED; k++) {
        CUdeviceptr start = 0, range = 0;
        size_t bytes = 0, size = 0;
        unsigned type = 0;
        MUST(cuMemGetAddressRange_v2(&start, &bytes, at[k] + offers[k].bytes - 1));
        MUST(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at[k] + 77));
        MUST(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at[k] + 77));
        MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at[k] + 77));
        printf("%d %zu %d %zu %u\n", start == at[k], bytes, range == at[k], size, type);
    }
    close_all();
}

/* The driver's own handles are not looked at so closely here. */
static int is_preloaded(void) {
    const char *preload = getenv("LD_PRELOAD");
    return preload && *preload;
}

static void part_bad(void) {
    CUipcMemHandle none = {0}, changed = offers[0].handle;
    CUdeviceptr p;
    printf("none %d\n", cuIpcOpenMemHandle_v2(&p, none, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    ((char *)&changed)[50] ^= 1; /* the token */
    if (is_preloaded())
        printf("changed %d\n", cuIpcOpenMemHandle_v2(&p, changed, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    tell('f', 0);
    if (is_preloaded())
        printf("freed %d\n", try_open(0) != CUDA_SUCCESS);
}

static void part_busy(void) {
    tell('b', 0);
    printf("opened %d\n", try_open(0) == CUDA_SUCCESS);
    printf("work ends\n");
    tell('e', 0);
    printf("opened %d\n", try_open(0) == CUDA_SUCCESS);
}

static void import(void (*run)(void)) {
    for (int k = 0; k < SHARED; k++)
        get(from_exporter[0], &offers[k], sizeof offers[k]);
    if (getenv("IPC_IMPORTER"))
        setenv("ULMS_BACKEND", getenv("IPC_IMPORTER"), 1);
    use_device();
    run();
}

/* --- both --- */

static pid_t child(void (*run)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        import(run);
        exit(0);
    }
    return pid;
}

static void with(void (*run)(void)) {
    int status;
    if (pipe(to_exporter) || pipe(from_exporter) || pipe(goes_on))
        _exit(1);
    if ((exporter = fork()) == 0)
        export();
    waitpid(child(run), &status, 0);
    printf("importer %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    if (run != part_orphan) {
        if (run != part_read_ && run != part_busy)
            printf("exporter finds %c\n", tell('c', 0));
        put(to_exporter[1], "q", 1);
    }
    waitpid(exporter, &status, 0);
    printf("exporter %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

#define PART(name)                                                                                                     \
    static void name(void) {                                                                                           \
        with(part_##name);                                                                                             \
    }
PART(read_)
PART(twice)
PART(orphan)
PART(widow)
PART(freed)
PART(asked)
PART(bad)
PART(busy)

static void refused(void) {
    CUipcMemHandle handle;
    use_device();
    MUST(cuMemAlloc_v2(&block[0], sizes[0]));
    for (int i = 0; i < 2; i++)
        printf("refused %d\n", cuIpcGetMemHandle(&handle, block[0]) != CUDA_SUCCESS);
}

int main(int argc, char **argv) {
    static const struct part parts[] = {{"read", read_},      {"twice", twice}, {"orphan", orphan}, {"widow", widow},
                                        {"freed", freed},     {"asked", asked}, {"bad", bad},       {"busy", busy},
                                        {"refused", refused}, {NULL, NULL}};
    return run_part(parts, argc, argv);
}
