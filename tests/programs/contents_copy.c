/* The part with copies and fills of other shapes than a line. */
#include "contents.h"

USE(cuArrayCreate_v2)
USE(cuCtxSynchronize)
USE(cuMemcpyAtoD_v2)
USE(cuMemcpyAtoH_v2)
USE(cuMemcpyDtoA_v2)
USE(cuMemcpyDtoH_v2)
USE(cuMemcpyHtoA_v2)
USE(cuMemcpyHtoD_v2)
USE(cuMemcpy2DUnaligned_v2)
USE(cuMemcpyPeer)
USE(cuMemsetD2D16_v2)

/* What all touch: a piece of a block that ends within a page, in rows that are no multiple of anything. */
enum { BYTES = BLOCK_MIB * MIB, PITCH = 4098, WIDTH = 1038, ROWS = 700, START = MIB - 1234, PIECE = 2 * MIB + 77 };

static unsigned char mirror[BLOCKS][BYTES], *const bytes = (unsigned char *)host;
static CUarray array;

static void judge_bytes(const unsigned char *right, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != right[i]) {
            fprintf(stderr, "%s: byte %zu is %x, not %x\n", what, i, bytes[i], right[i]);
            _exit(1);
        }
}

static void from_array(int i) {
    for (size_t k = 0; k < PIECE; k++)
        mirror[i][START + k] = (unsigned char)(k * 7 + (unsigned)i);
    MUST(cuMemcpyHtoA_v2(array, 5, &mirror[i][START], PIECE));
    MUST(cuMemcpyAtoD_v2(block[i] + START, array, 5, PIECE));
}

static void to_array(int i) {
    MUST(cuMemcpyDtoA_v2(array, 3, block[i] + START, PIECE));
    MUST(cuMemcpyAtoH_v2(host, array, 3, PIECE));
    judge_bytes(&mirror[i][START], PIECE, "array");
}

/* Between the block and the next. */
static void rows(int i) {
    int to = (i + 1) % BLOCKS;
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = block[i] + START,
                       .srcPitch = PITCH,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = block[to] + START,
                       .dstPitch = PITCH,
                       .WidthInBytes = WIDTH,
                       .Height = ROWS};
    MUST(cuMemcpy2DUnaligned_v2(&p));
    for (size_t row = 0; row < ROWS; row++)
        memcpy(&mirror[to][START + row * PITCH], &mirror[i][START + row * PITCH], WIDTH);
}

static void peer(int i) {
    int to = (i + 3) % BLOCKS;
    MUST(cuMemcpyPeer(block[to] + START, context, block[i] + START + 1, context, PIECE));
    memcpy(&mirror[to][START], &mirror[i][START + 1], PIECE);
}

static void fill(int i) {
    unsigned short half = (unsigned short)(0xbe00 + i);
    MUST(cuMemsetD2D16_v2(block[i] + START, PITCH, half, WIDTH / 2, ROWS));
    for (size_t row = 0; row < ROWS; row++)
        for (size_t k = 0; k < WIDTH / 2; k++)
            memcpy(&mirror[i][START + row * PITCH + 2 * k], &half, sizeof half);
}

static void expect_mirror(int i) {
    MUST(cuCtxSynchronize());
    MUST(cuMemcpyDtoH_v2(host, block[i], BYTES));
    judge_bytes(mirror[i], BYTES, "block");
}

/* Each is done to every block while others have taken its place. */
void copies(void) {
    static void (*const ways[])(int) = {from_array, to_array, rows, peer, fill};
    CUDA_ARRAY_DESCRIPTOR line = {.Width = BYTES, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};
    MUST(cuArrayCreate_v2(&array, &line));
    fill_blocks();
    for (int i = 0; i < BLOCKS; i++) {
        for (size_t k = 0; k < BYTES; k++)
            mirror[i][k] = (unsigned char)(k / 511 + 31 * (unsigned)i);
        MUST(cuMemcpyHtoD_v2(block[i], mirror[i], BYTES));
    }
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        for (int i = 0; i < BLOCKS; i++)
            ways[way](i);
        for (int i = 0; i < BLOCKS; i++)
            expect_mirror(i);
    }
}
