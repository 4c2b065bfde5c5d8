/* Steps: drawn, and done. */
#include "random_program.h"

#include <stdlib.h>
#include <unistd.h>

extern __typeof__(*(pfn_nvmlDeviceGetMemoryInfo)NULL) nvmlDeviceGetMemoryInfo;
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);

enum { HOST_BYTES = 64 * KIB, PAUSE_US = 200, LAPS = 16 };

/* --- drawn --- */

void step_draw(struct actor *a, struct step *s, enum step_kind kind) {
    int first = (int)random_below(a, (uint64_t)a->blocks);
    *s = (struct step){.kind = kind,
                       .stream = (int)random_below(a, STREAMS),
                       .block = {first, (first + 1) % a->blocks, (first + 2) % a->blocks},
                       .part = one_in(a, 5) ? 256 : 1 + (uint32_t)random_below(a, 160),
                       .place = (uint32_t)random_below(a, 257),
                       .key = (uint32_t)random_below(a, UINT32_MAX),
                       .form = (uint32_t)random_below(a, 1 << 16)};
    int host = OPERAND_HOST + (int)random_below(a, HOSTS), pinned = OPERAND_HOST + (int)random_below(a, HOSTS - 1);
    if (kind == STEP_MIX && one_in(a, 5))
        s->block[1] = one_in(a, 2) ? pinned : OPERAND_COMMON;
    else if (kind == STEP_BLEND && one_in(a, 3))
        s->block[2] = OPERAND_COMMON;
    else if (kind == STEP_COPY && one_in(a, 5))
        s->block[1] = OPERAND_COMMON;
    else if (kind == STEP_COPY_IN)
        s->block[1] = host;
    else if (kind == STEP_COPY_OUT || kind == STEP_HOST_READ || kind == STEP_HOST_WRITE)
        s->block[0] = host;
    else if (kind == STEP_HOST_FUNCTION)
        s->block[0] = pinned;
}

/* --- done: what is more than one work, or none --- */

static void host_read(struct actor *a, const struct step *s) {
    const struct block *b = operand(a, s->block[0]);
    host_wait_uses(a, b, true);
    see(a, hash_bytes((const void *)(uintptr_t)b->start, HOST_BYTES, s->key));
}

static void host_write(struct actor *a, const struct step *s) {
    const struct block *b = operand(a, s->block[0]);
    uint32_t *at = (uint32_t *)(uintptr_t)b->start;
    host_wait_uses(a, b, false);
    for (uint32_t i = 0; i < HOST_BYTES / 4; i++)
        at[i] += s->key ^ i;
}

static struct block *managed(struct actor *a, int from) {
    for (int i = 0; i < a->blocks; i++) {
        struct block *b = operand(a, (from + i) % a->blocks);
        if (b->kind == MANAGED)
            return b;
    }
    return NULL;
}

static void managed_host(struct actor *a, const struct step *s) {
    struct block *b = managed(a, s->block[0]);
    if (!b)
        return;
    uint32_t *at = (uint32_t *)(uintptr_t)b->start;
    uint64_t words = b->bytes / 4, from = words * s->place / 512;
    host_wait_uses(a, b, false);
    for (uint64_t i = from; i < words; i += words / 64 + 1) {
        see(a, at[i]);
        at[i] = at[i] * 3 + s->key;
    }
}

static void managed_advice(struct actor *a, const struct step *s) {
    static const CUmem_advise advice[] = {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY,
                                          CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_SET_ACCESSED_BY};
    const CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    struct block *b = managed(a, s->block[0]);
    if (!b)
        return;
    if (s->form % 2) {
        struct use use = {b, false};
        order_before(a, s->stream, &use, 1);
        CU(cuMemPrefetchAsync_v2, b->start, b->bytes, s->form % 4 == 1 ? host : device, 0, a->stream[s->stream]);
        order_after(a, s->stream, &use, 1);
    } else {
        CU(cuMemAdvise_v2, b->start, b->bytes, advice[s->form / 2 % 4], device);
    }
}

/* Freed, and allocated again: of the same size, or of another. */
static void renew(struct actor *a, const struct step *s) {
    struct block *b = operand(a, s->block[0]);
    enum block_kind kind = b->kind;
    uint64_t bytes = b->bytes;
    if (s->form % 2) {
        uint64_t most = a->target > a->live ? bytes + a->target - a->live : bytes;
        most = most < a->target / 2 ? most : a->target / 2;
        bytes = (2ull * MIB + random_below(a, most > 2ull * MIB ? most - 2ull * MIB : 1)) & ~511ull;
        kind = s->form % 8 == 1 ? (enum block_kind)random_below(a, KINDS) : kind;
    }
    if (kind == PITCH && bytes != b->bytes)
        kind = PLAIN;
    block_free(a, b, s->stream, s->form);
    if (b->kind == PITCH && bytes == b->bytes)
        kind = one_in(a, 2) ? PLAIN : ASYNC;
    block_make(a, b, kind, bytes, s->stream);
}

static void do_mix(struct actor *a, const struct step *s, struct block *y, struct block *x) {
    uint64_t words = (y->bytes < x->bytes ? y->bytes : x->bytes) / 4;
    struct work w = {.kind = WORK_LAUNCH, .use = {{y, true}, {x, false}}, .uses = 2};
    w.arguments = kernel_mix(y->start, x->start, words, s->key);
    work_issue(a, s, &w, s->stream);
}

/* A block that lives for two works. */
static void temporary(struct actor *a, const struct step *s) {
    static const enum block_kind kinds[] = {ASYNC, TENSOR, ASYNC, POOL, PLAIN, TENSOR};
    struct block b, *other = operand(a, s->block[0]);
    uint64_t bytes = (64 * KIB + s->part * 24ull * KIB * a->shape / 16) & ~511ull;
    block_make(a, &b, kinds[s->form % 6], bytes, s->stream);
    do_mix(a, s, &b, other);
    do_mix(a, s, other, &b);
    block_free(a, &b, s->stream, s->form);
}

/* What the management library tells. */
static void ask_library(struct actor *a) {
    nvmlDevice_t device;
    nvmlMemory_t memory = {0};
    if (nvmlDeviceGetHandleByIndex_v2(0, &device) || nvmlDeviceGetMemoryInfo(device, &memory))
        abort();
    see(a, memory.free + memory.used == memory.total);
}

static void question(struct actor *a, const struct step *s) {
    struct block *b = operand(a, s->block[0]);
    CUdeviceptr base = 0, inside = b->start + b->bytes * s->place / 300;
    size_t bytes = 0, unused = 0, total = 0;
    unsigned type = 0, managed = 7;
    int ordinal = -1;
    if (s->form % 2) {
        CU(cuPointerGetAttribute, &type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside);
        CU(cuPointerGetAttribute, &managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, inside);
        CU(cuPointerGetAttribute, &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside);
    } else {
        CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
        void *answers[] = {&managed, &type, &ordinal};
        CU(cuPointerGetAttributes, 3, asked, answers, inside);
    }
    CU(cuMemGetAddressRange_v2, &base, &bytes, inside);
    CU(cuMemGetInfo_v2, &unused, &total);
    see(a, type);
    see(a, managed & 0xff);
    see(a, (uint64_t)ordinal);
    see(a, inside - base);
    see(a, bytes);
    see(a, unused <= total);
    if (s->form % 4)
        ask_library(a);
}

/* Calls that fail in every driver: the program has to be told the same. */
static void error(struct actor *a, const struct step *s) {
    CUdeviceptr p;
    struct block *b = operand(a, s->block[0]);
    switch (s->form % 5) {
    case 0:
        see(a, TRY(cuMemAlloc_v2, &p, 0));
        break;
    case 1:
        see(a, TRY(cuMemAlloc_v2, &p, (size_t)1 << 46));
        break;
    case 2:
        see(a, TRY(cuMemFree_v2, b->start + 512));
        break;
    case 3:
        see(a, TRY(cuMemAllocAsync, &p, (size_t)1 << 46, a->stream[s->stream]));
        break;
    default:
        see(a, TRY(cuMemAllocManaged, &p, b->bytes, 0));
    }
}

/* Works behind a word that a stream writes later. Of what comes between, nothing may wait for them. Few: whoever holds
 * the thread until the device is done holds it for nothing, and finds out by the clock only. */
static void gate(struct actor *a, const struct step *s) {
    static const enum step_kind kinds[] = {STEP_MIX, STEP_BLEND, STEP_FUSED, STEP_MEMSET, STEP_COPY};
    if (a->gates == a->gates_most)
        return;
    a->gates++;
    a->no_waiting = true;
    away_bound(1);
    CU(cuStreamWaitValue32_v2, a->stream[FREE], a->word.start, a->gates, CU_STREAM_WAIT_VALUE_GEQ);
    for (uint32_t i = 0; i <= s->form % 4; i++) {
        struct step behind;
        step_draw(a, &behind, kinds[random_below(a, 5)]);
        behind.stream = FREE;
        work_do(a, &behind);
    }
    CU(cuStreamWriteValue32_v2, a->stream[SECOND_FREE], a->word.start, a->gates, 0);
    away_bound(-1);
    a->no_waiting = false;
}

void step_run(struct actor *a, const struct step *s) {
    switch (s->kind) {
    case STEP_GRAPH:
        graph_run(a, &a->graph[s->key % (uint32_t)a->graphs], s->stream, s->form);
        break;
    case STEP_HOST_READ:
        host_read(a, s);
        break;
    case STEP_HOST_WRITE:
        host_write(a, s);
        break;
    case STEP_MANAGED_HOST:
        managed_host(a, s);
        break;
    case STEP_MANAGED_ADVICE:
        managed_advice(a, s);
        break;
    case STEP_RENEW:
        renew(a, s);
        break;
    case STEP_TEMPORARY:
        temporary(a, s);
        break;
    case STEP_NEW_STREAM:
        stream_renew(a, BLOCKING + (int)(s->key % (STREAMS - BLOCKING)));
        break;
    case STEP_QUESTION:
        question(a, s);
        break;
    case STEP_ERROR:
        error(a, s);
        break;
    case STEP_WAIT:
        if (s->form % 4 == 0)
            host_wait_all(a);
        else
            host_wait_stream(a, s->stream, s->form / 4);
        break;
    case STEP_PAUSE:
        usleep((useconds_t)(s->key % PAUSE_US));
        break;
    case STEP_GATE:
        gate(a, s);
        break;
    case STEP_ARRAY:
        array_pass(a, s);
        break;
    case STEP_ELSEWHERE:
        elsewhere(a, s);
        break;
    default:
        work_do(a, s);
    }
}

void step_sweep(struct actor *a) {
    int least = 0;
    for (int i = 1; i < a->blocks; i++)
        least = a->block[i].bytes < a->block[least].bytes ? i : least;
    for (int lap = 0; lap < LAPS; lap++)
        for (int i = 0; i < a->blocks; i++) {
            struct step s = {.kind = i % 2 ? STEP_MIX : STEP_COPY,
                             .stream = FREE,
                             .block = {least, i},
                             .part = 256,
                             .key = (uint32_t)(lap * BLOCKS + i)};
            if (i != least)
                work_do(a, &s);
        }
}
