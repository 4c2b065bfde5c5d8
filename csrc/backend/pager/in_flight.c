#include "backend/pager/in_flight.h"

#include <string.h>

#include "backend/pager/pager.h"
#include "base/larger.h"
#include "driver/capture.h"
#include "driver/context.h"
#include "driver/real.h"

enum { MOST = 1024 };
/* What lasts for so many bounds may wait for the program itself: then there is none for a while. */
enum { PATIENCE = 50 };
#define OFF_NS 2000000000ull

static uint64_t most_ns(const struct pager_in_flight *f) {
    return __atomic_load_n(&f->most_ns, __ATOMIC_RELAXED);
}

static uint64_t part_ns(const struct pager_in_flight *f) {
    return most_ns(f) / IN_FLIGHT_MARKS;
}

void pager_in_flight_bound(struct pager *d, uint64_t ns) {
    __atomic_store_n(&d->admission.turn.in_flight.most_ns, ns, __ATOMIC_RELAXED);
}

/* So many operations took so long. A step changes it by twice at most: they are not alike. */
static void learn(struct pager_in_flight *f, uint64_t took_ns) {
    uint64_t now = f->every * part_ns(f) / larger(took_ns, 1);
    now = larger(now, f->every / 2);
    f->every = (uint32_t)larger(1, smaller(smaller(now, 2 * (uint64_t)f->every), MOST));
}

/* False: it has not passed, or that cannot be told. */
static bool has_passed(const struct pager_in_flight *f, int i) {
    return REAL(cuEventQuery, 0)(f->event[i]) != CUDA_ERROR_NOT_READY;
}

/* Of the calling thread, or whose events are not the context's that is current. */
static bool is_free(const struct pager_in_flight *f) {
    return most_ns(f) == 0 || capture_any() || (f->context && (uint64_t)(uintptr_t)f->context != context_current());
}

/* One that has passed already took no longer than since it was recorded: they are more only if that was short. */
static void wait_for(struct pager_in_flight *f, int i, uint64_t most) {
    struct patience patience = {.what = PATIENCE_TURN, .most_ns = PATIENCE * most};
    bool waits = !has_passed(f, i), passed = !waits;
    while (!passed && most_ns(f) > 0 && !capture_any() && patience_rest(&patience))
        passed = has_passed(f, i);
    uint64_t now = clock_ns(), took = waits ? now - f->passed_ns : now - f->marked_ns[i];
    if (!passed)
        f->off_ns = now + OFF_NS;
    else if (waits ? f->passed_ns > 0 : took < part_ns(f))
        learn(f, took);
    f->passed_ns = waits && passed ? now : 0;
    f->marked_ns[i] = 0;
}

void pager_in_flight_wait(struct pager *d) {
    struct pager_in_flight *f = &d->admission.turn.in_flight;
    uint64_t most = most_ns(f);
    if (most == 0 || is_free(f) || !lock_try(&f->lock))
        return;
    struct relaxed r = {0};
    if (f->marked_ns[f->oldest] && clock_ns() > f->off_ns) {
        r = capture_relax();
        if (capture_allows(r))
            wait_for(f, f->oldest, most);
        capture_restore(r);
    }
    lock_drop(&f->lock);
}

/* The driver makes no event while another thread's copy stands at a gate, which this one may open. */
static bool make(struct pager_in_flight *f) {
    if (f->context)
        return true;
    if (patience_gated() || pager_gates_unseen() || pager_forgets())
        return false;
    for (int i = 0; i < IN_FLIGHT_MARKS; i++)
        if (!f->event[i] && REAL(cuEventCreate, 0)(&f->event[i], CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            return false;
    f->context = (CUcontext)(uintptr_t)context_current();
    return true;
}

static bool record(struct pager_in_flight *f, int i, uint64_t stream) {
    struct relaxed r = capture_relax();
    bool good = capture_allows(r) && make(f) &&
                REAL(cuEventRecord, 0)(f->event[i], (CUstream)(uintptr_t)stream) == CUDA_SUCCESS;
    capture_restore(r);
    return good;
}

void pager_in_flight_issued(struct pager *d, const struct op *op) {
    struct pager_in_flight *f = &d->admission.turn.in_flight;
    if (op->status != CUDA_SUCCESS || is_free(f) || __atomic_add_fetch(&f->since, 1, __ATOMIC_RELAXED) < f->every ||
        !lock_try(&f->lock))
        return;
    int i = f->marked_ns[f->oldest] ? (f->oldest + 1) % IN_FLIGHT_MARKS : f->oldest;
    if (!f->marked_ns[i] && context_device() == d->ordinal && record(f, i, op->stream)) {
        f->every = f->every ? f->every : 1;
        f->marked_ns[i] = clock_ns();
        f->oldest = (i + 1) % IN_FLIGHT_MARKS;
        __atomic_store_n(&f->since, 0, __ATOMIC_RELAXED);
    }
    lock_drop(&f->lock);
}

void pager_in_flight_forget(struct pager *d, CUcontext context) {
    struct pager_in_flight *f = &d->admission.turn.in_flight;
    lock_take(&f->lock);
    if (f->context == context) {
        f->context = NULL;
        memset(f->event, 0, sizeof f->event);
        memset(f->marked_ns, 0, sizeof f->marked_ns);
    }
    lock_drop(&f->lock);
}
