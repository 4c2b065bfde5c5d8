/* Cases of hidden.c: copies that are not of one row, or not by an address of the host's, and bring the addresses. */
#include "hidden_case.h"

#include <string.h>

enum { ROW = 16 };

/* The table's rows are one address each, farther apart on the host. */
static char host_rows[MOST * ROW];

static void fill_rows(void) {
    for (uint64_t i = 0; i < secrets; i++)
        memcpy(host_rows + i * ROW, &secret[i], sizeof *secret);
}

static void rows(void) {
    fill_rows();
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = host_rows,
                       .srcPitch = ROW,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = slots,
                       .dstPitch = sizeof *secret,
                       .WidthInBytes = sizeof *secret,
                       .Height = secrets};
    CALL(cuMemcpy2D_v2, &c);
}

static void rows_peer(void) {
    fill_rows();
    CUDA_MEMCPY3D_PEER c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = host_rows,
                            .srcPitch = ROW,
                            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                            .dstDevice = slots,
                            .dstPitch = sizeof *secret,
                            .WidthInBytes = sizeof *secret,
                            .Height = secrets,
                            .Depth = 1};
    CALL(cuMemcpy3DPeer, &c);
    CALL(cuCtxSynchronize, ); /* it does not wait itself */
}

/* Of two copies the second brings the addresses. */
static void rows_list(void) {
    static const char other[ROW];
    size_t failed;
    fill_rows();
    CUDA_MEMCPY3D_BATCH_OP list[] = {
        {.src = {.op.ptr = {.ptr = (CUdeviceptr)(uintptr_t)other}},
         .dst = {.op.ptr = {.ptr = slots + (LARGE - 2) * sizeof *secret}},
         .extent = {ROW, 1, 1}},
        {.src = {.op.ptr = {.ptr = (CUdeviceptr)(uintptr_t)host_rows, .rowLength = ROW, .layerHeight = secrets}},
         .dst = {.op.ptr = {.ptr = slots, .rowLength = sizeof *secret, .layerHeight = secrets}},
         .extent = {sizeof *secret, secrets, 1}}};
    for (int i = 0; i < 2; i++) {
        list[i].src.type = list[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        list[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    }
    CALL(cuMemcpy3DBatchAsync, 2, list, &failed, 0, out_stream);
    CALL(cuStreamSynchronize, out_stream);
}

/* The table in memory that the host writes, by the address that the device has for it. */
static CUdeviceptr pinned_table(void) {
    void *p;
    CUdeviceptr shown_as;
    CALL(cuMemHostAlloc, &p, secrets * sizeof *secret, CU_MEMHOSTALLOC_DEVICEMAP);
    memcpy(p, secret, secrets * sizeof *secret);
    CALL(cuMemHostGetDevicePointer_v2, &shown_as, p, 0);
    return shown_as;
}

static CUdeviceptr managed_table(void) {
    CUdeviceptr p;
    CALL(cuMemAllocManaged, &p, secrets * sizeof *secret, CU_MEM_ATTACH_GLOBAL);
    memcpy((void *)(uintptr_t)p, secret, secrets * sizeof *secret);
    return p;
}

static void from_pinned(void) {
    CALL(cuMemcpyDtoDAsync_v2, slots, pinned_table(), secrets * sizeof *secret, out_stream);
    CALL(cuStreamSynchronize, out_stream);
}

static void from_managed(void) {
    CALL(cuMemcpyDtoDAsync_v2, slots, managed_table(), secrets * sizeof *secret, out_stream);
    CALL(cuStreamSynchronize, out_stream);
}

static void rows_from_managed(void) {
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = managed_table(),
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = slots,
                       .WidthInBytes = sizeof *secret,
                       .Height = secrets};
    CALL(cuMemcpy2D_v2, &c);
    CALL(cuCtxSynchronize, );
}

static void peer_from_pinned(void) {
    CUcontext context;
    CALL(cuCtxGetCurrent, &context);
    CALL(cuMemcpyPeerAsync, slots, context, pinned_table(), context, secrets * sizeof *secret, out_stream);
    CALL(cuStreamSynchronize, out_stream);
}

const struct hidden_case copy_cases[] = {{"rows", rows, all_through},
                                         {"rows_peer", rows_peer, all_through},
                                         {"rows_list", rows_list, all_through},
                                         {"from_pinned", from_pinned, all_through},
                                         {"from_managed", from_managed, all_through},
                                         {"rows_from_managed", rows_from_managed, all_through},
                                         {"peer_from_pinned", peer_from_pinned, all_through},
                                         {0}};
