/* Every wrapped function is called, each time with the driver refusing just that function.
 *
 *   every_call stack CALLS   prints for each the bytes of the stack that it used at most: "stack NAME BYTES"
 *   every_call books CALLS   prints each that changed what is used of the device or what the library knows of it,
 * though it failed: "changed NAME". Each of the program's objects works all the while.
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

#include "device.h"
#include "emu.h"
#include "painted.h"
#include "part.h"
#include "ulms.h"

USE(cuMemGetInfo_v2)
USE(cuCtxGetCurrent)

enum { CALLS = sizeof all_calls / sizeof *all_calls };

static unsigned calls;
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

static void books(void) {
    int count = 0;
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
                    continue;
                }
                struct books after = look();
                if (memcmp(&before, &after, sizeof before) != 0)
                    printf("changed %s: answer %d, free %+lld, used %+lld, allocations %+lld, charged %+lld\n",
                           c->name[variant], answer, (long long)(after.free - before.free),
                           (long long)(after.used - before.used), (long long)(after.allocations - before.allocations),
                           (long long)(after.charged - before.charged));
            }
            count++;
        }
    objects_use();
    printf("%d called\n", count);
}

static const struct part parts[] = {{"stack", stack}, {"books", books}, {NULL, NULL}};

int main(int argc, char **argv) {
    calls = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    objects_make();
    MUST(cuCtxGetCurrent(&context));
    return run_part(parts, argc, argv);
}
