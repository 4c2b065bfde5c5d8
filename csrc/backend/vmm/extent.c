#include "backend/vmm/extent.h"

#include "backend/pager/pager.h"
#include "backend/vmm/memory.h"
#include "driver/session.h"

bool vmm_is_told(const struct op *op) {
    return api_rows[op->api].library != LIBRARY_CUDA;
}

/* An extent that is a guess from other pointers may be too small, and so may what a library told of another call. */
static bool is_guess(const struct touch *t, const struct op *op) {
    return t->source == SOURCE_OBSERVED || t->source == SOURCE_ALLOCATION ||
           (t->source == SOURCE_LIBRARY && !vmm_is_told(op));
}

/* Memory that is mapped in the range. */
static bool is_in(const struct vmm_range *r, addr_t p, struct allocation *a) {
    return p >= r->start && p < r->start + r->bytes && ledger_find(session.ledger, p, a);
}

/* What the program mapped side by side it may use as one, where it reserved the addresses as one: what the driver
 * happened to reserve next to them has nothing to do with them. */
static void join_neighbours(const struct allocation *a, addr_t *start, uint64_t *bytes) {
    struct pager *d;
    struct allocation next;
    addr_t end = a->start + a->bytes;
    const struct vmm_range *r = a->kind == MEMORY_VMM ? vmm_find(a->start, &d) : NULL;
    *start = a->start;
    while (r && is_in(r, *start - 1, &next))
        *start = next.start;
    while (r && is_in(r, end, &next))
        end = next.start + next.bytes;
    *bytes = end - *start;
}

bool vmm_reach(addr_t p, addr_t *start, uint64_t *bytes) {
    struct allocation a;
    struct touch t;
    bool told = ledger_extent(session.ledger, p, &t) && t.source == SOURCE_FRAMEWORK;
    if (!told && !ledger_find(session.ledger, p, &a))
        return false;
    if (!told) {
        join_neighbours(&a, start, bytes);
    } else {
        *start = t.start;
        *bytes = t.bytes;
    }
    return true;
}

size_t vmm_touches(struct pager *d, const struct op *op) {
    size_t n = pager_touches(d, op);
    for (size_t i = 0; i < n; i++) {
        struct ulms_engine_touch *t = &d->admission.touches[i];
        if (!is_guess(&op->touches[i], op) || !vmm_reach(op->touches[i].start, &t->start, &t->bytes))
            continue;
        if (op->touches[i].mode != TOUCH_READ) /* what it writes of the rest is not known */
            t->mode = ULMS_TOUCH_UPDATE;
    }
    return n;
}
