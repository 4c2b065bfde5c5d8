/* How much of the device pages may occupy. */
#include "backend/pager/pager.h"
#include "base/capacity.h"
#include "base/log.h"
#include "driver/context.h"
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

/* What the device has for the program, as the driver tells; what it was before where it does not, or where that is no
 * news. Under the lock, which is released meanwhile. */
static uint64_t ask_driver(struct pager *d) {
    size_t free_bytes, total;
    uint64_t before = held(d);
    pager_unlock(d);
    bool tells = REAL(cuMemGetInfo_v2, 0)(&free_bytes, &total) == CUDA_SUCCESS;
    pager_lock(d);
    uint64_t now = held(d), old = d->budget.capacity;
    if (!tells)
        return old;
    uint64_t most = free_bytes + (before < now ? now : before) + pager_pages_lingering(&d->memory.ranges);
    uint64_t capacity = between(free_bytes + (before < now ? before : now), most, old);
    capacity = capacity < total ? capacity : total;
    uint64_t apart = capacity > old ? capacity - old : old - capacity;
    return apart > grain(old) ? capacity : old;
}

/* The driver is asked in a context of the device's alone. A grant may come meanwhile. */
void pager_budget_look(struct pager *d) {
    bool asks = !capacity_granted(d->ordinal) && context_device() == d->ordinal;
    if (asks || capacity_granted(d->ordinal))
        d->budget.looked_ns = clock_ns();
    uint64_t told = asks ? ask_driver(d) : d->budget.capacity;
    uint64_t granted = capacity_granted(d->ordinal), device = pager_device_bytes(d->ordinal);
    d->budget.capacity = !granted ? told : device && device < granted ? device : granted;
    pager_budget_update(d);
}

void pager_granted(int32_t device) {
    struct pager *d = pager_at(device);
    if (!d)
        return;
    pager_lock(d);
    pager_budget_look(d);
    d->budget.looked_ns = 0; /* the watcher asks the driver, which this thread may have no context for */
    if (pager_all_fits(d) && !pager_fits(d, 0))
        pager_start_moving(d, 0);
    pager_wake(d);
    pager_marks_wake(d);
    pager_unlock(d);
}

/* What the factor leaves of the capacity. */
static uint64_t share(const struct pager *d) {
    return d->budget.capacity * (uint64_t)capacity_factor(d->ordinal) / 100;
}

void pager_budget_update(struct pager *d) {
    struct pager_budget *b = &d->budget;
    b->plain = ledger_plain(session.ledger, d->ordinal);
    b->lent = d->kind->lends ? d->kind->lends(d) : 0;
    uint64_t all = share(d), others = b->plain + b->coming + d->memory.fixed + d->memory.aside + b->lent;
    b->room = all > others ? all - others : 0;
    uint64_t bytes = b->room / page_bytes * page_bytes;
    if (bytes == b->bytes)
        return;
    log_debug("device %d: budget %llu MiB", d->ordinal, (unsigned long long)(bytes >> 20));
    b->bytes = bytes;
    if (d->engine.core)
        ulms_engine_budget(d->engine.core, bytes);
}

uint64_t pager_pages_there(const struct pager *d) {
    struct ulms_engine_stats now;
    ulms_engine_stats(d->engine.core, &now);
    uint64_t bytes = now.resident_bytes;
    for (const struct pager_move *m = d->moves.under_way; m; m = m->next)
        bytes += m->abandoned || m->vacated ? 0 : m->m.bytes;
    return bytes;
}

static void wait_for_leavers(struct pager *d) {
    struct patience patience = {0};
    pager_wake(d);
    while (pager_moves(d) && pager_has_movers(d) && pager_pages_there(d) > d->budget.bytes && pager_wait(d, &patience))
        ;
}

void pager_budget_comes(struct pager *d, int64_t bytes) {
    pager_lock(d);
    d->budget.coming += (uint64_t)bytes;
    if (bytes > 0)
        pager_refit_again(d);
    pager_make_room(d, 0);
    if (bytes > 0)
        wait_for_leavers(d);
    pager_unlock(d);
}

uint64_t pager_room(int32_t device) {
    struct pager *d = pager_at(device);
    if (!d)
        return UINT64_MAX;
    pager_lock(d);
    uint64_t bytes = d->budget.bytes;
    pager_unlock(d);
    return bytes;
}

bool pager_fits(const struct pager *d, uint64_t bytes) {
    const struct pager_budget *b = &d->budget;
    uint64_t padding = d->kind->padding ? d->kind->padding(d) : 0, beyond = b->capacity - share(d);
    padding = padding < beyond ? padding : beyond;
    return d->memory.bytes + bytes <= whole_pages(b->room / PAGE_LEAST * PAGE_LEAST) + d->memory.fixed + padding;
}

/* Launches would wait for the driver, under the lock. */
void pager_budget_watch(struct pager *d) {
    CUcontext context = capacity_granted(d->ordinal) ? NULL : d->contexts.program;
    d->budget.looked_ns = clock_ns();
    d->budget.looking = true;
    pager_unlock(d);
    bool can = context && REAL(cuCtxSetCurrent, 0)(context) == CUDA_SUCCESS;
    pager_lock(d);
    if (can)
        pager_budget_look(d);
    else
        pager_budget_update(d);
    d->budget.looking = false;
    pager_wake(d);
}
