#define _GNU_SOURCE
#include "ledger/pool.h"

#include "ledger/word.h"

#include <errno.h>
#include <sys/mman.h>

enum { HUGE_BYTES = 2 << 20, SLAB_BYTES = HUGE_BYTES, SLAB_HEAD = 64 };

struct slab {
    struct slab *older;
};

/* What is large takes whole huge pages: between two launches a program takes ours out of the processor's address cache.
 */
static size_t rounded(size_t bytes) {
    return bytes < HUGE_BYTES / 8 ? bytes : (bytes + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;
}

static void *map(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return pages == MAP_FAILED ? NULL : pages;
}

/* Maps more than is wanted and gives back what lies beside the aligned part. */
static void *map_huge(size_t bytes) {
    char *all = map(bytes + HUGE_BYTES);
    if (!all)
        return NULL;
    size_t before = -(uintptr_t)all % HUGE_BYTES;
    if (before)
        munmap(all, before);
    if (before < HUGE_BYTES)
        munmap(all + before + bytes, HUGE_BYTES - before);
    madvise(all + before, bytes, MADV_HUGEPAGE); /* a hint: without it small pages serve */
    return all + before;
}

void *pages_new(size_t bytes) {
    int kept = errno;
    void *pages = rounded(bytes) % HUGE_BYTES ? map(bytes) : map_huge(rounded(bytes));
    errno = kept;
    return pages;
}

void pages_delete(void *pages, size_t bytes) {
    munmap(pages, rounded(bytes));
}

void pool_lend(struct pool *p, void *memory, size_t bytes, size_t item_bytes) {
    p->room = memory;
    p->unused = bytes / item_bytes;
}

void *pool_take(struct pool *p, size_t item_bytes) {
    void *item = p->spare;
    if (item) {
        p->spare = get_pointer(item);
        return item;
    }
    if (p->unused == 0) {
        struct slab *s = pages_new(SLAB_BYTES);
        if (!s)
            return NULL;
        s->older = p->slabs;
        p->slabs = s;
        p->room = (char *)s + SLAB_HEAD;
        p->unused = (SLAB_BYTES - SLAB_HEAD) / item_bytes;
    }
    return p->room + --p->unused * item_bytes;
}

void pool_give(struct pool *p, void *item) {
    put_pointer(item, p->spare);
    p->spare = item;
}

void pool_clear(struct pool *p) {
    for (struct slab *s = p->slabs, *older; s; s = older) {
        older = s->older;
        pages_delete(s, SLAB_BYTES);
    }
    p->slabs = NULL;
    p->spare = NULL;
    p->room = NULL;
    p->unused = 0;
}
