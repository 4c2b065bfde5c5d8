/* Operations that pass by: nothing moves when they are admitted, but something may when the driver gets them. They are
 * counted in between, and nothing leaves before they are through. */
#include "backend/pager.h"
#include "base/thread.h"

/* Threads share a count only where there are many. */
enum { COUNTS = 64, COUNT_BYTES = 64 };
static struct {
    _Alignas(COUNT_BYTES) uint32_t operations;
} counts[COUNTS];

static __thread uint32_t *counted; /* the thread's operation in */

/* Sequentially consistent, as `any_moving` is: either we see that, or pager_passed_all this. */
bool pager_pass(void) {
    struct thread *self = pager_any_moving() ? NULL : thread_self();
    if (!self)
        return false;
    counted = &counts[self->id % COUNTS].operations;
    __atomic_fetch_add(counted, 1, __ATOMIC_SEQ_CST);
    return !pager_any_moving() || !pager_passed();
}

bool pager_passed(void) {
    uint32_t *here = counted;
    counted = NULL;
    if (here)
        __atomic_fetch_sub(here, 1, __ATOMIC_SEQ_CST);
    return here;
}

bool pager_passed_all(const struct pager *d) {
    for (int i = 0; i < COUNTS; i++)
        if (__atomic_load_n(&counts[i].operations, __ATOMIC_SEQ_CST) > 0)
            return false;
    return __atomic_load_n(&d->passing, __ATOMIC_SEQ_CST) == 0;
}
