/* As an H100 does it: a launch reserves what the graph needs at one time. Launches in one stream share that, those that
 * may run at the same time do not. It stays reserved until cuDeviceGraphMemTrim. */
#include "graphmemory.h"

#include "memory.h"

#include <stdlib.h>

/* Launches into one stream that may not have ended. */
struct lane {
    struct device *device;
    struct mark last;
    uint64_t most;
    struct lane *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of this, and of the devices' graph_left */
static struct lane *lanes;
static uint64_t rounds = 1; /* one ends when nothing is in flight */

static uint64_t freed_by(const struct plan *p, const struct work *w) {
    for (size_t i = 0; w->kind == WORK_FREE && i < p->count; i++)
        if (p->step[i].work.kind == WORK_ALLOC && p->step[i].work.allocation.address == w->allocation.address)
            return whole_granules(p->step[i].work.allocation.bytes);
    return 0;
}

/* Bytes at one time; *left: of those that the plan does not free. */
static uint64_t most_of(const struct plan *p, uint64_t *left) {
    uint64_t most = 0;
    *left = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct work *w = &p->step[i].work;
        *left += w->kind == WORK_ALLOC ? whole_granules(w->allocation.bytes) : 0;
        most = *left > most ? *left : most;
        *left -= freed_by(p, w);
    }
    return most;
}

/* What has ended is forgotten. Returns whether something is in flight on the device. */
static bool look(struct device *d) {
    bool busy = false;
    for (struct lane **at = &lanes; *at;) {
        struct lane *l = *at;
        if (mark_passed(&l->last)) {
            *at = l->next;
            mark_release(&l->last);
            free(l);
        } else {
            busy = busy || l->device == d;
            at = &l->next;
        }
    }
    if (!busy) {
        d->graph_left = atomic_load(&d->graph_used);
        rounds++;
    }
    return busy;
}

static struct lane *lane_of(const struct CUstream_st *s) {
    struct lane *l = lanes;
    while (l && l->last.stream != s)
        l = l->next;
    return l;
}

static bool reserve(struct device *d, uint64_t bytes) {
    uint64_t held = atomic_load(&d->graph_reserved);
    if (bytes > held && !device_take(d, bytes - held))
        return false;
    if (bytes > held)
        atomic_store(&d->graph_reserved, bytes);
    if (bytes > atomic_load(&d->graph_high))
        atomic_store(&d->graph_high, bytes);
    return true;
}

bool graph_memory_take(CUstream s, const struct plan *p, uint64_t *round) {
    struct device *d = s->context->device;
    uint64_t left, most = most_of(p, &left), own = most;
    if (most == 0)
        return true;
    pthread_mutex_lock(&lock);
    look(d);
    uint64_t need = *round == rounds ? d->graph_left - left : d->graph_left; /* the same addresses serve again */
    for (const struct lane *l = lanes; l; l = l->next)
        if (l->last.stream == s)
            own = l->most > own ? l->most : own;
        else if (l->device == d)
            need += l->most;
    struct lane *l = lane_of(s);
    bool taken = (l || (l = calloc(1, sizeof *l))) && reserve(d, need + own);
    if (taken && *round != rounds)
        d->graph_left += left;
    if (taken && !l->last.stream) {
        stream_hold(s);
        *l = (struct lane){
            .device = d, .last = {s, UINT64_MAX}, .next = lanes}; /* it ends where graph_memory_launched says */
        lanes = l;
    } else if (!taken && l && !l->last.stream) {
        free(l);
    }
    if (taken) {
        l->most = own;
        *round = rounds;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void graph_memory_launched(const struct mark *at) {
    pthread_mutex_lock(&lock);
    struct lane *l = lane_of(at->stream);
    if (l)
        l->last.count = at->count;
    pthread_mutex_unlock(&lock);
}

void graph_memory_trim(struct device *d) {
    pthread_mutex_lock(&lock);
    uint64_t used = atomic_load(&d->graph_used), held = atomic_load(&d->graph_reserved);
    if (!look(d) && held > used) {
        atomic_store(&d->graph_reserved, used);
        device_give(d, held - used);
    }
    pthread_mutex_unlock(&lock);
}
