/* The actor's memory: allocated in every way there is, freed likewise, filled at once, summed up at the end. */
#include "random_program.h"

#include <stdlib.h>
#include <string.h>

enum { ROW = 3000 };

const char *const kind_names[] = {"plain",  "pitch",  "async",  "pool",    "managed",
                                  "tensor", "handle", "pinned", "pageable"};

uint64_t hash_bytes(const void *p, uint64_t bytes, uint64_t hash) {
    const unsigned char *at = p;
    uint64_t word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * 0x9fb21c651e98df25ull;
        hash ^= hash >> 29;
    }
    for (; bytes; bytes--)
        hash = (hash ^ *at++) * 0x100000001b3ull;
    return hash;
}

static void take(struct actor *a, struct block *b, int stream) {
    struct use fresh = {b, true};
    switch (b->kind) {
    case PLAIN:
        CU(cuMemAlloc_v2, &b->start, b->bytes);
        break;
    case PITCH: {
        size_t pitch, rows = b->bytes / ROW;
        CU(cuMemAllocPitch_v2, &b->start, &pitch, ROW, rows, 4);
        b->bytes = pitch * rows;
        break;
    }
    case ASYNC:
        order_before(a, stream, NULL, 0);
        if (stream == PER_THREAD && one_in(a, 2))
            CU(cuMemAllocAsync_ptsz, &b->start, b->bytes, NULL);
        else
            CU(cuMemAllocAsync, &b->start, b->bytes, a->stream[stream]);
        order_after(a, stream, &fresh, 1);
        break;
    case POOL:
        order_before(a, stream, NULL, 0);
        CU(cuMemAllocFromPoolAsync, &b->start, b->bytes, a->pool, a->stream[stream]);
        order_after(a, stream, &fresh, 1);
        break;
    case MANAGED:
        CU(cuMemAllocManaged, &b->start, b->bytes, CU_MEM_ATTACH_GLOBAL);
        break;
    case TENSOR:
        tensor_make(a, b);
        break;
    case HANDLE:
        handle_make(a, b);
        break;
    case PINNED: {
        void *p;
        CU(cuMemHostAlloc, &p, b->bytes, 0);
        b->start = (CUdeviceptr)(uintptr_t)p;
        break;
    }
    default:
        b->start = (CUdeviceptr)(uintptr_t)malloc(b->bytes);
        if (!b->start)
            abort();
    }
}

static bool on_host(const struct block *b) {
    return b->kind == PINNED || b->kind == PAGEABLE;
}

/* Device memory that the driver gave for it. */
static uint64_t counted(const struct block *b) {
    return on_host(b) || b->kind == TENSOR ? 0 : b->bytes;
}

void block_make(struct actor *a, struct block *b, enum block_kind kind, uint64_t bytes, int stream) {
    if (kind == TENSOR && !a->arena.start)
        kind = PLAIN;
    *b = (struct block){.kind = kind, .bytes = bytes, .version = ++a->versions};
    take(a, b, stream);
    if (on_host(b)) {
        memset((void *)(uintptr_t)b->start, 7, b->bytes);
        return;
    }
    a->live += counted(b);
    a->peak = a->live > a->peak ? a->live : a->peak;
    if (kind == MANAGED && one_in(a, 2))
        memset((void *)(uintptr_t)b->start, 9, b->bytes);
    else
        block_fill(a, b, stream, (uint32_t)random_below(a, UINT32_MAX));
}

void block_fill(struct actor *a, struct block *b, int stream, uint32_t value) {
    struct use all = {b, true};
    order_before(a, stream, &all, 1);
    CU(cuMemsetD32Async, b->start, value, b->bytes / 4, a->stream[stream]);
    order_after(a, stream, &all, 1);
}

void block_free(struct actor *a, struct block *b, int stream, uint32_t form) {
    struct use all = {b, true};
    if (on_host(b)) {
        host_wait_uses(a, b, false);
        if (b->kind == PINNED)
            CU(cuMemFreeHost, (void *)(uintptr_t)b->start);
        else
            free((void *)(uintptr_t)b->start);
    } else if (b->kind == TENSOR) {
        tensor_free(a, b);
    } else if (b->kind == HANDLE) {
        handle_free(a, b, form);
    } else if ((b->kind == ASYNC || b->kind == POOL) && form % 4 != 0) {
        order_before(a, stream, &all, 1);
        if (stream == PER_THREAD && form % 2)
            CU(cuMemFreeAsync_ptsz, b->start, NULL);
        else
            CU(cuMemFreeAsync, b->start, a->stream[stream]);
        order_after(a, stream, &all, 1);
    } else {
        if (b->kind == ASYNC || b->kind == POOL || form % 3 == 0) /* of others the driver itself waits for all work */
            host_wait_uses(a, b, false);
        CU(cuMemFree_v2, b->start);
    }
    a->live -= counted(b);
    b->start = 0;
}

/* A line with the hash of the content. The last word on whether nothing was lost. */
void block_print(struct actor *a, struct block *b, const char *name, int number) {
    uint64_t hash = 0;
    void *piece = (void *)(uintptr_t)a->host_block[0].start;
    host_wait_uses(a, b, false);
    host_wait_uses(a, &a->host_block[0], false);
    for (uint64_t at = 0; at < b->bytes; at += PIECE) {
        uint64_t bytes = b->bytes - at < PIECE ? b->bytes - at : PIECE;
        CU(cuMemcpyDtoH_v2, piece, b->start + at, bytes);
        hash = hash_bytes(piece, bytes, hash);
    }
    fprintf(a->out, "%s %d.%d %s %llu %016llx\n", name, a->number, number, kind_names[b->kind],
            (unsigned long long)b->bytes, (unsigned long long)hash);
}

/* --- all of them --- */

static uint64_t some_size(struct actor *a, uint64_t left) {
    uint64_t most = a->target / 3 < 40ull * MIB ? a->target / 3 : 40ull * MIB;
    uint64_t bytes = 2ull * MIB + random_below(a, most > 2ull * MIB ? most - 2ull * MIB : 1);
    bytes = bytes < left ? bytes : left;
    return one_in(a, 3) ? bytes & ~(2ull * MIB - 1) : bytes & ~511ull;
}

static enum block_kind some_kind(struct actor *a) {
    static const enum block_kind drawn[] = {PLAIN, PLAIN,   PLAIN,  PITCH,  ASYNC,  ASYNC,
                                            POOL,  MANAGED, TENSOR, TENSOR, HANDLE, HANDLE};
    return drawn[random_below(a, sizeof drawn / sizeof *drawn)];
}

void blocks_make(struct actor *a) {
    for (int i = 0; i < HOSTS; i++)
        block_make(a, &a->host_block[i], i == HOSTS - 1 ? PAGEABLE : PINNED, PIECE, LEGACY);
    block_make(a, &a->table, PLAIN, one_in(a, 2) ? 2 * MIB : 4 * KIB, LEGACY);
    block_make(a, &a->word, PLAIN, 64 * KIB, LEGACY);
    block_fill(a, &a->word, LEGACY, 0);
    host_wait_uses(a, &a->word, false);
    if (one_in(a, 2))
        block_make(a, &a->arena, PLAIN, a->target / 2 & ~(2ull * MIB - 1), LEGACY);
    while (a->blocks < BLOCKS && (a->blocks < 3 || a->target > a->live + 2ull * MIB)) {
        uint64_t left = a->target > a->live + 2ull * MIB ? a->target - a->live : 2ull * MIB;
        block_make(a, &a->block[a->blocks++], some_kind(a), some_size(a, left), (int)random_below(a, STREAMS));
    }
}

void blocks_free(struct actor *a) {
    for (int i = 0; i < a->blocks; i++)
        block_free(a, &a->block[i], (int)random_below(a, STREAMS), (uint32_t)random_below(a, 16));
    if (a->arena.start)
        block_free(a, &a->arena, LEGACY, 0);
    block_free(a, &a->word, LEGACY, 0);
    block_free(a, &a->table, LEGACY, 0);
    for (int i = 0; i < HOSTS; i++)
        block_free(a, &a->host_block[i], LEGACY, 0);
}
