/* Every wrapped function is called, each time with the driver refusing just that function.
 *
 *   every_call stack CALLS   prints for each the bytes of the stack that it used at most: "stack NAME BYTES"
 *   every_call books CALLS   prints each that changed what is used of the device, what the library knows of it or what
 * it still gives out, though it failed: "changed NAME". Each of the program's objects works all the while.
 *   every_call loader CALLS HOLDER   while another thread holds the locks of the loader; prints each that waits for
 * them: "waits NAME". HOLDER: the library made of loader_holder.c
 *   every_call child CALLS   each in a child of a fork, and in one of the system call alone, in which nothing can be
 * written that may be a lock of the library's: prints for each function what it answered and how its child ended:
 * "child NAME STATUS ANSWER..."
 *
 * CALLS: so many of each function. Prints last how many functions it called. */
#define _GNU_SOURCE
#include "every_call.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "emu.h"
#include "loader_held.h"
#include "painted.h"
#include "part.h"
#include "ulms.h"

USE(cuArrayCreate_v2)
USE(cuArrayDestroy)
USE(cuMemAlloc_v2)
USE(cuMemAllocManaged)
USE(cuMemFree_v2)
USE(cuMemGetInfo_v2)
USE(cuCtxGetCurrent)

enum { CALLS = sizeof all_calls / sizeof *all_calls };

static unsigned calls;
static char *holder_path;
static CUcontext context;

static void refuse(const struct called *c) {
    char failure[160];
    snprintf(failure, sizeof failure, "%s:sticky", c->symbol);
    emu_fail(NULL);
    if (emu_fail(failure) != 0)
        exit(2);
}

/* --- stack --- */

struct one {
    const struct called *called;
    void *function;
    int variant;
    unsigned number;
};

static void call_one(void *data) {
    const struct one *x = data;
    call_drawn(x->called, x->variant, x->function, x->number);
}

static void *measure(void *unused) {
    int count = 0;
    MUST(cuCtxSetCurrent(context));
    for (const struct called *c = all_calls; c < all_calls + CALLS; c++)
        for (int variant = 0; variant < 2; variant++) {
            size_t most = 0;
            struct one x = {.called = c, .function = call_find(c, variant), .variant = variant};
            if (!x.function)
                continue;
            refuse(c);
            for (; x.number < calls; x.number++) {
                size_t used = painted_use(call_one, &x);
                most = used > most ? used : most;
            }
            printf("stack %s %zu\n", c->name[variant], most);
            count++;
        }
    emu_fail(NULL);
    printf("%d called\n", count);
    return unused;
}

static void stack(void) {
    painted_run(measure);
}

/* --- books --- */

struct books {
    size_t free, total;
    uint64_t used, allocations, charged;
};

static struct books look(void) {
    enum { LISTED = 256 };
    static struct ulms_allocation list[LISTED];
    struct books b = {0};
    size_t (*allocations)(struct ulms_allocation *, size_t) = dlsym(RTLD_DEFAULT, "ulms_allocations");
    const struct ulms_stats *(*stats)(void) = dlsym(RTLD_DEFAULT, "ulms_stats");
    emu_fail(NULL);
    MUST(cuMemGetInfo_v2(&b.free, &b.total));
    b.used = stats ? stats()->memory[0].used : 0;
    b.allocations = allocations ? allocations(list, LISTED) : 0;
    for (uint64_t i = 0; i < b.allocations; i++)
        b.charged += list[i].charged;
    return b;
}

/* How much of each kind the quota still has, in units of 2 MiB. */
enum { UNIT = 2 << 20, UNITS_MOST = 64 };
enum { PLAIN, MANAGED, ARRAY, ROOMS };
static size_t room[ROOMS];

static bool has_room(int kind, size_t units) {
    CUdeviceptr p = 0;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR whole = {1024, units * (UNIT / 1024 / sizeof(float)), CU_AD_FORMAT_FLOAT, 1};
    CUresult answer = kind == PLAIN     ? cuMemAlloc_v2(&p, units * UNIT)
                      : kind == MANAGED ? cuMemAllocManaged(&p, units * UNIT, CU_MEM_ATTACH_GLOBAL)
                                        : cuArrayCreate_v2(&array, &whole);
    if (answer == CUDA_SUCCESS)
        MUST(kind == ARRAY ? cuArrayDestroy(array) : cuMemFree_v2(p));
    return answer == CUDA_SUCCESS;
}

static void find_room(void) {
    for (int kind = 0; kind < ROOMS; kind++)
        for (room[kind] = 0; room[kind] < UNITS_MOST && has_room(kind, room[kind] + 1);)
            room[kind]++;
}

/* A handle of ours may become the driver's: what it has counts for arrays then, no more for what is managed. */
static void compare_room(const char *name) {
    size_t before[ROOMS];
    bool same = true;
    for (int kind = 0; kind < ROOMS && same; kind++)
        same = (!room[kind] || has_room(kind, room[kind])) && !has_room(kind, room[kind] + 1);
    if (same)
        return;
    memcpy(before, room, sizeof room);
    find_room();
    if (room[PLAIN] < before[PLAIN] || room[MANAGED] + room[ARRAY] != before[MANAGED] + before[ARRAY])
        printf("changed %s: room for %zu plain, %zu managed, %zu in arrays; before %zu, %zu, %zu\n", name, room[PLAIN],
               room[MANAGED], room[ARRAY], before[PLAIN], before[MANAGED], before[ARRAY]);
}

static void books(void) {
    int count = 0;
    find_room();
    for (const struct called *c = all_calls; c < all_calls + CALLS; c++)
        for (int variant = 0; variant < 2; variant++) {
            void *function = call_find(c, variant);
            if (!function)
                continue;
            for (unsigned number = 0; number < calls; number++) {
                struct books before = look();
                refuse(c);
                int answer = call_drawn(c, variant, function, number);
                emu_fail(NULL);
                MUST(cuCtxSetCurrent(context));
                if (answer == 0) {
                    objects_mend();
                    find_room();
                    continue;
                }
                struct books after = look();
                if (memcmp(&before, &after, sizeof before) != 0)
                    printf("changed %s: answer %d, free %+lld, used %+lld, allocations %+lld, charged %+lld\n",
                           c->name[variant], answer, (long long)(after.free - before.free),
                           (long long)(after.used - before.used), (long long)(after.allocations - before.allocations),
                           (long long)(after.charged - before.charged));
            }
            if (strcmp(c->library, "cuda") == 0)
                compare_room(c->name[variant]);
            count++;
        }
    compare_room("a library's");
    objects_use();
    printf("%d called\n", count);
}

/* --- loader --- */

enum { MOST = 2 * CALLS, TICK_US = 50000, STUCK_TICKS = 600 };

static struct one found[MOST];
static int found_count;
static struct one *under_way;

/* Libraries find their driver, and we the library's functions, at the first call that comes. */
static void find_all(void) {
    const char *started = "";
    for (const struct called *c = all_calls; c < all_calls + CALLS; c++)
        for (int variant = 0; variant < 2; variant++) {
            struct one x = {.called = c, .function = call_find(c, variant), .variant = variant};
            if (!x.function)
                continue;
            if (c->version[variant] && strcmp(started, c->library) != 0)
                for (unsigned i = 0; i < calls; i++)
                    call_drawn(c, variant, x.function, i);
            started = c->library;
            found[found_count++] = x;
        }
}

static void *walk(void *unused) {
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < found_count; i++) {
        refuse(found[i].called);
        __atomic_store_n(&under_way, &found[i], __ATOMIC_RELEASE);
        for (; found[i].number < calls; found[i].number++)
            call_one(&found[i]);
    }
    emu_fail(NULL);
    __atomic_store_n(&under_way, NULL, __ATOMIC_RELEASE);
    return unused;
}

static void tell_of_waits(void) {
    struct one *before = NULL, *now;
    for (int ticks = 0; (now = __atomic_load_n(&under_way, __ATOMIC_ACQUIRE)); ticks = now == before ? ticks + 1 : 0) {
        if (ticks == STUCK_TICKS) {
            printf("waits %s\n", now->called->name[now->variant]);
            _exit(1);
        }
        before = now;
        usleep(TICK_US);
    }
}

static void loader(void) {
    pthread_t walker;
    find_all();
    loader_hold(holder_path, true);
    under_way = found;
    if (pthread_create(&walker, NULL, walk, NULL))
        exit(2);
    tell_of_waits();
    pthread_join(walker, NULL);
    loader_let_go();
    printf("%d called\n", found_count);
}

/* --- child --- */

enum { CALLS_MOST = 16 };

struct asked {
    struct one one;
    int *answer; /* shared with the child */
};

static void ask(void *data) {
    struct asked *x = data;
    for (unsigned i = 0; i < calls; i++)
        x->answer[i] = call_drawn(x->one.called, x->one.variant, x->one.function, i);
}

/* A library's own function may allocate; the driver's answers before it does anything. */
static void ask_child(const struct called *c, int variant, void *function, int *answer, bool raw) {
    struct asked x = {{.called = c, .function = function, .variant = variant}, answer};
    bool driver = strcmp(c->library, "cuda") == 0;
    struct child_calls in_child = {ask, &x, driver, call_scratch()};
    memset(answer, 0, calls * sizeof *answer);
    int status = child_run(&in_child, raw);
    printf("child %s %x", c->name[variant], (unsigned)status);
    for (unsigned i = 0; i < calls; i++)
        printf(" %d", answer[i]);
    printf("\n");
}

static void child(void) {
    int count = 0,
        *answer = mmap(NULL, CALLS_MOST * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    calls = calls < CALLS_MOST ? calls : CALLS_MOST;
    for (const struct called *c = all_calls; c < all_calls + CALLS; c++)
        for (int variant = 0; variant < 2; variant++) {
            void *function = call_find(c, variant);
            if (!function)
                continue;
            for (int raw = 0; raw < 2; raw++)
                ask_child(c, variant, function, answer, raw);
            count++;
        }
    printf("%d called\n", count);
}

static const struct part parts[] = {
    {"stack", stack}, {"books", books}, {"loader", loader}, {"child", child}, {NULL, NULL}};

int main(int argc, char **argv) {
    calls = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    holder_path = argc > 3 ? argv[3] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    objects_make();
    MUST(cuCtxGetCurrent(&context));
    return run_part(parts, argc, argv);
}
