#include "interpose/summary.h"

#include <stdio.h>

#include "base/log.h"
#include "interpose/session.h"
#include "launch/function.h"
#include "observe/stats.h"
#include "ulms.h"

static double gib(uint64_t bytes) {
    return (double)bytes / (1u << 30);
}

static unsigned long long sum(enum counter c) {
    return (unsigned long long)stats_sum(c);
}

void summary_start(const char *device, uint64_t total) {
    uint64_t capacity = ulms_options.capacity && ulms_options.capacity < total ? ulms_options.capacity : total;
    int factor = ulms_options.factor < 0 ? 100 : ulms_options.factor;
    log_info("ulms %s on: mode %s, device %s (%d in all), capacity %.2f GiB%s, budget %d %%", ulms_version(),
             session.backend->name, device, session.devices, gib(capacity), ulms_options.capacity ? " (limit)" : "",
             factor);
}

/* Every function some launch of which had arguments but no known address among them. */
static void print_unmatched(void) {
    const struct function *f;
    for (uint32_t i = 0; (f = function_at(i)); i++) {
        uint64_t n = __atomic_load_n(&f->unmatched, __ATOMIC_RELAXED);
        if (n)
            log_line(LOG_INFO, NULL, "  no known address in %llu of %llu launches of %.160s", (unsigned long long)n,
                     (unsigned long long)__atomic_load_n(&f->launches, __ATOMIC_RELAXED), f->name);
    }
}

void summary_print(void) {
    if (ulms_options.level < LOG_INFO)
        return;
    log_info("%llu kernels in %llu launches and %llu graph launches, %llu copies, %llu memsets, %llu waits",
             sum(COUNT_kernels), sum(COUNT_launches), sum(COUNT_graph_launches), sum(COUNT_copies), sum(COUNT_memsets),
             sum(COUNT_waits));
    log_info("%.2f GiB touched; extents told by calls %llu, libraries %llu, framework %llu, observed pointers %llu, "
             "whole allocations %llu",
             gib(stats_sum(COUNT_touched_bytes)), sum(COUNT_touches_call), sum(COUNT_touches_library),
             sum(COUNT_touches_framework), sum(COUNT_touches_observed), sum(COUNT_touches_allocation));
    for (int d = 0; d < session.devices && d < DEVICE_MAX; d++)
        if (ledger_peak(session.ledger, d))
            log_line(LOG_INFO, NULL, "device %d: %.2f GiB held, %.2f at most", d, gib(ledger_used(session.ledger, d)),
                     gib(ledger_peak(session.ledger, d)));
    log_info("%llu allocations, %llu freed, %llu refused; %llu blocks; %llu pointer tables", sum(COUNT_allocations),
             sum(COUNT_frees), sum(COUNT_refused), sum(COUNT_blocks), sum(COUNT_tables));
    print_unmatched();
}
