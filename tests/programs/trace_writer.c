/* Writes traces that tests know beforehand: trace_writer FILE story | threads N EACH | forever | stats */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "observe/format.h"
#include "observe/held.h"
#include "observe/stats.h"
#include "observe/trace.h"

enum { LAUNCH_API = 7, COPY_API = 8, GRAPH_TOUCHES = 3000, POINTERS = 5000 };

static struct touch touch(uint64_t i) {
    return (struct touch){.start = 0x7f0000000000 + 512 * i,
                          .bytes = 512,
                          .allocation = (1ull << 40) + i,
                          .mode = (uint8_t)(1 + i % 4),
                          .sparse = i % 4 == 0,
                          .source = (uint8_t)(i % SOURCE_COUNT)};
}

static uint64_t operation(enum op_kind kind, uint32_t touches) {
    static __thread struct touch list[TOUCH_MAX];
    for (uint32_t i = 0; i < touches; i++)
        list[i] = touch(i);
    struct op op = {.serial = serial_next(),
                    .issued_ns = clock_ns(),
                    .stream = 0xffffffffffff0000,
                    .function = kind == OP_LAUNCH ? 1 : 0,
                    .kernels = kind == OP_LAUNCH  ? 1
                               : kind == OP_GRAPH ? 40
                                                  : 0,
                    .object = kind == OP_GRAPH ? 0x9000 : 0,
                    .api = kind == OP_LAUNCH ? LAUNCH_API : COPY_API,
                    .kind = (uint8_t)kind,
                    .device = 1,
                    .count = touches,
                    .touches = list};
    trace_op(&op);
    return op.serial;
}

static void move(uint32_t kind, uint32_t flags, unsigned also, uint64_t begun_ns, uint64_t resident) {
    struct ulms_move m = {.start = 0x7f0000000000, .bytes = 2 << 20, .kind = kind, .flags = flags};
    trace_move(1, &m, also, begun_ns, resident);
}

/* What moves, and waits, where not everything fits; the counters come into the file by themselves. */
static void pages(uint64_t serial) {
    uint64_t now = clock_ns();
    move(ULMS_FILL, ULMS_MOVE_EARLY, 0, now - 3000, 6 << 20);
    move(ULMS_FILL, 0, 0, now - 2000, 8 << 20);
    move(ULMS_EVICT, ULMS_MOVE_DEAD, MOVE_DISCARDED, now - 1000, 6 << 20);
    move(ULMS_EVICT, ULMS_MOVE_CLEAN, MOVE_FAILED, now - 1000, 6 << 20);
    trace_hold(1, serial, now - 5000, 4000, 2 << 20);
    trace_hold(1, serial + (1ull << 32), now - 500, 100, 0);
    stats_add(COUNT_predicted, 3);
    stats_add(COUNT_surprises, 1);
    stats_add(COUNT_paged_bytes, 100);
    stats_add(COUNT_hit_bytes, 25);
}

/* One of everything, in an order and with values that test_trace_reader.py repeats. */
static void story(void) {
    struct allocation a = {.start = 0x7f0000000000, .bytes = 1 << 20, .id = 1, .charged = 2 << 20, .context = 5};
    struct touch *list = malloc(GRAPH_TOUCHES * sizeof *list);
    addr_t pointers[POINTERS];
    for (uint64_t i = 0; i < GRAPH_TOUCHES; i++)
        list[i] = touch(i);
    for (uint64_t i = 0; i < POINTERS; i++)
        pointers[i] = 0x7f0000000000 + i;
    trace_api(LAUNCH_API, "cuLaunchKernel");
    trace_api(COPY_API, "cuMemcpyHtoD_v2");
    trace_allocation(&a, true);
    trace_block(a.start, 4096, true);
    trace_function(1, "axpy(float*, int)");
    uint64_t serial = operation(OP_LAUNCH, 3);
    trace_retired(serial, 1000, 250);
    operation(OP_COPY, 1);
    trace_table(a.start, 1 << 16, pointers, POINTERS);
    trace_graph(0x9000, 40, list, GRAPH_TOUCHES);
    operation(OP_GRAPH, 0);
    trace_graph(0x9000, 20, list, 1);
    operation(OP_GRAPH, 0);
    trace_block(a.start, 4096, false);
    trace_allocation(&a, false);
    pages(serial);
    free(list);
}

static int each;

static void *launch_each(void *unused) {
    for (int i = 0; i < each; i++) {
        operation(OP_LAUNCH, (uint32_t)i % 5);
        if (i % 100 == 99)
            usleep(1000);
    }
    return unused;
}

static void run_threads(int n) {
    pthread_t *threads = calloc((size_t)n, sizeof *threads);
    trace_function(1, "axpy(float*, int)");
    for (int i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, launch_each, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* Never so far ahead of the file that an operation is dropped. Says "ready" when the first thousand are in it. */
static void run_forever(void) {
    for (uint64_t i = 0;; i++) {
        operation(OP_LAUNCH, 3);
        if (i % 100 == 0)
            do
                usleep(1000);
            while (stats_sum(COUNT_trace_records) + 1000 < i);
        if (i == 1000) {
            while (stats_sum(COUNT_trace_records) < 1000)
                usleep(1000);
            puts("ready");
            fflush(stdout);
        }
    }
}

/* Counts into FILE until its input ends. */
static int count_until_told(const char *path) {
    if (!stats_open(path))
        return 1;
    stats_add(COUNT_operations, 64);
    stats_add(COUNT_copied_bytes, 1ull << 40);
    stats_memory(1, 100, 200, 300);
    held_add(1, "axpy(float*, int)", 1000, 2 << 20);
    held_add(2, "gemm", 5000, 4 << 20);
    held_add(3, "axpy(float*, int)", 500, 0);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        stats_add(COUNT_kernels, 10), puts("ready"), fflush(stdout);
    stats_close();
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[2] : "";
    if (strcmp(what, "stats") == 0)
        return count_until_told(argv[1]);
    if (!*what || !trace_open(argv[1], "{\"program\":\"writer\",\"device\":\"none\"}"))
        return 1;
    if (strcmp(what, "story") == 0)
        story();
    else if (strcmp(what, "threads") == 0 && argc > 4) {
        each = atoi(argv[4]);
        run_threads(atoi(argv[3]));
    } else
        run_forever();
    trace_close();
    return 0;
}
