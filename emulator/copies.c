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

static struct side in_array(CUarray array, size_t offset) {
    return (struct side){.type = CU_MEMORYTYPE_ARRAY, .array = array, .x = offset};
}

/* Between device addresses and arrays the host waits for nothing, as with the driver. */
enum { WAIT = true, GO_ON = false };

#define COPY(symbol, to_side, from_side, wait, ...)                                                                    \
    CALL_ON(symbol, __VA_ARGS__) {                                                                                     \
        return line(s, to_side, from_side, bytes, wait);                                                               \
    }

COPY(cuMemcpy, at(ANY, to), at(ANY, from), WAIT, CUdeviceptr to, CUdeviceptr from, size_t bytes)
COPY(cuMemcpyAsync, at(ANY, to), at(ANY, from), GO_ON, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
COPY(cuMemcpyHtoD_v2, at(DEVICE, to), at(HOST, of(from)), WAIT, CUdeviceptr to, const void *from, size_t bytes)
COPY(cuMemcpyHtoDAsync_v2, at(DEVICE, to), at(HOST, of(from)), GO_ON, CUdeviceptr to, const void *from, size_t bytes,
     CUstream stream)
COPY(cuMemcpyDtoH_v2, at(HOST, of(to)), at(DEVICE, from), WAIT, void *to, CUdeviceptr from, size_t bytes)
COPY(cuMemcpyDtoHAsync_v2, at(HOST, of(to)), at(DEVICE, from), GO_ON, void *to, CUdeviceptr from, size_t bytes,
     CUstream stream)
COPY(cuMemcpyDtoD_v2, at(DEVICE, to), at(DEVICE, from), GO_ON, CUdeviceptr to, CUdeviceptr from, size_t bytes)
COPY(cuMemcpyDtoDAsync_v2, at(DEVICE, to), at(DEVICE, from), GO_ON, CUdeviceptr to, CUdeviceptr from, size_t bytes,
     CUstream stream)
COPY(cuMemcpyDtoA_v2, in_array(to, offset), at(DEVICE, from), GO_ON, CUarray to, size_t offset, CUdeviceptr from,
     size_t bytes)
COPY(cuMemcpyAtoD_v2, at(DEVICE, to), in_array(from, offset), GO_ON, CUdeviceptr to, CUarray from, size_t offset,
     size_t bytes)
COPY(cuMemcpyHtoA_v2, in_array(to, offset), at(HOST, of(from)), WAIT, CUarray to, size_t offset, const void *from,
     size_t bytes)
COPY(cuMemcpyHtoAAsync_v2, in_array(to, offset), at(HOST, of(from)), GO_ON, CUarray to, size_t offset, const void *from,
     size_t bytes, CUstream stream)
COPY(cuMemcpyAtoH_v2, at(HOST, of(to)), in_array(from, offset), WAIT, void *to, CUarray from, size_t offset,
     size_t bytes)
COPY(cuMemcpyAtoHAsync_v2, at(HOST, of(to)), in_array(from, offset), GO_ON, void *to, CUarray from, size_t offset,
     size_t bytes, CUstream stream)
COPY(cuMemcpyAtoA_v2, in_array(to, to_offset), in_array(from, from_offset), GO_ON, CUarray to, size_t to_offset,
     CUarray from, size_t from_offset, size_t bytes)

CALL_ON(cuMemcpyWithAttributesAsync, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUmemcpyAttributes *attributes,
        CUstream stream) {
    INVALID_IF(!attributes);
    return line(s, at(ANY, to), at(ANY, from), bytes, GO_ON);
}

CALL_ON(cuMemcpyPeer, CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes) {
    return there && here ? line(s, at(DEVICE, to), at(DEVICE, from), bytes, GO_ON) : CUDA_ERROR_INVALID_CONTEXT;
}

CALL_ON(cuMemcpyPeerAsync, CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes,
        CUstream stream) {
    return body_cuMemcpyPeer(c, s, to, there, from, here, bytes);
}
