/* How much of the device pages may occupy. */
#include "backend/pager.h"
#include "base/log.h"
#include "base/thread.h"
#include "driver/real.h"
#include "driver/session.h"

/* Free memory comes and goes in small pieces: less than this is no news. */
static uint64_t grain(uint64_t capacity) {
    return capacity / 64;
}

/* What our memory keeps from the rest of the device. */
static uint64_t held(const struct pager *d) {
    return ledger_plain(session.ledger, d->ordinal) + d->kind->occupied(d);
}

/* How much there is lies between two figures: moves went on while the driver was asked, and it keeps the places of
 * discarded pages until it needs them, and does not tell when it does. So it is taken for what it was before, as far as
 * they allow. */
static uint64_t between(uint64_t least, uint64_t most, uint64_t before) {
    return before < least ? least : before > most ? most : before;
}

void pager_budget_look(struct pager *d) {
    size_t free_bytes = 0, total = 0;
    uint64_t before = held(d), capacity = ulms_options.capacity;
    d->budget.looked_ns = clock_ns();
    pager_unlock(d);
    if (REAL(cuMemGetInfo_v2, 0)(&free_bytes, &total) != CUDA_SUCCESS)
        total = capacity;
    pager_lock(d);
    uint64_t now = held(d), old = d->budget.capacity;
    if (!capacity)
        capacity = between(free_bytes + (before < now ? before : now),
                           free_bytes + (before < now ? now : before) + pager_pages_lingering(&d->ranges), old);
    capacity = capacity < total ? capacity : total;
    uint64_t apart = capacity > old ? capacity - old : old - capacity;
    if (total && apart > grain(old))
        d->budget.capacity = capacity;
    pager_budget_update(d);
}

/* What the factor leaves of the capacity. */
static uint64_t share(const struct pager_budget *b) {
    return b->capacity * (uint64_t)ulms_options.factor / 100;
}

void pager_budget_update(struct pager *d) {
    struct pager_budget *b = &d->budget;
    b->plain = ledger_plain(session.ledger, d->ordinal);
    uint64_t all = share(b), others = b->plain + d->fixed + d->aside;
    b->room = all > others ? all - others : 0;
    uint64_t bytes = b->room / page_bytes * page_bytes;
    if (bytes == b->bytes)
        return;
    log_debug("device %d: budget %llu MiB", d->ordinal, (unsigned long long)(bytes >> 20));
    b->bytes = bytes;
    if (d->engine)
        ulms_engine_budget(d->engine, bytes);
}

bool pager_fits(const struct pager *d, uint64_t bytes) {
    const struct pager_budget *b = &d->budget;
    uint64_t padding = d->kind->padding ? d->kind->padding(d) : 0, beyond = b->capacity - share(b);
    padding = padding < beyond ? padding : beyond;
    return d->bytes + bytes <= whole_pages(b->room / PAGE_LEAST * PAGE_LEAST) + d->fixed + padding;
}
