/* The calls that copy. */
#include "array.h"
#include "copy.h"

static const CUmemorytype HOST = CU_MEMORYTYPE_HOST, DEVICE = CU_MEMORYTYPE_DEVICE, ANY = CU_MEMORYTYPE_UNIFIED;

static uint64_t of(const void *p) {
    return (uint64_t)(uintptr_t)p;
}

static struct side at(CUmemorytype type, uint64_t address) {
    return (struct side){.type = type, .address = address};
}

static CUresult line(CUstream s, struct side to, struct side from, size_t bytes, bool wait) {
    struct copy y = {.from = from, .to = to, .width = bytes, .height = 1, .depth = 1};
    return copy_issue(s, &y, wait);
}

STREAMED(cuMemcpy, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(ANY, to), at(ANY, from), bytes, true);
}

STREAMED(cuMemcpyAsync, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
         (to, from, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, at(ANY, to), at(ANY, from), bytes, false);
}

STREAMED(cuMemcpyWithAttributesAsync, _ptsz,
         (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *attributes, CUstream stream),
         (to, from, bytes, attributes, stream)) {
    BEGIN_ON(stream);
    if (!attributes)
        return CUDA_ERROR_INVALID_VALUE;
    return line(s, at(ANY, to), at(ANY, from), bytes, false);
}

STREAMED(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr to, const void *from, size_t bytes), (to, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(DEVICE, to), at(HOST, of(from)), bytes, true);
}

STREAMED(cuMemcpyHtoDAsync_v2, _ptsz, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream),
         (to, from, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, at(DEVICE, to), at(HOST, of(from)), bytes, false);
}

STREAMED(cuMemcpyDtoH_v2, _ptds, (void *to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(HOST, of(to)), at(DEVICE, from), bytes, true);
}

STREAMED(cuMemcpyDtoHAsync_v2, _ptsz, (void *to, CUdeviceptr from, size_t bytes, CUstream stream),
         (to, from, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, at(HOST, of(to)), at(DEVICE, from), bytes, false);
}

/* Between device addresses the host waits for nothing, as with the driver. */
STREAMED(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes), (to, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(DEVICE, to), at(DEVICE, from), bytes, false);
}

STREAMED(cuMemcpyDtoDAsync_v2, _ptsz, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
         (to, from, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, at(DEVICE, to), at(DEVICE, from), bytes, false);
}

STREAMED(cuMemcpyPeer, _ptds, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes),
         (to, there, from, here, bytes)) {
    BEGIN_ON(NULL);
    if (!there || !here)
        return CUDA_ERROR_INVALID_CONTEXT;
    return line(s, at(DEVICE, to), at(DEVICE, from), bytes, false);
}

STREAMED(cuMemcpyPeerAsync, _ptsz,
         (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream),
         (to, there, from, here, bytes, stream)) {
    BEGIN_ON(stream);
    if (!there || !here)
        return CUDA_ERROR_INVALID_CONTEXT;
    return line(s, at(DEVICE, to), at(DEVICE, from), bytes, false);
}

/* --- to and from one-dimensional arrays --- */

static struct side in_array(CUarray array, size_t offset) {
    return (struct side){.type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset};
}

STREAMED(cuMemcpyDtoA_v2, _ptds, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
         (to, offset, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, in_array(to, offset), at(DEVICE, from), bytes, false);
}

STREAMED(cuMemcpyAtoD_v2, _ptds, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
         (to, from, offset, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(DEVICE, to), in_array(from, offset), bytes, false);
}

STREAMED(cuMemcpyHtoA_v2, _ptds, (CUarray to, size_t offset, const void *from, size_t bytes),
         (to, offset, from, bytes)) {
    BEGIN_ON(NULL);
    return line(s, in_array(to, offset), at(HOST, of(from)), bytes, true);
}

STREAMED(cuMemcpyAtoH_v2, _ptds, (void *to, CUarray from, size_t offset, size_t bytes), (to, from, offset, bytes)) {
    BEGIN_ON(NULL);
    return line(s, at(HOST, of(to)), in_array(from, offset), bytes, true);
}

STREAMED(cuMemcpyAtoA_v2, _ptds, (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
         (to, to_offset, from, from_offset, bytes)) {
    BEGIN_ON(NULL);
    return line(s, in_array(to, to_offset), in_array(from, from_offset), bytes, false);
}

STREAMED(cuMemcpyHtoAAsync_v2, _ptsz, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream),
         (to, offset, from, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, in_array(to, offset), at(HOST, of(from)), bytes, false);
}

STREAMED(cuMemcpyAtoHAsync_v2, _ptsz, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream),
         (to, from, offset, bytes, stream)) {
    BEGIN_ON(stream);
    return line(s, at(HOST, of(to)), in_array(from, offset), bytes, false);
}
