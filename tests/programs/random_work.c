/* A step made concrete, and given to a stream by one of the calls that do the same. */
#include "random_program.h"

#include <string.h>

enum { MOST = 4 * MIB, CALLBACK_WORDS = 1024 };

struct range {
    CUdeviceptr start;
    uint64_t bytes;
};

struct block *operand(struct actor *a, int number) {
    if (number < OPERAND_HOST)
        return &a->block[number % a->blocks];
    return number < OPERAND_COMMON ? &a->host_block[number - OPERAND_HOST] : &a->common;
}

/* The part of the block that the step means, no longer than `most`, as this iteration's shape has it. */
static struct range range_of(const struct actor *a, const struct step *s, const struct block *b, uint64_t most) {
    uint64_t bytes = b->bytes * s->part / 256 * a->shape / 16;
    bytes = (bytes < most ? bytes : most) & ~63ull;
    bytes = bytes < 64 ? 64 : bytes;
    uint64_t offset = (b->bytes - bytes) * s->place / 256;
    return (struct range){b->start + (offset & (s->place % 2 ? ~3ull : ~255ull)), bytes};
}

static void uses(struct work *w, struct block *b, bool writes) {
    w->use[w->uses++] = (struct use){b, writes};
}

/* --- hidden pointers --- */

/* Where in the block the table points to. */
static struct range pointed_range(struct actor *a, int i) {
    struct block *b = &a->block[a->pointed[i]];
    uint64_t offset = (b->bytes / 8 * (uint64_t)i) & ~63ull;
    return (struct range){b->start + offset, b->bytes - offset};
}

uint64_t work_pointed_version(const struct actor *a) {
    uint64_t sum = 0;
    for (int i = 0; i < POINTERS; i++)
        sum = sum * 31 + a->block[a->pointed[i]].version;
    return sum;
}

void work_point(struct actor *a) {
    CUdeviceptr to[POINTERS];
    if (a->pointed_version == work_pointed_version(a))
        return;
    for (int i = 0; i < POINTERS; i++)
        to[i] = pointed_range(a, i).start;
    host_wait_uses(a, &a->table, false);
    CU(cuMemcpyHtoD_v2, a->table.start, to, sizeof to);
    CU(cuMemcpyHtoD_v2, a->hidden, to, sizeof *to);
    a->pointed_version = work_pointed_version(a);
}

/* --- prepare --- */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void prepare_pointers(struct actor *a, const struct step *s, struct work *w) {
    struct block *b = operand(a, s->block[0]);
    struct range r = range_of(a, s, b, UINT64_MAX);
    int kernel = s->kind == STEP_GATHER ? GATHER : s->kind == STEP_SCATTER ? SCATTER : HIDDEN;
    int behind = kernel == HIDDEN ? 1 : POINTERS;
    for (int i = 0; i < behind; i++) {
        r.bytes = least(r.bytes, pointed_range(a, i).bytes);
        uses(w, &a->block[a->pointed[i]], kernel != GATHER);
    }
    uses(w, &a->table, false);
    uses(w, b, kernel == GATHER);
    w->arguments = kernel == HIDDEN ? kernel_hidden(r.start, r.bytes / 4, s->key)
                                    : kernel_table(kernel, r.start, a->table.start, r.bytes / 4, s->key);
}

static void prepare_kernel(struct actor *a, const struct step *s, struct work *w) {
    struct block *b[3];
    struct range r[3];
    uint64_t words = UINT64_MAX;
    int n = s->kind == STEP_OVERWRITE ? 1 : s->kind == STEP_MIX ? 2 : 3;
    for (int i = 0; i < n; i++) {
        b[i] = operand(a, s->block[i]);
        r[i] = range_of(a, s, b[i], s->kind == STEP_OVERWRITE ? MOST / 4 : UINT64_MAX);
        words = least(words, r[i].bytes / 4);
        uses(w, b[i], i == 0 || s->kind == STEP_FUSED);
    }
    if (s->kind == STEP_MIX) {
        w->arguments = kernel_mix(r[0].start, r[1].start, words, s->key);
    } else if (s->kind == STEP_BLEND) {
        w->arguments = kernel_blend(r[0].start, r[1].start, r[2].start, words, s->key);
    } else if (s->kind == STEP_OVERWRITE) {
        w->arguments = kernel_overwrite(r[0].start, words, s->key);
    } else {
        CUdeviceptr start[] = {r[0].start, r[1].start, r[2].start};
        uint64_t all[] = {r[0].bytes / 4, r[1].bytes / 4, r[2].bytes / 4};
        w->arguments = kernel_fused(start, all, 3, s->key);
    }
}

static void prepare_memset(struct actor *a, const struct step *s, struct work *w) {
    static const unsigned sizes[] = {1, 2, 4};
    struct block *b = operand(a, s->block[0]);
    struct range r = range_of(a, s, b, MOST);
    unsigned element = sizes[s->key % 3];
    w->kind = WORK_MEMSET;
    w->memset = (CUDA_MEMSET_NODE_PARAMS){.dst = r.start,
                                          .value = s->key >> (32 - 8 * element),
                                          .elementSize = element,
                                          .width = r.bytes / element,
                                          .height = 1};
    uses(w, b, true);
}

/* Rows far apart: what lies between them is not touched. */
static uint64_t some_pitch(const struct step *s, uint64_t bytes) {
    static const uint64_t pitches[] = {5 * MIB / 2, MIB, 100 * KIB, 4 * KIB, 2 * MIB};
    uint64_t pitch = pitches[s->key % 5];
    while (pitch > 256 && bytes < 2 * pitch)
        pitch = (pitch / 4) & ~255ull;
    return pitch < 256 ? 256 : pitch;
}

static void prepare_rows(struct actor *a, const struct step *s, struct work *w) {
    struct block *b = operand(a, s->block[0]);
    struct range r = range_of(a, s, b, UINT64_MAX);
    uint64_t pitch = some_pitch(s, r.bytes), height = least(r.bytes / pitch, 32);
    w->kind = WORK_MEMSET;
    w->memset = (CUDA_MEMSET_NODE_PARAMS){.dst = r.start,
                                          .pitch = pitch,
                                          .value = s->key & 0xff,
                                          .elementSize = s->key % 2 ? 1 : 4,
                                          .width = least(pitch, 128 * KIB) / 8,
                                          .height = height ? height : 1};
    w->memset.width -= r.bytes < pitch ? w->memset.width - least(w->memset.width, r.bytes / 4) : 0;
    uses(w, b, true);
}

static void set_side(struct work *w, struct block *b, CUdeviceptr start, bool to) {
    bool host = b->kind == PINNED || b->kind == PAGEABLE;
    CUmemorytype type = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    if (to) {
        w->copy.dstMemoryType = type;
        w->copy.dstHost = (void *)(uintptr_t)(host ? start : 0);
        w->copy.dstDevice = host ? 0 : start;
    } else {
        w->copy.srcMemoryType = type;
        w->copy.srcHost = (void *)(uintptr_t)(host ? start : 0);
        w->copy.srcDevice = host ? 0 : start;
    }
    uses(w, b, to);
}

static void prepare_copy(struct actor *a, const struct step *s, struct work *w) {
    struct block *to = operand(a, s->block[0]), *from = operand(a, s->block[1]);
    struct range r = range_of(a, s, to, MOST), q = range_of(a, s, from, MOST);
    uint64_t bytes = least(r.bytes, q.bytes);
    w->kind = WORK_COPY;
    w->copy = (CUDA_MEMCPY3D){.Depth = 1,
                              .Height = 1,
                              .WidthInBytes = bytes,
                              .srcPitch = bytes,
                              .dstPitch = bytes,
                              .srcHeight = 1,
                              .dstHeight = 1};
    if (s->kind == STEP_COPY_ROWS) {
        r = range_of(a, s, to, UINT64_MAX);
        q = range_of(a, s, from, UINT64_MAX);
        struct step other = {.key = s->key / 5};
        w->copy.dstPitch = some_pitch(s, r.bytes);
        w->copy.srcPitch = some_pitch(&other, q.bytes);
        w->copy.WidthInBytes = least(least(w->copy.dstPitch, w->copy.srcPitch) / 2, least(64 * KIB, bytes));
        w->copy.Height = least(32, least(r.bytes / w->copy.dstPitch, q.bytes / w->copy.srcPitch));
        w->copy.Height += w->copy.Height == 0;
        w->copy.dstHeight = w->copy.srcHeight = w->copy.Height;
    }
    set_side(w, to, r.start, true);
    set_side(w, from, q.start, false);
}

static void callback(void *data) {
    const struct block *b = data;
    uint32_t *at = (uint32_t *)(uintptr_t)b->start;
    for (int i = 0; i < CALLBACK_WORDS; i++)
        at[i] = at[i] * 0x85ebca6bu + (uint32_t)i;
}

static void prepare_callback(struct actor *a, const struct step *s, struct work *w) {
    struct block *b = operand(a, s->block[0]);
    w->kind = WORK_HOST;
    w->host = (CUDA_HOST_NODE_PARAMS){callback, b};
    uses(w, b, true);
}

void work_prepare(struct actor *a, const struct step *s, struct work *w) {
    *w = (struct work){.kind = WORK_LAUNCH};
    switch (s->kind) {
    case STEP_GATHER:
    case STEP_SCATTER:
    case STEP_HIDDEN:
        prepare_pointers(a, s, w);
        break;
    case STEP_MEMSET:
        prepare_memset(a, s, w);
        break;
    case STEP_MEMSET_ROWS:
        prepare_rows(a, s, w);
        break;
    case STEP_COPY:
    case STEP_COPY_ROWS:
    case STEP_COPY_IN:
    case STEP_COPY_OUT:
        prepare_copy(a, s, w);
        break;
    case STEP_HOST_FUNCTION:
        prepare_callback(a, s, w);
        break;
    default:
        prepare_kernel(a, s, w);
    }
}
