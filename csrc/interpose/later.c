#include "interpose/later.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/page.h"
#include "interpose/capture.h"
#include "interpose/session.h"

/* More than this is freed also while other streams may run. */
static const uint64_t much = 1ull << 30;

struct later {
    struct allocation gone;
    CUevent used; /* behind the last use; NULL: it could not be recorded */
    struct later *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* of the list; no call of the driver under it */
static pthread_mutex_t freeing = PTHREAD_MUTEX_INITIALIZER; /* of what is out of the list to be freed or reused */
static struct later *list;
static uint64_t waiting; /* bytes in the list */

static void put_in(struct later *e) {
    pthread_mutex_lock(&lock);
    e->next = list;
    list = e;
    __atomic_store_n(&waiting, waiting + e->gone.charged, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
}

/* Takes out all of the context, or of every one (0), that are of so many grains, or of any number (0). */
static struct later *take_out(uint64_t context, uint64_t grains) {
    struct later *taken = NULL;
    pthread_mutex_lock(&lock);
    for (struct later **at = &list; *at;) {
        struct later *e = *at;
        if ((context && e->gone.context != context) || (grains && whole_grains(e->gone.charged) != grains)) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        e->next = taken;
        taken = e;
        __atomic_store_n(&waiting, waiting - e->gone.charged, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

static CUevent record(int variant, CUstream stream) {
    CUevent event;
    if (REAL(cuEventCreate, 0)(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
        return NULL;
    if (REAL(cuEventRecord, variant)(event, stream) == CUDA_SUCCESS)
        return event;
    REAL(cuEventDestroy_v2, 0)(event);
    return NULL;
}

bool later_free(const struct allocation *gone, int variant, CUstream stream) {
    struct later *e = malloc(sizeof *e);
    if (!e)
        return false;
    *e = (struct later){.gone = *gone, .used = record(variant, stream)};
    put_in(e);
    return true;
}

static bool done(const struct later *e) {
    return e->used && REAL(cuEventQuery, 0)(e->used) == CUDA_SUCCESS;
}

static void forget_event(const struct later *e) {
    if (e->used)
        REAL(cuEventDestroy_v2, 0)(e->used);
}

bool later_reuse(struct charge *c, int device, enum memory_kind kind, uint64_t bytes, CUdeviceptr *dptr) {
    struct later *found = NULL;
    uint64_t context = __atomic_load_n(&waiting, __ATOMIC_RELAXED) ? session_context() : 0;
    if (!context || pthread_mutex_trylock(&freeing) != 0)
        return false;
    struct relaxed relaxed = capture_relax();
    for (struct later *e = take_out(context, whole_grains(bytes)), *next; e; e = next) {
        next = e->next;
        if (!found && capture_allows(relaxed) && done(e))
            found = e;
        else
            put_in(e);
    }
    capture_restore(relaxed);
    pthread_mutex_unlock(&freeing);
    if (!found)
        return false;
    forget_event(found);
    *dptr = found->gone.start;
    *c = (struct charge){
        .recorded = true, .managed = true, .device = device, .kind = kind, .bytes = bytes, .context = context};
    ledger_reuse_managed(session.ledger, device, bytes);
    charge_close(c, CUDA_SUCCESS, dptr, bytes);
    free(found);
    return true;
}

static void free_now(struct later *e) {
    if (memory_free_in(e->gone.start, e->gone.context)) {
        forget_event(e);
        ledger_freed_managed(session.ledger, e->gone.charged);
    } else {
        memory_gone(&e->gone);
    }
    free(e);
}

/* What is not used any more, or is of the context that has just been waited for; or all, as the real free waits itself.
 * The caller holds `freeing`. */
static void free_some(bool all, uint64_t waited_for) {
    if (capture_any())
        return;
    struct relaxed relaxed = capture_relax();
    for (struct later *e = take_out(0, 0), *next; e; e = next) {
        bool waited = all || (waited_for && e->gone.context == waited_for);
        next = e->next;
        if (capture_allows(relaxed) && (waited || done(e)))
            free_now(e);
        else
            put_in(e);
    }
    capture_restore(relaxed);
}

void later_waited(uint64_t whole_context) {
    uint64_t bytes = __atomic_load_n(&waiting, __ATOMIC_RELAXED);
    if (bytes > (whole_context ? 0 : much) && pthread_mutex_trylock(&freeing) == 0) {
        free_some(false, whole_context);
        pthread_mutex_unlock(&freeing);
    }
}

void later_free_all(void) {
    pthread_mutex_lock(&freeing);
    free_some(true, 0);
    pthread_mutex_unlock(&freeing);
}

/* What is of an unknown context may be of this one. */
void later_forget(uint64_t context) {
    for (struct later *e = take_out(0, 0), *next; e; e = next) {
        next = e->next;
        if (e->gone.context && e->gone.context != context) {
            put_in(e);
            continue;
        }
        memory_gone(&e->gone);
        free(e);
    }
}
