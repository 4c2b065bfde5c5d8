#include "backend/vmm/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "driver/real.h"
#include "launch/function.h"
#include "observe/stats.h"

struct vmm_seal {
    bool whole;
    uint64_t sum;     /* of the content */
    uint64_t opaque;  /* opaque operations admitted before: each breaks all seals */
    uint64_t kernels; /* issued before */
};

static uint64_t opaque_operations;

/* --- the last kernels --- */

enum { LAST = 256, NAMED = 6, TEXT = 512 };

static struct lock last_lock;
static uint32_t last[LAST]; /* function ids; 0: a graph */
static uint64_t kernels;    /* issued; the newest is last[(kernels - 1) % LAST] */

void vmm_verify_issued(const struct op *op) {
    if (op->kernels == 0)
        return;
    lock_take(&last_lock);
    last[kernels % LAST] = op->function;
    __atomic_store_n(&kernels, kernels + 1, __ATOMIC_RELEASE);
    lock_drop(&last_lock);
}

static const char *name_of(uint32_t function) {
    const struct function *f = function ? function_at(function - 1) : NULL;
    return f ? f->name : "a graph";
}

/* Names those issued since, the newest first; if there are none, the last. */
static void name_kernels(char text[TEXT], uint64_t since) {
    uint32_t named[NAMED];
    size_t n = 0, length = 0;
    text[0] = 0;
    lock_take(&last_lock);
    if (since >= kernels)
        since = kernels > 0 ? kernels - 1 : 0;
    if (kernels - since > LAST)
        since = kernels - LAST;
    for (uint64_t i = kernels; i > since && n < NAMED; i--) {
        size_t known = 0;
        while (known < n && named[known] != last[(i - 1) % LAST])
            known++;
        if (known < n)
            continue;
        named[n++] = last[(i - 1) % LAST];
        length += (size_t)snprintf(text + length, TEXT - length, "%s%.70s", n > 1 ? ", " : "", name_of(named[n - 1]));
    }
    lock_drop(&last_lock);
}

/* --- what is told --- */

static void violated(void) {
    stats_add(COUNT_violations, 1);
    if (ulms_options.verify == VERIFY_ABORT)
        abort();
}

static void tell(const struct vmm *v, addr_t page, const char *when, uint64_t since) {
    char names[TEXT];
    name_kernels(names, since);
    log_error("device %d: the page at 0x%llx was written %s by an operation that does not show that it does; the last "
              "kernels: %s. Nothing was lost this time; ULMS_HIDDEN=any or ULMS_BACKEND=um is for such programs",
              v->device, (unsigned long long)page, when, names);
    violated();
}

void vmm_verify_moved(const struct vmm *v, const struct vmm_move *m, CUstream stream) {
    static bool told;
    char names[TEXT];
    CUresult status = REAL(cuStreamQuery, 0)(stream);
    if (status < CUDA_ERROR_ILLEGAL_ADDRESS || status >= CUDA_ERROR_UNKNOWN ||
        __atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
        return;
    name_kernels(names, UINT64_MAX);
    log_error(
        "device %d: the context was lost (error %d) while pages from 0x%llx on were mapped anew: an operation may "
        "have used them without showing it; the last kernels: %s",
        v->device, (int)status, (unsigned long long)m->start, names);
    violated();
}

/* --- contents --- */

/* Not to be reversed, only to differ: four lanes, each a multiplication a word. */
static uint64_t sum_of(const void *page) {
    const uint64_t *word = page;
    uint64_t lane[4] = {1, 2, 3, 4}, sum = 0;
    for (size_t i = 0; i < page_bytes / sizeof *word; i += 4)
        for (size_t k = 0; k < 4; k++)
            lane[k] = spread(lane[k] ^ word[i + k]) + (lane[k] >> 32);
    for (size_t k = 0; k < 4; k++)
        sum = spread(sum ^ lane[k]) + (sum >> 32);
    return sum;
}

/* To `at` in *content, which is the driver's from then on where it does not tell that it has written there: NULL. */
static bool read_page(char **content, size_t at, addr_t from, CUstream stream) {
    if (REAL(cuMemcpyDtoHAsync_v2, 0)(*content + at, from, page_bytes, stream) != CUDA_SUCCESS)
        return false;
    if (REAL(cuStreamSynchronize, 0)(stream) != CUDA_SUCCESS)
        *content = NULL;
    return *content != NULL;
}

/* --- seals --- */

static struct vmm_seal *seals_of(struct vmm_range *r) {
    if (!r->seals)
        r->seals = calloc(r->bytes / page_bytes, sizeof *r->seals);
    return r->seals;
}

static void set_seal(struct vmm_seal *s, const void *content) {
    *s = (struct vmm_seal){true, sum_of(content), __atomic_load_n(&opaque_operations, __ATOMIC_ACQUIRE),
                           __atomic_load_n(&kernels, __ATOMIC_ACQUIRE)};
}

static bool is_broken(const struct vmm_seal *s) {
    return !s->whole || s->opaque != __atomic_load_n(&opaque_operations, __ATOMIC_ACQUIRE);
}

/* Under the lock. */
static void break_seals(const struct pager *d, addr_t start, addr_t end) {
    struct vmm_range *r;
    for (addr_t p = start / page_bytes * page_bytes; p < end; p += page_bytes)
        if ((r = vmm_range_at(d, p)) && r->seals)
            r->seals[(p - r->start) / page_bytes].whole = false;
}

void vmm_verify_admitted(struct pager *d, size_t n, bool opaque) {
    if (opaque)
        __atomic_fetch_add(&opaque_operations, 1, __ATOMIC_ACQ_REL);
    for (size_t i = 0; i < n; i++)
        if ((d->admission.touches[i].mode & ~(uint64_t)ULMS_TOUCH_SPARSE) != ULMS_TOUCH_READ)
            break_seals(d, d->admission.touches[i].start,
                        d->admission.touches[i].start + d->admission.touches[i].bytes);
}

void vmm_verify_new(struct vmm *v, struct vmm_range *r, size_t page) {
    const struct vmm_page *p = &r->page[page];
    struct vmm_seal *seals = seals_of(r);
    if (seals)
        seals[page].whole = false;
    char *content = seals && p->at == VMM_HOST ? malloc(page_bytes) : NULL;
    CUstream stream = content ? pager_stream_new() : NULL;
    if (stream && read_page(&content, 0, vmm_page_alias(v, p, VMM_HOST), stream))
        set_seal(&seals[page], content);
    if (stream)
        REAL(cuStreamDestroy_v2, 0)(stream);
    free(content);
}

/* --- a move --- */

/* The content of a page that a move brings along: copied, or kept from before. */
static bool comes_along(const struct vmm_move *m, const struct vmm_page *p) {
    return m->copy || (m->to == VMM_HOST && m->clean && p->filled);
}

/* Sealed anew where what it holds is known, whether or not it can be mapped next. *content: room for two pages, as for
 * read_page. */
static void look_at(struct vmm *v, struct vmm_range *r, size_t i, const struct vmm_move *m, CUstream stream,
                    char **content) {
    const char *before = *content, *after = *content + page_bytes;
    const struct vmm_page *p = &r->page[i];
    struct vmm_seal *seal = &r->seals[i], was = *seal;
    enum vmm_place from = m->to == VMM_HOST ? VMM_DEVICE : VMM_HOST;
    addr_t page = r->start + i * page_bytes;
    seal->whole = false;
    if (p->frame[from] == NO_FRAME || !read_page(content, 0, vmm_page_alias(v, p, from), stream))
        return;
    bool differs = !is_broken(&was) && sum_of(before) != was.sum, along = comes_along(m, p);
    if (differs)
        tell(v, page, from == VMM_HOST ? "while it lay on the host" : "while it lay on the device", was.kernels);
    if ((!along && !differs) || !read_page(content, page_bytes, vmm_page_alias(v, p, m->to), stream))
        return;
    bool same = memcmp(before, after, page_bytes) == 0;
    if (!same && !differs)
        tell(v, page, "while it was moved", UINT64_MAX);
    if (same ||
        (vmm_copy(vmm_page_alias(v, p, m->to), vmm_page_alias(v, p, from), page_bytes, stream) && vmm_wait(stream)))
        set_seal(seal, before);
}

void vmm_verify_look(struct vmm *v, struct vmm_range *r, size_t first, size_t n, const struct vmm_move *m,
                     CUstream stream) {
    char *content = malloc(2 * page_bytes);
    for (size_t i = first; content && seals_of(r) && i < first + n; i++)
        look_at(v, r, i, m, stream, &content);
    free(content);
}
