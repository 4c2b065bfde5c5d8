/* Cases of hidden.c: copies that are not of one row, and bring the addresses. */
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

const struct hidden_case copy_cases[] = {
    {"rows", rows, all_through}, {"rows_peer", rows_peer, all_through}, {"rows_list", rows_list, all_through}, {0}};
