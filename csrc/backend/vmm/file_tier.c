/* When pages go to the file and come back: while the program is suspended, where it is told to; where the host is full.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/vmm/extent.h"
#include "backend/vmm/filer.h"
#include "base/larger.h"
#include "base/log.h"
#include "driver/session.h"

enum { SPARE_MOST = DEVICE_MAX * PAGER_RUN_PAGES };

/* Pages of the device in the file. */
static uint32_t filed(const struct vmm *v) {
    return __atomic_load_n(&v->filed, __ATOMIC_RELAXED);
}

bool vmm_may_file(const struct pager *d) {
    const struct vmm *v = vmm_in(d);
    const struct filer *f = v ? v->filer : NULL;
    return f && (v->beyond_host || f->fills || f->writing > 0 || f->reading > 0 || filed(v) > 0);
}

bool vmm_any_filed(const struct pager *d, addr_t start, addr_t end) {
    struct job j;
    return filed(vmm_in(d)) > 0 && filer_next(d, &start, end, &j, filer_is_filed);
}

static bool is_away(const struct pager *d, const struct job *j) {
    (void)d;
    return vmm_page_at(&j->range->page[j->page]) != VMM_DEVICE;
}

/* Pages of [start, end). Under the lock. */
static void keep_all(const struct pager *d, addr_t start, addr_t end, uint64_t until) {
    for (struct job j; filer_next(d, &start, end, &j, is_away);)
        filer_keep(&j, until);
}

static void keep_none(const struct pager *d) {
    addr_t at = 0;
    for (struct job j; filer_next(d, &at, UINT64_MAX, &j, is_away);)
        j.range->page[j.page].in_place_until = 0;
}

/* Until none lies in the file, or leaves it: a page is mapped only after it has left. Under the lock, which waiting
 * releases. */
static bool await(struct pager *d, struct filer *f, addr_t start, addr_t end) {
    struct patience patience = {.what = PATIENCE_NEED};
    uint64_t failed = f->failed, recalled = f->recalled;
    while (f->writing > 0 || f->reading > 0 || vmm_any_filed(d, start, end)) {
        if (pager_stops(d) || f->failed != failed)
            return false;
        bool asked = f->recall < f->end;
        f->recall = asked ? smaller(f->recall, start) : start;
        f->end = larger(f->end, end);
        condition_tell_all(&f->work);
        if (pager_wait(d, &patience))
            continue;
        if (f->recalled == recalled) {
            log_error(
                "device %d: no page has come back from the file for %llu s: what uses those there may be refused as "
                "out of memory",
                d->ordinal, (unsigned long long)(PATIENCE_MOST_NS / 1000000000u));
            return false;
        }
        recalled = f->recalled;
    }
    return true;
}

bool vmm_recall(struct pager *d, addr_t start, addr_t end, uint64_t until, bool pauses) {
    struct filer *f = vmm_in(d) ? vmm_in(d)->filer : NULL;
    if (!f)
        return true;
    keep_all(d, start, end, until);
    f->pausing += pauses;
    bool there = await(d, f, start, end);
    f->pausing -= pauses;
    return there;
}

/* The folder, or one in it, is what the program allows; "" is memory. Returns why not; NULL: it is. */
static const char *refuses(const char *folder) {
    if (!*folder)
        return NULL;
    char *most = *ulms_options.file_folder ? realpath(ulms_options.file_folder, NULL) : NULL;
    char *it = most ? realpath(folder, NULL) : NULL;
    const char *why = most && !it ? strerror(errno) : NULL;
    size_t n = most ? strlen(most) : 0;
    bool allowed = it && strncmp(it, most, n) == 0 && (n == 1 || !it[n] || it[n] == '/');
    free(most);
    free(it);
    return why || allowed ? why : "ULMS_FILE_DIR does not allow it";
}

static const char *begin_file(struct pager *d, const char *folder) {
    const char *why = refuses(folder);
    const struct filer *f = why ? NULL : filer_of(d);
    if (why || !f || f->idle)
        return why ? why : f ? f->idle : strerror(ENOMEM);
    if (page_file_begin(vmm_in(d)->file, d->ordinal, folder, vmm_in(d)->pool[VMM_HOST].frames.capacity))
        return NULL;
    return errno == EBUSY ? "pages are in another folder" : strerror(errno);
}

/* On one thread. */
const char *vmm_file(struct pager *d, const char *folder) {
    struct vmm *v = vmm_in(d);
    const char *why = v && folder ? begin_file(d, folder) : NULL;
    struct filer *f = v ? v->filer : NULL;
    if (!f)
        return why;
    pager_lock(d);
    f->fills = folder && !why;
    if (f->fills)
        keep_none(d);
    __atomic_store_n(&v->unfiled, NULL, __ATOMIC_RELAXED);
    __atomic_store_n(&v->file_tells[false], false, __ATOMIC_RELAXED);
    f->whole = false;
    f->next = 0;
    condition_tell_all(&f->work);
    bool ends = !f->fills && !v->beyond_host;
    pager_unlock(d);
    if (ends)
        page_file_end(v->file, d->ordinal);
    return why;
}

/* All of it is reserved now, once for all devices, each of which has some spare: what the disk has no room for is
 * refused as out of memory when it is allocated. */
void vmm_file_beyond(struct pager *d) {
    static uint32_t spare;
    struct vmm *v = vmm_in(d);
    spare += d->engine.run_pages;
    uint32_t slots = (uint32_t)(session.file_limit / page_bytes) + spare, most = v->pool[VMM_HOST].frames.capacity;
    bool begun = page_file_begin(v->file, d->ordinal, ulms_options.file_folder, most + slots + SPARE_MOST);
    uint32_t have = begun ? page_file_reserve(v->file, slots) : 0;
    if (have < slots) {
        session.file_limit = have > spare ? (have - spare) * page_bytes : 0;
        ledger_limit_managed(session.ledger, session.managed_limit + session.file_limit);
        log_warn("ULMS_FILE_LIMIT is %llu MiB: the disk of %s has room for no more (%s)",
                 (unsigned long long)(session.file_limit >> 20), ulms_options.file_folder, strerror(errno));
    }
    const struct filer *f = have > spare ? filer_of(d) : NULL;
    v->beyond_host = f && !f->idle;
}

bool vmm_files(const struct pager *d) {
    return vmm_in(d) && vmm_in(d)->filer && vmm_in(d)->filer->fills;
}

bool vmm_insists(struct pager *d, const struct op *op) {
    bool any = vmm_in(d) && filed(vmm_in(d)) > 0, there = false;
    for (size_t i = 0, n = any ? vmm_touches(d, op) : 0; i < n && !there; i++) {
        const struct ulms_engine_touch *t = &d->admission.touches[i];
        there = vmm_any_filed(d, t->start, t->start + t->bytes);
    }
    return there;
}

bool vmm_is_away(struct pager *d, const struct op *op) {
    bool any = false;
    for (size_t i = 0, n = vmm_touches(d, op); i < n && !any; i++) {
        addr_t at = d->admission.touches[i].start / page_bytes * page_bytes;
        struct job j;
        any = filer_next(d, &at, d->admission.touches[i].start + d->admission.touches[i].bytes, &j, is_away);
    }
    return any;
}

void vmm_load(const struct pager *d, struct backend_load *load) {
    const struct filer *f = vmm_in(d) ? vmm_in(d)->filer : NULL;
    if (!f)
        return;
    load->filed = (uint64_t)filed(vmm_in(d)) * page_bytes;
    if (f->fills && __atomic_load_n(&vmm_in(d)->unfiled, __ATOMIC_RELAXED))
        load->unfiled = vmm_in(d)->unfiled;
    load->files = f->fills && (!f->whole || f->writing > 0);
}

void vmm_fork_child(void) {
    page_file_fork_child();
}
