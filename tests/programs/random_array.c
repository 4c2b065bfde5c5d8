/* An array: memory without an address. What lists of copies bring there and back is counted in its elements. */
#include "random_program.h"

enum { WIDTH = 1024, ROWS = 8, ELEMENT = 8, BYTES = WIDTH * ROWS * ELEMENT };

void array_make(struct actor *a) {
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = WIDTH, .Height = ROWS, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    CU(cuArray3DCreate_v2, &a->array, &d);
}

void array_free(struct actor *a) {
    CU(cuArrayDestroy, a->array);
}

static CUmemcpy3DOperand part(const struct step *s, const struct block *b) {
    uint64_t offset = ((b->bytes - BYTES) * s->place / 256) & ~255ull;
    return (CUmemcpy3DOperand){.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = b->start + offset}};
}

void array_pass(struct actor *a, const struct step *s) {
    struct block *to = operand(a, s->block[0]), *from = operand(a, s->block[1]);
    struct use use[] = {{to, true}, {from, false}, {&a->in_array, true}};
    CUmemcpy3DOperand array = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {.array = a->array}};
    CUDA_MEMCPY3D_BATCH_OP copy = {.src = part(s, from),
                                   .dst = array,
                                   .extent = {WIDTH, ROWS, 1},
                                   .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    int stream = s->stream == LEGACY ? FREE : s->stream; /* which takes no lists */
    if (to->bytes < BYTES || from->bytes < BYTES)
        return;
    order_before(a, stream, use, 3);
    CU(cuMemcpy3DBatchAsync_v2, 1, &copy, 0, a->stream[stream]);
    copy.src = array;
    copy.dst = part(s, to);
    CU(cuMemcpy3DBatchAsync_v2, 1, &copy, 0, a->stream[stream]);
    order_after(a, stream, use, 3);
}
