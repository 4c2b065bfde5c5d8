/* Pages that somebody may use, though no operation showed them: what is done to many at once. */
#include "backend/vmm/memory.h"

/* Pages that follow one another in a range, as they are visited. */
struct run {
    struct vmm *v;
    struct vmm_range *range;
    size_t first, n;
    void (*visit)(struct vmm *v, struct vmm_range *r, size_t first, size_t n);
};

static void end_run(struct run *run) {
    if (run->n > 0)
        run->visit(run->v, run->range, run->first, run->n);
    run->n = 0;
}

static void add_page(struct pager_page *unused, addr_t p, void *data) {
    struct run *run = data;
    struct vmm_range *r = run->range;
    (void)unused;
    if (!r || p < r->start || p >= r->start + r->bytes)
        r = vmm_range_find(run->v, p);
    size_t page = r ? (p - r->start) / page_bytes : 0;
    if (r != run->range || page != run->first + run->n)
        end_run(run);
    if (run->n == 0)
        run->first = page;
    run->range = r;
    run->n += r != NULL;
}

/* Of [start, end), what the engine may know. Under the lock. */
static void visit_runs(struct pager *d, addr_t start, addr_t end,
                       void (*visit)(struct vmm *v, struct vmm_range *r, size_t first, size_t n)) {
    struct run run = {.v = vmm_in(d), .visit = visit};
    if (vmm_in(d))
        pager_pages_visit(&d->memory.ranges, start, end, add_page, &run);
    end_run(&run);
}

void vmm_map_stale(struct pager *d, addr_t start, addr_t end) {
    visit_runs(d, start, end, vmm_range_map_stale);
}

void vmm_written(struct pager *d) {
    visit_runs(d, 0, UINT64_MAX, vmm_range_written);
}

bool vmm_goes_stale(const struct pager *d) {
    bool untrusted = __atomic_load_n(&vmm_in(d)->untrusted, __ATOMIC_RELAXED);
    return ulms_options.hidden == HIDDEN_KNOWN || (ulms_options.hidden == HIDDEN_FOLLOWED && !untrusted);
}
