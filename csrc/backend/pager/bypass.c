/* What bypasses the engine while nothing moves, counted meanwhile: an operation that was looked at, until the driver
 * has it, as nothing may leave before (driver/fast_path.h counts those that were not); a block of the framework's,
 * until the ledger knows of it, as it is told to the engine from there. */
#include "backend/pager/pager.h"
#include "driver/fast_path.h"

/* Threads share a count only where there are many. */
enum { COUNTS = 64, COUNT_BYTES = 64 };
struct bypass {
    struct {
        _Alignas(COUNT_BYTES) uint32_t here;
    } count[COUNTS];
};
static struct bypass operations, blocks;

static __thread uint32_t *operation, *block; /* where this thread's is counted */

/* Counted before it is asked whether it may bypass: either we see that it may not, or who waits sees the count. */
static bool bypass_enter(struct bypass *p, uint32_t **counted, bool (*forbidden)(void)) {
    struct thread *self = forbidden() ? NULL : thread_self();
    if (!self)
        return false;
    section_begin();
    *counted = &p->count[self->id % COUNTS].here;
    __atomic_fetch_add(*counted, 1, __ATOMIC_SEQ_CST);
    section_end();
    return true;
}

static bool leave(uint32_t **counted) {
    section_begin();
    uint32_t *here = *counted;
    *counted = NULL;
    if (here)
        __atomic_fetch_sub(here, 1, __ATOMIC_SEQ_CST);
    section_end();
    return here;
}

static bool any(const struct bypass *p) {
    for (int i = 0; i < COUNTS; i++)
        if (__atomic_load_n(&p->count[i].here, __ATOMIC_SEQ_CST) > 0)
            return true;
    return false;
}

bool pager_bypass_begin(void) {
    return bypass_enter(&operations, &operation, pager_any_moving) && (!pager_any_moving() || !leave(&operation));
}

bool pager_bypass_end(void) {
    return leave(&operation);
}

bool pager_bypassing(const struct pager *d) {
    return fast_path_passing() || any(&operations) || __atomic_load_n(&d->admission.untracked, __ATOMIC_SEQ_CST) > 0;
}

bool pager_bypasses_over(const struct pager *d) {
    return fast_path_drained() && !pager_bypassing(d);
}

bool pager_block_bypass_begin(void) {
    return bypass_enter(&blocks, &block, pager_hears) && (!pager_hears() || !leave(&block));
}

bool pager_block_bypass_end(void) {
    return leave(&block);
}

bool pager_block_bypasses_over(void) {
    return !any(&blocks);
}
