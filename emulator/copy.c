#include "copy.h"

#include "array.h"
#include "capture.h"
#include "managed.h"

#include <stdlib.h>
#include <string.h>

/* Up to so many bytes from pageable memory go into the command itself: nobody waits. */
enum { INLINE_BYTES = 64 << 10 };

struct copy copy_line(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, uint64_t bytes) {
    return (struct copy){.from = {.type = from_type, .address = from},
                         .to = {.type = to_type, .address = to},
                         .width = bytes,
                         .height = 1,
                         .depth = 1};
}

static uint64_t side_address(CUmemorytype type, const void *host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)host : device;
}

/* What both structures tell of one end. */
#define SIDE(p, end)                                                                                                   \
    {.type = (p)->end##MemoryType,                                                                                     \
     .address = side_address((p)->end##MemoryType, (p)->end##Host, (p)->end##Device),                                  \
     .array = (p)->end##Array,                                                                                         \
     .pitch = (p)->end##Pitch,                                                                                         \
     .x = (p)->end##XInBytes,                                                                                          \
     .y = (p)->end##Y}

struct copy copy_of_2d(const CUDA_MEMCPY2D *p) {
    return (struct copy){
        .from = SIDE(p, src), .to = SIDE(p, dst), .width = p->WidthInBytes, .height = p->Height, .depth = 1};
}

struct copy copy_of_3d(const CUDA_MEMCPY3D *p) {
    struct copy y = {
        .from = SIDE(p, src), .to = SIDE(p, dst), .width = p->WidthInBytes, .height = p->Height, .depth = p->Depth};
    y.from.rows = p->srcHeight;
    y.from.z = p->srcZ;
    y.to.rows = p->dstHeight;
    y.to.z = p->dstZ;
    return y;
}

CUDA_MEMCPY3D copy_to_3d(const struct copy *y) {
    const struct side *from = &y->from, *to = &y->to;
    bool from_host = from->type == CU_MEMORYTYPE_HOST, to_host = to->type == CU_MEMORYTYPE_HOST;
    return (CUDA_MEMCPY3D){.srcMemoryType = from->type,
                           .srcHost = from_host ? (const void *)(uintptr_t)from->address : NULL,
                           .srcDevice = from_host ? 0 : from->address,
                           .srcArray = from->array,
                           .srcPitch = from->pitch,
                           .srcHeight = from->rows,
                           .srcXInBytes = from->x,
                           .srcY = from->y,
                           .srcZ = from->z,
                           .dstMemoryType = to->type,
                           .dstHost = to_host ? (void *)(uintptr_t)to->address : NULL,
                           .dstDevice = to_host ? 0 : to->address,
                           .dstArray = to->array,
                           .dstPitch = to->pitch,
                           .dstHeight = to->rows,
                           .dstXInBytes = to->x,
                           .dstY = to->y,
                           .dstZ = to->z,
                           .WidthInBytes = y->width,
                           .Height = y->height,
                           .Depth = y->depth};
}

/* Bytes it moves. */
static uint64_t copy_bytes(const struct copy *y) {
    return y->width * y->height * y->depth;
}

/* --- sides --- */

static uint64_t side_pitch(const struct side *s, const struct copy *y) {
    return s->type == CU_MEMORYTYPE_ARRAY ? s->array->pitch : s->pitch ? s->pitch : y->width;
}

static uint64_t side_rows(const struct side *s, const struct copy *y) {
    return s->type == CU_MEMORYTYPE_ARRAY ? s->array->rows : s->rows ? s->rows : y->height;
}

/* Where in it the copy begins. */
static uint64_t side_offset(const struct side *s, const struct copy *y) {
    return (s->z * side_rows(s, y) + s->y) * side_pitch(s, y) + s->x;
}

/* From its first byte to its last, with the gaps. */
static uint64_t side_extent(const struct side *s, const struct copy *y) {
    uint64_t pitch = side_pitch(s, y);
    return ((y->depth - 1) * side_rows(s, y) + y->height - 1) * pitch + y->width;
}

/* True for host memory that the device cannot reach. */
static bool side_pageable(const struct side *s) {
    struct area a;
    return (s->type == CU_MEMORYTYPE_HOST || s->type == CU_MEMORYTYPE_UNIFIED) && !area_find(s->address, &a) &&
           !memory_holds(s->address, 1);
}

static CUresult check_side(const struct side *s, const struct copy *y) {
    uint64_t start = s->address + (s->type == CU_MEMORYTYPE_ARRAY ? 0 : side_offset(s, y));
    switch (s->type) {
    case CU_MEMORYTYPE_ARRAY:
        if (!s->array)
            return CUDA_ERROR_INVALID_HANDLE;
        return s->x + y->width <= s->array->pitch && s->y + y->height <= s->array->rows &&
                       s->z + y->depth <= s->array->layers
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    case CU_MEMORYTYPE_HOST: /* the driver takes the device's, too */
    case CU_MEMORYTYPE_UNIFIED:
        if (side_pageable(s))
            return s->address ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        /* fall through */
    case CU_MEMORYTYPE_DEVICE:
        return memory_reaches(start, side_extent(s, y)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult copy_check(const struct copy *y) {
    if (copy_bytes(y) == 0)
        return CUDA_SUCCESS;
    INVALID_IF((y->height > 1 && (side_pitch(&y->from, y) < y->width || side_pitch(&y->to, y) < y->width)) ||
               (y->depth > 1 && (side_rows(&y->from, y) < y->height || side_rows(&y->to, y) < y->height)));
    TRY(check_side(&y->from, y));
    return check_side(&y->to, y);
}

static bool is_mapped(const struct side *s, const struct copy *y) {
    return s->type == CU_MEMORYTYPE_ARRAY || side_pageable(s) ||
           memory_is_mapped(s->address + side_offset(s, y), side_extent(s, y));
}

CUresult copy_check_node(const struct copy *y) {
    CUresult result = copy_check(y);
    if (result != CUDA_SUCCESS || copy_bytes(y) == 0)
        return result;
    return is_mapped(&y->from, y) && is_mapped(&y->to, y) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- execution --- */

struct grid {
    unsigned char *at;
    uint64_t pitch, rows;
};

static void move_rows(const struct grid *to, const struct grid *from, const struct copy *y) {
    if (y->depth == 1 && to->pitch == y->width && from->pitch == y->width) {
        memmove(to->at, from->at, y->width * y->height);
        return;
    }
    for (uint64_t z = 0; z < y->depth; z++)
        for (uint64_t row = 0; row < y->height; row++)
            memmove(to->at + (z * to->rows + row) * to->pitch, from->at + (z * from->rows + row) * from->pitch,
                    y->width);
}

static struct grid open_side(const struct side *s, const struct copy *y, struct emu_launch *r, int mode) {
    struct grid g = {.pitch = side_pitch(s, y), .rows = side_rows(s, y)};
    uint64_t offset = side_offset(s, y);
    if (s->type == CU_MEMORYTYPE_ARRAY) {
        r->device_bytes += copy_bytes(y);
        g.at = s->array->data + offset;
    } else if (y->staged || side_pageable(s)) {
        g.at = (unsigned char *)(uintptr_t)s->address + offset;
    } else {
        g.at = emu_use(r, s->address + offset, side_extent(s, y), mode);
    }
    return g;
}

void copy_run(const struct copy *y, struct emu_launch *r) {
    bool from_host = y->staged || side_pageable(&y->from), to_host = side_pageable(&y->to);
    struct grid from = {.at = y->staged, .pitch = y->width, .rows = y->height};
    if (!y->staged)
        from = open_side(&y->from, y, r, EMU_READ);
    struct copy unstaged = *y;
    unstaged.staged = NULL;
    struct grid to = open_side(&y->to, &unstaged, r, EMU_WRITE);
    move_rows(&to, &from, y);
    r->host_read += from_host ? copy_bytes(y) : 0;
    r->host_written += to_host ? copy_bytes(y) : 0;
    bool in = r->host_read > 0, out = r->host_written > 0;
    managed_count_copy(in && !out ? copy_bytes(y) : 0, out && !in ? copy_bytes(y) : 0);
}

/* --- issue --- */

static bool stage(struct copy *y) {
    struct grid from = {.at = (unsigned char *)(uintptr_t)(y->from.address + side_offset(&y->from, y)),
                        .pitch = side_pitch(&y->from, y),
                        .rows = side_rows(&y->from, y)};
    struct grid to = {.at = malloc(copy_bytes(y)), .pitch = y->width, .rows = y->height};
    if (to.at)
        move_rows(&to, &from, y);
    y->staged = to.at;
    return to.at != NULL;
}

CUresult copy_issue(CUstream s, const struct copy *y, bool wait) {
    CUresult result = copy_check(y);
    if (result != CUDA_SUCCESS || copy_bytes(y) == 0)
        return result;
    struct work w = {.kind = WORK_COPY, .copy = *y};
    if (capture_is_on(s)) {
        if (wait && capture_stops_stream_wait(s))
            return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        result = copy_check_node(y);
        return result == CUDA_SUCCESS ? stream_issue(s, &w) : result;
    }
    bool from = side_pageable(&y->from), to = side_pageable(&y->to);
    bool small = from && !to && copy_bytes(y) <= INLINE_BYTES;
    if (small && !wait)
        return stage(&w.copy) ? stream_issue(s, &w) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!from && !to)
        return wait ? stream_issue_and_wait(s, &w) : stream_issue(s, &w);
    /* Whoever now wants pages moved by the driver waits with us. */
    pthread_mutex_lock(&managed_gate);
    if (to || wait) {
        result = stream_issue_and_wait(s, &w);
    } else {
        stream_wait_all(s);
        result = stage(&w.copy) ? stream_issue(s, &w) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&managed_gate);
    return result;
}
