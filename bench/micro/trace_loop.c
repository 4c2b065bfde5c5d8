/* Loops for test_trace_bench.py: what recording costs the program's thread. */
#include <unistd.h>

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

void loop_ops(uint32_t n, uint32_t touches) {
    struct touch list[64] = {{.start = 0x7f0000000000, .bytes = 512, .allocation = 1, .mode = TOUCH_READ}};
    for (uint32_t i = 0; i < n; i++) {
        struct op op = {.serial = serial_next(), .issued_ns = i, .count = touches, .touches = list};
        trace_op(&op);
    }
    written += n;
}

void loop_retired(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        trace_retired(i, i, i);
    written += n;
}

void loop_stats(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        stats_add(COUNT_kernels, i);
}
