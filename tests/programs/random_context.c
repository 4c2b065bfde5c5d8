/* A second context, current for a moment: streams and memory are the first one's. */
#include "random_program.h"

enum { BROUGHT = 4 * KIB, BRIEF = 2 * MIB };

void elsewhere(struct actor *a, const struct step *s) {
    struct block brief, *b = operand(a, s->block[0]);
    struct use use = {b, true};
    CUcontext now = NULL;
    int stream = BLOCKING + (int)(s->key % (STREAMS - BLOCKING));
    if (b->bytes < 2 * BROUGHT)
        return;
    block_make(a, &brief, PLAIN, BRIEF, stream);
    host_wait_uses(a, &brief, false);
    order_before(a, stream, &use, 1);
    CU(cuCtxSetCurrent, a->other);
    CU(cuMemcpyDtoDAsync_v2, b->start + BROUGHT, b->start, BROUGHT, a->stream[stream]);
    block_free(a, &brief, stream, 0);
    CU(cuCtxGetCurrent, &now);
    see(a, now == a->other);
    CU(cuCtxSetCurrent, a->context);
    order_after(a, stream, &use, 1);
}
