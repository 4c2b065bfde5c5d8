/* The engine that rules over the pages of a device: how it is made, and its counters. */

#include "backend/pager/pager.h"
#include "base/options.h"
#include "observe/stats.h"

enum { RUN_BYTES = 32 << 20, SHARE = 16 };

static const struct {
    enum counter counter;
    size_t at; /* in struct ulms_engine_stats */
} rows[] = {
#define ROW(counter, field) {COUNT_##counter, offsetof(struct ulms_engine_stats, field)}
    ROW(paged_bytes, touched_bytes),     ROW(hit_bytes, hit_bytes),
    ROW(late, late_operations),          ROW(short_operations, short_operations),
    ROW(filled_bytes, filled_bytes),     ROW(early_bytes, early_bytes),
    ROW(useless_bytes, useless_bytes),   ROW(faulted_bytes, faulted_bytes),
    ROW(in_place_bytes, in_place_bytes), ROW(in_place_written_bytes, in_place_written_bytes),
    ROW(evicted_bytes, evicted_bytes),   ROW(dropped_bytes, dropped_bytes),
    ROW(dead_bytes, dead_bytes),         ROW(predicted, predicted),
    ROW(surprises, surprises),
#undef ROW
};

void pager_publish(struct pager *d) {
    struct ulms_engine_stats now;
    ulms_engine_stats(d->engine.core, &now);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = *(const uint64_t *)((const char *)&now + rows[i].at);
        uint64_t told = *(const uint64_t *)((const char *)&d->engine.told + rows[i].at);
        if (value != told)
            stats_add(rows[i].counter, value - told);
    }
    d->engine.told = now;
    d->engine.told_ns = clock_ns();
}

void pager_leave_untold(struct pager *d) {
    ulms_engine_stats(d->engine.core, &d->engine.told);
}

void pager_retired(struct pager *d, uint64_t ticket) {
    uint64_t serial = pager_window_retire(&d->window, ticket);
    pager_progressed(d);
    if (serial)
        ulms_engine_retired(d->engine.core, serial, d->monitor.progress_ns);
}

void pager_all_come(struct pager *d) {
    bool all_come = d->phase.refit.all_come || d->admission.turn.settles;
    ulms_engine_eager(d->engine.core, all_come);
    ulms_engine_in_place(d->engine.core, all_come ? ULMS_IN_PLACE_NOTHING : ULMS_IN_PLACE_ALL);
}

bool pager_engine_open(struct pager *d) {
    uint64_t share = d->budget.bytes / SHARE / page_bytes * page_bytes;
    uint64_t ahead = share < d->kind->ahead ? share : d->kind->ahead, run = ahead / d->kind->runs;
    run = run < RUN_BYTES ? run : RUN_BYTES;
    d->engine.run_pages = run < page_bytes ? 1 : (uint32_t)(run / page_bytes);
    struct ulms_engine_settings settings = {
        .policy = ulms_options.policy,
        .page_bytes = page_bytes,
        .budget = d->budget.bytes,
        .run_bytes = (uint64_t)d->engine.run_pages * page_bytes,
        .shed_bytes = d->kind->managed ? 0 : PAGER_RUN_PAGES * page_bytes,
        .ahead_bytes = ahead,
        .keeps = 1,
        .faults = d->kind->managed,
        .in_place = ULMS_IN_PLACE_ALL,
    };
    d->engine.core = ulms_engine_new(&settings);
    if (d->engine.core)
        pager_all_come(d);
    if (d->engine.core && d->kind->holder)
        ulms_engine_holder(d->engine.core, d->kind->holder, d);
    return d->engine.core;
}
