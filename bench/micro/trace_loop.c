/* Loops for test_trace_bench.py: what recording costs the program's thread, and what it would with stdio. */
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "observe/format.h"
#include "observe/stats.h"
#include "observe/trace.h"

static uint64_t written; /* records */

/* Room for a round in the ring: waits until the writer has caught up. */
void loop_wait(void) {
    while (stats_sum(COUNT_trace_records) + stats_sum(COUNT_trace_drops) < written)
        usleep(1000);
}

uint64_t loop_drops(void) {
    return stats_sum(COUNT_trace_drops);
}

static const struct touch list[64] = {{.start = 0x7f0000000000, .bytes = 512, .allocation = 1, .mode = TOUCH_READ}};

void loop_ops(uint32_t n, uint32_t touches) {
    for (uint32_t i = 0; i < n; i++) {
        struct op op = {.serial = serial_next(), .issued_ns = i, .count = touches, .touches = (void *)list};
        trace_op(&op);
    }
    written += n;
}

void loop_retired(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        trace_retired(i, i, i);
    written += n;
}

/* The same records into a buffered file, head and touches in one piece; each loop begins at its start. */
static FILE *file;

bool stdio_open(const char *path) {
    file = fopen(path, "wb");
    return file;
}

void stdio_ops(uint32_t n, uint32_t touches) {
    union {
        struct op_record r;
        char room[sizeof(struct op_record) + sizeof list / sizeof *list * sizeof(struct touch_record)];
    } one = {.r.head.type = RECORD_OP};
    size_t bytes = sizeof one.r + touches * sizeof *one.r.touches;
    rewind(file);
    for (uint32_t i = 0; i < n; i++) {
        one.r.head.serial = serial_next();
        one.r.head.time_ns = i;
        one.r.head.words = (uint16_t)(bytes / 8);
        for (uint32_t t = 0; t < touches; t++)
            one.r.touches[t] = (struct touch_record){list[t].start, list[t].bytes, list[t].allocation};
        fwrite(&one, bytes, 1, file);
    }
}

void stdio_retired(uint32_t n) {
    rewind(file);
    for (uint32_t i = 0; i < n; i++) {
        struct retired_record r = {{RECORD_RETIRED, sizeof r / 8, 1, serial_next(), clock_ns()}, i, i, i};
        fwrite(&r, sizeof r, 1, file);
    }
}

bool stdio_close(void) {
    return fclose(file) == 0;
}

/* A counter that threads share. */
void loop_atomic(uint32_t n) {
    static _Atomic uint64_t counter;
    for (uint32_t i = 0; i < n; i++)
        atomic_fetch_add_explicit(&counter, i, memory_order_relaxed);
}

void loop_stats(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        stats_add(COUNT_kernels, i);
}
