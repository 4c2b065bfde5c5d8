/* The placeholder's page of the budget: set aside before a move makes it, so that no page comes in its place. */
#include "backend/vmm/memory.h"

static void set_aside(struct pager *d, bool aside) {
    if (vmm_in(d)->placeholder.aside == aside)
        return;
    vmm_in(d)->placeholder.aside = aside;
    pager_memory_set_aside(d, aside ? (int64_t)page_bytes : -(int64_t)page_bytes);
    pager_budget_update(d);
    pager_wake(d);
}

void vmm_placeholder_comes(struct pager *d) {
    vmm_in(d)->placeholder.coming++;
    set_aside(d, true);
}

void vmm_placeholder_came(struct pager *d, bool parks) {
    vmm_in(d)->placeholder.coming -= parks;
    if (vmm_in(d)->placeholder.coming == 0)
        set_aside(d, vmm_placeholder_is_here(vmm_in(d)));
}
