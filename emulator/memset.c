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
    if (m->address % m->element || (m->height > 1 && (m->pitch < m->width * m->element || m->pitch % m->element)))
        return CUDA_ERROR_INVALID_VALUE;
    return memory_reaches(m->address, extent(m)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult memset_check_node(const struct memset_work *m) {
    CUresult result = memset_check(m);
    bool none = m->width == 0 || m->height == 0;
    return result != CUDA_SUCCESS || none || memory_is_mapped(m->address, extent(m)) ? result
                                                                                     : CUDA_ERROR_INVALID_VALUE;
}

static CUresult issue(CUcontext c, CUstream handle, bool per_thread, struct memset_work m) {
    CUstream s;
    CUresult result = stream_find(c, handle, per_thread, &s);
    if (result == CUDA_SUCCESS)
        result = capture_is_on(s) ? memset_check_node(&m) : memset_check(&m);
    if (result != CUDA_SUCCESS || m.width == 0 || m.height == 0)
        return result;
    struct work w = {.kind = WORK_MEMSET, .memset = m};
    return stream_issue(s, &w);
}

/* Sync and async forms differ in the stream they take; neither waits. */
#define MEMSET(bits, type, element_)                                                                                   \
    STREAMED(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr to, type value, size_t n), (to, value, n)) {                    \
        BEGIN_AS(call, CALL_CONTEXT);                                                                                  \
        struct memset_work m = {to, 0, n, 1, value, element_};                                                         \
        return issue(c, NULL, per_thread, m);                                                                          \
    }                                                                                                                  \
    STREAMED(cuMemsetD##bits##Async, _ptsz, (CUdeviceptr to, type value, size_t n, CUstream stream),                   \
             (to, value, n, stream)) {                                                                                 \
        BEGIN_AS(call, CALL_CONTEXT);                                                                                  \
        struct memset_work m = {to, 0, n, 1, value, element_};                                                         \
        return issue(c, stream, per_thread, m);                                                                        \
    }                                                                                                                  \
    STREAMED(cuMemsetD2D##bits##_v2, _ptds, (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),   \
             (to, pitch, value, width, height)) {                                                                      \
        BEGIN_AS(call, CALL_CONTEXT);                                                                                  \
        struct memset_work m = {to, pitch, width, height, value, element_};                                            \
        return issue(c, NULL, per_thread, m);                                                                          \
    }                                                                                                                  \
    STREAMED(cuMemsetD2D##bits##Async, _ptsz,                                                                          \
             (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream),                 \
             (to, pitch, value, width, height, stream)) {                                                              \
        BEGIN_AS(call, CALL_CONTEXT);                                                                                  \
        struct memset_work m = {to, pitch, width, height, value, element_};                                            \
        return issue(c, stream, per_thread, m);                                                                        \
    }

MEMSET(8, unsigned char, 1)
MEMSET(16, unsigned short, 2)
MEMSET(32, unsigned int, 4)
