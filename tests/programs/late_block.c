/* An allocator tells that a block has gone only once others were given its place, as CuPy's does where another thread
 * freed it. Prints what one of those holds: the same without ulms.so. */
#define _GNU_SOURCE
#include <stdio.h>

#include "device.h"
#include "framework.h"

USE(cuMemAlloc_v2)
USE(cuMemsetD8Async)
USE(cuMemcpyDtoH_v2)
USE(cuStreamSynchronize)

enum { PART = 4 << 20, BLOCK = 2 * PART, OTHERS = 4 };

static CUstream stream;

static void set(CUdeviceptr p, unsigned char value) {
    MUST(cuMemsetD8Async(p, value, BLOCK, stream));
    MUST(cuStreamSynchronize(stream));
}

/* More than fits comes and goes. */
static void crowd_out(const CUdeviceptr other[OTHERS]) {
    for (int i = 0; i < 2 * OTHERS; i++)
        set(other[i % OTHERS], 1);
}

int main(void) {
    CUdeviceptr arena, other[OTHERS];
    unsigned char value;
    use_device();
    stream = new_stream();
    MUST(cuMemAlloc_v2(&arena, 2 * BLOCK));
    CUdeviceptr late = arena + PART, kept = late + PART;
    report(late, BLOCK);
    report(arena, BLOCK);
    report(kept, BLOCK);
    for (int i = 0; i < OTHERS; i++)
        MUST(cuMemAlloc_v2(&other[i], BLOCK));
    crowd_out(other);
    set(kept, 7);
    report(arena, -BLOCK);
    report(late, -BLOCK);
    crowd_out(other);
    MUST(cuMemcpyDtoH_v2(&value, kept, 1));
    printf("%d\n", value);
    return 0;
}
