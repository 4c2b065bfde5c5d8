#include "backend/vmm/deferred_release.h"

#include "driver/context.h"
#include "driver/real.h"

enum { TRIES = 3 };

static const uint64_t soon_ns = 10000000;

static struct lock ending;  /* of who empties `taken` */
static struct lock parking; /* of both lists, and of the contexts of what is in them */
static struct vmm_part *deferred, *taken;

bool vmm_context_wait(uint64_t context, CUresult *status) {
    struct pager_visit v = pager_enter((CUcontext)(uintptr_t)context);
    bool done = false;
    for (int i = 0; i < TRIES && !done && pager_current() == (CUcontext)(uintptr_t)context && capture_keep_off(); i++) {
        *status = REAL(cuCtxSynchronize, 0)();
        done = *status == CUDA_SUCCESS;
    }
    pager_leave(v);
    return done;
}

static void put_in(struct vmm_part *p) {
    p->next = deferred;
    __atomic_store_n(&deferred, p, __ATOMIC_RELAXED);
}

void deferred_release_add(struct vmm_part *p, uint64_t context) {
    lock_take(&parking);
    p->deferred = true;
    p->context = context;
    put_in(p);
    lock_drop(&parking);
}

/* All that is deferred. */
static void deferred_take(void) {
    lock_take(&parking);
    taken = deferred;
    __atomic_store_n(&deferred, NULL, __ATOMIC_RELAXED);
    lock_drop(&parking);
}

/* The first of what is taken, and its context, which may be gone any time. */
static struct vmm_part *first_taken(uint64_t *context) {
    lock_take(&parking);
    struct vmm_part *p = taken;
    *context = p ? p->context : 0;
    lock_drop(&parking);
    return p;
}

/* What was the first of them goes, or is deferred again. */
static void end_or_park(struct vmm_part *p, bool over) {
    struct pager *d;
    lock_take(&parking);
    taken = p->next;
    if (!over)
        put_in(p);
    lock_drop(&parking);
    if (over && vmm_find(p->start, &d) == p->range)
        vmm_end_part(d, p);
}

/* A driver that cannot tell is waited for. */
bool vmm_context_over(uint64_t context, uint64_t patience_ns) {
    CUresult status = context_idle((CUcontext)(uintptr_t)context, patience_ns);
    bool tells = status == CUDA_ERROR_NOT_READY || status == CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return status == CUDA_SUCCESS || (patience_ns && !tells && vmm_context_wait(context, &status));
}

/* Of one context, or of every one (0). The caller holds `ending`. False: nothing ended. */
static bool end(uint64_t only, uint64_t patience_ns) {
    uint64_t context, busy = 0;
    bool ended = false;
    if (capture_any())
        return false;
    deferred_take();
    for (struct vmm_part *p; (p = first_taken(&context));) {
        bool asked = context != busy && (!only || context == only);
        bool over = !context || (asked && vmm_context_over(context, patience_ns));
        busy = asked && !over ? context : busy;
        end_or_park(p, over);
        ended |= over;
    }
    return ended;
}

/* Who comes while another waits needs what that one has taken. */
bool deferred_release_end(uint64_t patience_ns) {
    lock_take(&ending);
    bool ended = end(0, patience_ns);
    lock_drop(&ending);
    return ended;
}

/* No other context is waited for than the program has. */
void vmm_context_synced(uint64_t context) {
    if (!__atomic_load_n(&deferred, __ATOMIC_RELAXED) || !lock_try(&ending))
        return;
    end(context, soon_ns);
    lock_drop(&ending);
}

static void forget_in(struct vmm_part *list, uint64_t context) {
    for (struct vmm_part *p = list; p; p = p->next)
        p->context = p->context == context ? 0 : p->context;
}

void vmm_forgotten(uint64_t gone) {
    lock_take(&parking);
    forget_in(deferred, gone);
    forget_in(taken, gone);
    lock_drop(&parking);
    pager_forgotten(gone);
}
