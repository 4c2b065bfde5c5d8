/* The placeholder's page of the budget: set aside before a move makes it, so that no page comes in its place. */
#include "backend/vmm/memory.h"

uint64_t vmm_placeholder_bytes(const struct pager *d) {
    struct vmm *v = vmm_in(d);
    return v && vmm_placeholder_is_here(v, v->placeholder.coming > 0) ? page_bytes : 0;
}

void vmm_placeholder_look(struct pager *d) {
    uint64_t before = d->budget.bytes;
    pager_budget_update(d);
    if (d->budget.bytes != before)
        pager_wake(d);
}

void vmm_placeholder_coming(struct pager *d, bool begins) {
    vmm_in(d)->placeholder.coming += begins ? 1 : (size_t)-1;
    vmm_placeholder_look(d);
}
