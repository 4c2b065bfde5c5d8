/* Tensors in an arena, as PyTorch's caching allocator hands them out: at once, in the order of the host; what was used
 * on another stream is waited for by whoever gets it next. It tells its profiler, and so ulms.so. */
#include "framework.h"
#include "random_program.h"

enum { TENSOR_ALIGN = 512 };

/* The tensor that stands in the way of so many bytes, if any. */
static const struct block *in_the_way(const struct actor *a, CUdeviceptr start, uint64_t bytes) {
    for (int i = 0; i < a->blocks; i++) {
        const struct block *t = &a->block[i];
        if (t->kind == TENSOR && t->start && t->start < start + bytes && start < t->start + t->bytes)
            return t;
    }
    return NULL;
}

/* The first place that is large enough; 0: none. */
static CUdeviceptr place(const struct actor *a, uint64_t bytes) {
    CUdeviceptr at = a->arena.start, end = at + a->arena.bytes;
    const struct block *t;
    while (at + bytes <= end && (t = in_the_way(a, at, bytes)))
        at = (t->start + t->bytes + TENSOR_ALIGN - 1) & ~(CUdeviceptr)(TENSOR_ALIGN - 1);
    return at + bytes <= end ? at : 0;
}

/* Smaller where the arena is too full. */
void tensor_make(struct actor *a, struct block *b) {
    while (!(b->start = place(a, b->bytes)) && b->bytes > TENSOR_ALIGN)
        b->bytes = b->bytes / 2 & ~(TENSOR_ALIGN - 1ull);
    if (!b->start) {
        b->kind = PLAIN;
        CU(cuMemAlloc_v2, &b->start, b->bytes);
        return;
    }
    report(b->start, (int64_t)b->bytes);
    order_inherit(b, &a->arena);
}

void tensor_free(struct actor *a, struct block *b) {
    report(b->start, -(int64_t)b->bytes);
    order_inherit(&a->arena, b);
}
