/* What every address is: a tree of ranges that do not overlap, and which of them running operations use. */
#include "memory.h"

#include "log.h"
#include "managed.h"
#include "run.h"

#include <search.h>
#include <stdlib.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static void *tree; /* ranges that overlap compare as equal: a look-up is a search for what overlaps */
static atomic_ullong last_id;

static pthread_mutex_t running_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t running_ended = PTHREAD_COND_INITIALIZER;
static struct emu_launch *running;

static int order(const void *left, const void *right) {
    const struct area *a = left, *b = right;
    if (a->start + a->bytes <= b->start)
        return -1;
    return a->start >= b->start + b->bytes;
}

static struct area *any_in(uint64_t start, uint64_t end) {
    struct area key = {.start = start, .bytes = end - start};
    struct area **found = end > start ? tfind(&key, &tree, order) : NULL;
    return found ? *found : NULL;
}

static struct area *first_in(uint64_t start, uint64_t end) {
    struct area *first = NULL;
    for (struct area *a = any_in(start, end); a; a = any_in(start, a->start))
        first = a;
    return first;
}

bool area_add(const struct area *a) {
    struct area *copy = malloc(sizeof *copy);
    if (!copy)
        return false;
    *copy = *a;
    copy->id = atomic_fetch_add(&last_id, 1) + 1;
    pthread_rwlock_wrlock(&lock);
    struct area **entry = tsearch(copy, &tree, order);
    bool added = entry && *entry == copy;
    pthread_rwlock_unlock(&lock);
    if (!added)
        free(copy);
    return added;
}

bool area_find(uint64_t address, struct area *out) {
    pthread_rwlock_rdlock(&lock);
    struct area *a = any_in(address, address + 1);
    if (a)
        *out = *a;
    pthread_rwlock_unlock(&lock);
    return a != NULL;
}

bool area_visit(uint64_t start, uint64_t bytes, bool *covered, area_visitor visit, void *data) {
    uint64_t end = start + bytes, at = start;
    bool whole = true, went = true;
    pthread_rwlock_wrlock(&lock);
    while (went && at < end) {
        struct area *a = first_in(at, end);
        if (!a || a->start > at)
            whole = false;
        if (!a)
            break;
        at = a->start + a->bytes;
        went = visit(a, a->start > start ? a->start : start, at < end ? at : end, data);
    }
    pthread_rwlock_unlock(&lock);
    if (covered)
        *covered = whole;
    return went;
}

/* --- what goes away --- */

/* Nobody finds the range any more: operations that found it before fail, and are waited for. */
static void wait_for_users(uint64_t start, uint64_t end) {
    pthread_mutex_lock(&running_lock);
    for (bool used = true; used;) {
        used = false;
        for (struct emu_launch *r = running; r; r = r->next)
            for (size_t i = 0; i < r->use_count; i++)
                if (r->uses[i].start < end && r->uses[i].start + r->uses[i].bytes > start) {
                    atomic_store(&r->stale, true);
                    used = true;
                }
        if (used)
            pthread_cond_wait(&running_ended, &running_lock);
    }
    pthread_mutex_unlock(&running_lock);
}

static void take_out(struct area *a, struct area *out) {
    tdelete(a, &tree, order);
    *out = *a;
    free(a);
}

bool area_remove(uint64_t start, unsigned kinds, struct area *out) {
    pthread_rwlock_wrlock(&lock);
    struct area *a = any_in(start, start + 1);
    bool found = a && a->start == start && (kinds & 1u << a->kind);
    if (found)
        take_out(a, out);
    pthread_rwlock_unlock(&lock);
    if (found)
        wait_for_users(start, start + out->bytes);
    return found;
}

bool area_remove_of_context(CUcontext c, struct area *out) {
    pthread_rwlock_wrlock(&lock);
    struct area *a = first_in(0, UINT64_MAX);
    while (a && a->context != c)
        a = first_in(a->start + a->bytes, UINT64_MAX);
    if (a)
        take_out(a, out);
    pthread_rwlock_unlock(&lock);
    if (a)
        wait_for_users(out->start, out->start + out->bytes);
    return a != NULL;
}

/* --- running operations --- */

void run_begin(struct emu_launch *r) {
    pthread_mutex_lock(&running_lock);
    r->next = running;
    running = r;
    pthread_mutex_unlock(&running_lock);
}

CUresult run_end(struct emu_launch *r) {
    pthread_mutex_lock(&running_lock);
    struct emu_launch **at = &running;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    bool stale = atomic_load(&r->stale);
    pthread_cond_broadcast(&running_ended);
    pthread_mutex_unlock(&running_lock);
    free(r->uses);
    return stale ? CUDA_ERROR_ILLEGAL_ADDRESS : r->error;
}

static bool note_use(struct emu_launch *r, uint64_t start, uint64_t bytes) {
    pthread_mutex_lock(&running_lock);
    if (r->use_count == r->use_room) {
        size_t room = r->use_room ? 2 * r->use_room : 8;
        struct range *bigger = realloc(r->uses, room * sizeof *bigger);
        if (bigger) {
            r->uses = bigger;
            r->use_room = room;
        }
    }
    bool noted = r->use_count < r->use_room;
    if (noted)
        r->uses[r->use_count++] = (struct range){start, bytes};
    pthread_mutex_unlock(&running_lock);
    return noted;
}

static bool allowed(const struct area *a, const struct emu_launch *r, int mode) {
    switch (a->kind) {
    case AREA_VMM:
        return mode & EMU_WRITE ? a->rights[r->device->ordinal] == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                : a->rights[r->device->ordinal] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case AREA_REGISTERED:
        return !(mode & EMU_WRITE && a->flags & CU_MEMHOSTREGISTER_READ_ONLY);
    case AREA_MANAGED:
    case AREA_PINNED:
        return true;
    case AREA_POOL:
        return a->device == r->device;
    default: /* a copy needs nobody's leave */
        return a->device == r->device || !r->kernel || atomic_load(&r->context->peers) & 1u << a->device->ordinal;
    }
}

static void charge(struct emu_launch *r, const struct area *a, uint64_t start, uint64_t end, int mode) {
    if (a->kind == AREA_MANAGED) {
        managed_touch(a, start, end, r, mode);
    } else if (a->device) {
        r->device_bytes += (mode == EMU_UPDATE ? 2 : 1) * (end - start);
    } else {
        r->host_read += mode & EMU_READ ? end - start : 0;
        r->host_written += mode & EMU_WRITE ? end - start : 0;
        if (r->kernel)
            managed_count_in_place(end - start);
    }
}

/* Looks a range up for an operation. Its bytes, or NULL: illegal. mode: enum emu_mode. */
static void *area_use(struct emu_launch *r, uint64_t address, uint64_t bytes, int mode) {
    uint64_t end = address + bytes;
    if (end < address)
        return NULL;
    pthread_rwlock_rdlock(&lock);
    struct area *first = any_in(address, address + 1);
    bool good = first && note_use(r, address, bytes);
    for (struct area *a = first; good && a;) {
        uint64_t from = a->start > address ? a->start : address;
        uint64_t to = a->start + a->bytes < end ? a->start + a->bytes : end;
        /* Only mappings join up: what lies behind another allocation is there by chance. */
        good = allowed(a, r, mode) && (a == first || (a->kind == AREA_VMM && first->kind == AREA_VMM));
        if (good)
            charge(r, a, from, to, mode);
        a = to < end ? any_in(to, to + 1) : NULL;
        good = good && (to == end || a);
    }
    int64_t shift = good && !area_is_host(first) ? alias : 0;
    pthread_rwlock_unlock(&lock);
    return good ? (void *)(uintptr_t)(address + (uint64_t)shift) : NULL;
}

_Noreturn void run_fail(struct emu_launch *r, CUresult error) {
    r->error = error;
    longjmp(r->stop, 1);
}

EXPORT void *emu_use(struct emu_launch *r, uint64_t address, uint64_t bytes, int mode) {
    if (bytes == 0)
        return NULL;
    void *p = area_use(r, address, bytes, mode);
    if (!p)
        run_fail(r, CUDA_ERROR_ILLEGAL_ADDRESS);
    log_touch(r, address, bytes, mode);
    return p;
}
