#include "observe/stats.h"
#include "backend/pager/pager.h"
#include "base/thread.h"

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
    ulms_engine_stats(d->engine, &now);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t value = *(const uint64_t *)((const char *)&now + rows[i].at);
        uint64_t told = *(const uint64_t *)((const char *)&d->told + rows[i].at);
        if (value != told)
            stats_add(rows[i].counter, value - told);
    }
    d->told = now;
    d->told_ns = clock_ns();
}
