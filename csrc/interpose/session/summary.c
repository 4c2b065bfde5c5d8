#include "interpose/session/summary.h"

#include <stdio.h>

#include "backend/backend.h"
#include "base/capacity.h"
#include "base/log.h"
#include "driver/session.h"
#include "launch/function.h"
#include "observe/held.h"
#include "observe/stats.h"
#include "ulms.h"

static double gib(uint64_t bytes) {
    return (double)bytes / (1u << 30);
}

static unsigned long long sum(enum counter c) {
    return (unsigned long long)stats_sum(c);
}

static uint64_t capacity; /* of device 0 */

void summary_start(const char *device, uint64_t total) {
    uint64_t limit = capacity_of(0);
    capacity = limit && limit < total ? limit : total;
    log_info("ulms %s on: backend %s, device %s (%d in all), capacity %.2f GiB%s, budget %d %%", ulms_version(),
             session.backend->name, device, session.devices, gib(capacity), limit ? " (limit)" : "",
             session.backend->provide ? ulms_options.factor : 100);
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

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

enum { WORST = 5, WORTH_A_LINE = 1 << 30 /* bytes */ };

static void print_held(void) {
    struct ulms_held worst[WORST];
    size_t n = held_worst(worst, WORST);
    for (size_t i = 0; i < n; i++)
        log_line(LOG_INFO, NULL, "  held %.3f s, %llu times, for %.2f GiB: %s", (double)worst[i].ns / 1e9,
                 (unsigned long long)worst[i].times, gib(worst[i].missing_bytes), worst[i].name);
}

/* Only where not everything fitted. */
static void print_pages(void) {
    uint64_t paged = stats_sum(COUNT_paged_bytes), filled = stats_sum(COUNT_filled_bytes);
    uint64_t told = stats_sum(COUNT_predicted) + stats_sum(COUNT_surprises);
    if (!paged)
        return;
    log_info("%.2f GiB of pages touched: %.1f %% were there, %llu operations waited for theirs, %.3f s, and %llu ran "
             "without; %.1f %% came as predicted",
             gib(paged), percent(stats_sum(COUNT_hit_bytes), paged), sum(COUNT_late),
             (double)stats_sum(COUNT_held_ns) / 1e9, sum(COUNT_short_operations),
             percent(stats_sum(COUNT_predicted), told));
    log_info(
        "%.2f GiB filled, %.1f %% ahead of need and %.1f %% for nothing, %.2f faulted in, %.2f used in place; %.2f GiB "
        "evicted, %.2f dropped unchanged, %.2f dead; %llu of our calls refused",
        gib(filled), percent(stats_sum(COUNT_early_bytes), filled), percent(stats_sum(COUNT_useless_bytes), filled),
        gib(stats_sum(COUNT_faulted_bytes)), gib(stats_sum(COUNT_in_place_bytes)), gib(stats_sum(COUNT_evicted_bytes)),
        gib(stats_sum(COUNT_dropped_bytes)), gib(stats_sum(COUNT_dead_bytes)), sum(COUNT_move_failures));
    log_info(
        "the program's threads were in here for %.3f s before operations, beside being held, and for %.3f s behind "
        "them",
        (double)stats_sum(COUNT_admit_ns) / 1e9, (double)stats_sum(COUNT_settle_ns) / 1e9);
    if (stats_sum(COUNT_opaque))
        log_info("%llu operations might have touched any page: nothing moved while they ran", sum(COUNT_opaque));
    print_held();
}

static int fullest(void) {
    int found = 0;
    for (int d = 1; d < session.devices && d < DEVICE_MAX; d++)
        if (ledger_peak(session.ledger, d) > ledger_peak(session.ledger, found))
            found = d;
    return found;
}

/* What a program learns that asked for nothing. */
static void print_short(void) {
    uint64_t in = stats_sum(COUNT_filled_bytes) + stats_sum(COUNT_faulted_bytes);
    uint64_t left = stats_sum(COUNT_evicted_bytes) + stats_sum(COUNT_dropped_bytes);
    int d = fullest();
    uint64_t peak = ledger_peak(session.ledger, d), size = d ? capacity_of(d) : capacity;
    char has[32] = "";
    if (left < WORTH_A_LINE || peak < WORTH_A_LINE)
        return;
    if (size)
        snprintf(has, sizeof has, ", which has %.2f", gib(size));
    log_warn("memory was short: %.2f GiB were allocated at most on device %d%s; %.2f came in, %.2f went out, "
             "operations were held %.3f s%s",
             gib(peak), d, has, gib(in), gib(stats_sum(COUNT_evicted_bytes)), (double)stats_sum(COUNT_held_ns) / 1e9,
             ulms_options.mode == MODE_UM ? "; `--backend vmm` may be faster (README: Which backend)" : "");
}

void summary_print(void) {
    print_short();
    if (ulms_options.level < LOG_INFO)
        return;
    log_info("%llu kernels in %llu launches and %llu graph launches, %llu copies, %llu memsets, %llu waits",
             sum(COUNT_kernels), sum(COUNT_launches), sum(COUNT_graph_launches), sum(COUNT_copies), sum(COUNT_memsets),
             sum(COUNT_waits));
    log_info("%.2f GiB touched; extents told by calls %llu, libraries %llu, framework %llu, observed pointers %llu, "
             "whole allocations %llu",
             gib(stats_sum(COUNT_touched_bytes)), sum(COUNT_touches_call), sum(COUNT_touches_library),
             sum(COUNT_touches_framework), sum(COUNT_touches_observed), sum(COUNT_touches_allocation));
    if (sum(COUNT_launches_unread))
        log_line(LOG_INFO, NULL, "  the arguments of %llu launches were not looked at: nothing moved",
                 sum(COUNT_launches_unread));
    for (int d = 0; d < session.devices && d < DEVICE_MAX; d++)
        if (ledger_peak(session.ledger, d))
            log_line(LOG_INFO, NULL, "device %d: %.2f GiB held, %.2f at most", d, gib(ledger_used(session.ledger, d)),
                     gib(ledger_peak(session.ledger, d)));
    log_info("%llu allocations, %llu freed, %llu refused; %llu blocks; %llu pointer tables", sum(COUNT_allocations),
             sum(COUNT_frees), sum(COUNT_refused), sum(COUNT_blocks), sum(COUNT_tables));
    print_pages();
    print_unmatched();
}
