/* Memsets of all widths. */
#include "capture.h"
#include "memory.h"
#include "stream.h"

#include <string.h>

/* UINT64_MAX where it has more than 64 bits: nothing reaches so far. The driver, too, lets a row's bytes wrap. */
static uint64_t extent(const struct memset_work *m) {
    uint64_t rows, bytes, row = m->width * m->element;
    bool wraps = __builtin_mul_overflow(m->height - 1, m->pitch, &rows) || __builtin_add_overflow(rows, row, &bytes);
    return wraps ? UINT64_MAX : bytes;
}

/* `bytes` of one element again and again: each copy doubles what there is. */
static void fill(unsigned char *at, const void *element, uint64_t size, uint64_t bytes) {
    memcpy(at, element, size < bytes ? size : bytes);
    for (uint64_t done = size; done < bytes; done *= 2)
        memcpy(at + done, at, done < bytes - done ? done : bytes - done);
}

void memset_run(const struct memset_work *m, struct emu_launch *r) {
    unsigned char *at = emu_use(r, m->address, extent(m), EMU_WRITE);
    for (uint64_t row = 0; row < m->height; row++, at += m->pitch) {
        if (m->element == 1) {
            memset(at, (int)(m->value & 0xff), m->width);
            continue;
        }
        fill(at, &m->value, m->element, m->width * m->element); /* little-endian: its low bytes */
    }
}

CUresult memset_check(const struct memset_work *m) {
    if (m->width == 0 || m->height == 0)
        return CUDA_SUCCESS;
    INVALID_IF(m->address % m->element ||
               (m->height > 1 && (m->pitch < m->width * m->element || m->pitch % m->element)));
    return memory_reaches(m->address, extent(m)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult memset_check_node(const struct memset_work *m) {
    TRY(memset_check(m));
    INVALID_IF(m->width && m->height && !memory_is_mapped(m->address, extent(m)));
    return CUDA_SUCCESS;
}

static CUresult issue(CUstream s, struct memset_work m) {
    TRY(capture_is_on(s) ? memset_check_node(&m) : memset_check(&m));
    if (m.width == 0 || m.height == 0)
        return CUDA_SUCCESS;
    struct work w = {.kind = WORK_MEMSET, .memset = m};
    return stream_issue(s, &w);
}

/* Sync and async forms differ in the stream they take; neither waits. */
#define MEMSET(bits, type, element)                                                                                    \
    CALL_ON(cuMemsetD##bits##_v2, CUdeviceptr to, type value, size_t n) {                                              \
        return issue(s, (struct memset_work){to, 0, n, 1, value, element});                                            \
    }                                                                                                                  \
    CALL_ON(cuMemsetD##bits##Async, CUdeviceptr to, type value, size_t n, CUstream stream) {                           \
        return issue(s, (struct memset_work){to, 0, n, 1, value, element});                                            \
    }                                                                                                                  \
    CALL_ON(cuMemsetD2D##bits##_v2, CUdeviceptr to, size_t pitch, type value, size_t width, size_t height) {           \
        return issue(s, (struct memset_work){to, pitch, width, height, value, element});                               \
    }                                                                                                                  \
    CALL_ON(cuMemsetD2D##bits##Async, CUdeviceptr to, size_t pitch, type value, size_t width, size_t height,           \
            CUstream stream) {                                                                                         \
        return issue(s, (struct memset_work){to, pitch, width, height, value, element});                               \
    }

MEMSET(8, unsigned char, 1)
MEMSET(16, unsigned short, 2)
MEMSET(32, unsigned int, 4)
