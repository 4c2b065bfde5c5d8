/* Cases of hidden.c: a library's array of pointers. a[i] b[i] + c[i] */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hidden_case.h"

static void *blas_handle;
static int (*batched)(void *, int, int, int, int, int, const float *, CUdeviceptr, int, CUdeviceptr, int, const float *,
                      CUdeviceptr, int, int);
static int (*product)(void *, int, int, int, int, int, const float *, CUdeviceptr, int, CUdeviceptr, int, const float *,
                      CUdeviceptr, int);

static void open_library(void) {
    void *blas = dlopen("libcublas.so.13", RTLD_NOW);
    blas = blas ? blas : dlopen("libcublas.so.12", RTLD_NOW);
    int (*create)(void **) = blas ? (int (*)(void **))dlsym(blas, "cublasCreate_v2") : NULL;
    int (*set_stream)(void *, CUstream) = blas ? (int (*)(void *, CUstream))dlsym(blas, "cublasSetStream_v2") : NULL;
    *(void **)&batched = blas ? dlsym(blas, "cublasSgemmBatched") : NULL;
    *(void **)&product = blas ? dlsym(blas, "cublasSgemm_v2") : NULL;
    if (!create || !set_stream || !batched || !product) {
        fprintf(stderr, "hidden: no cuBLAS\n");
        exit(1);
    }
    check(create(&blas_handle), "cublasCreate");
    check(set_stream(blas_handle, out_stream), "cublasSetStream");
}

static void library(void) {
    open_library();
    table();
}

static void library_stored(void) {
    open_library();
    stored();
}

/* One of the others at every place, to be overwritten. */
static void wrong_table(void) {
    CUdeviceptr wrong[MOST];
    for (uint64_t i = 0; i < secrets; i++)
        wrong[i] = shown[0];
    to_device(slots, wrong, secrets * sizeof *wrong);
}

static void library_restored(void) {
    open_library();
    wrong_table();
    stored();
}

/* The addresses come from where a kernel stored them. */
static void library_copied(void) {
    CUdeviceptr bring = slots, store_to;
    open_library();
    wrong_table();
    CALL(cuMemAlloc_v2, &store_to, secrets * sizeof *secret);
    slots = store_to;
    stored();
    slots = bring;
    CALL(cuMemcpyDtoDAsync_v2, slots, store_to, secrets * sizeof *secret, out_stream);
}

static void library_set(void) {
    open_library();
    wrong_table();
    for (uint64_t i = 0; i < secrets; i++) {
        CALL(cuMemsetD32Async, slots + 8 * i, (uint32_t)secret[i], 1, out_stream);
        CALL(cuMemsetD32Async, slots + 8 * i + 4, (uint32_t)(secret[i] >> 32), 1, out_stream);
    }
}

static void library_words(void) {
    CUstreamBatchMemOpParams list[MOST];
    open_library();
    wrong_table();
    for (uint64_t i = 0; i < secrets; i++)
        list[i] = (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                                            .address = slots + 8 * i,
                                                            .value64 = secret[i]}};
    CALL(cuStreamBatchMemOp_v2, out_stream, (unsigned)secrets, list, 0);
}

/* The host overwrites it. */
static void library_managed(void) {
    open_library();
    CALL(cuMemAllocManaged, &slots, secrets * sizeof *secret, CU_MEM_ATTACH_GLOBAL);
    wrong_table();
    memcpy((void *)(uintptr_t)slots, secret, secrets * sizeof *secret);
}

static void library_step(uint32_t add) {
    const float half = 0.5f, most = 0.25f + 0.25f / (float)add;
    uint64_t third = secrets / 3, bytes = third * sizeof *secret;
    check(batched(blas_handle, 0, 0, 64, 64, 64, &half, slots, 64, slots + bytes, 64, &most, slots + 2 * bytes, 64,
                  (int)third),
          "cublasSgemmBatched");
}

/* All of it in a graph. What a library's first call loads is not captured. */
static void library_captured(void) {
    CUgraph graph;
    library();
    library_step(1);
    wrong_table();
    CALL(cuStreamBeginCapture_v2, out_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    stored();
    library_step(1);
    CALL(cuStreamEndCapture, out_stream, &graph);
    instantiate(graph);
}

static void library_captured_step(uint32_t add) {
    (void)add;
    launch_graph();
}

static CUdeviceptr pinned;

/* Its kernel is handed pinned memory, too, which holds no addresses: the call told all that is used. */
static void library_pinned(void) {
    const float tenth = 0.1f;
    float *factors;
    open_library();
    CALL(cuMemHostAlloc, (void **)&factors, 64 * 64 * sizeof *factors, CU_MEMHOSTALLOC_DEVICEMAP);
    for (int i = 0; i < 64 * 64; i++)
        factors[i] = tenth;
    CALL(cuMemHostGetDevicePointer_v2, &pinned, factors, 0);
}

static void library_pinned_step(uint32_t add) {
    const float half = 0.5f, most = 0.25f + 0.25f / (float)add;
    for (uint64_t i = 0; i < secrets; i++)
        check(product(blas_handle, 0, 0, 64, 64, 64, &half, pinned, 64, secret[i], 64, &most,
                      secret[i] + 64 * 64 * sizeof(float), 64),
              "cublasSgemm");
}

const struct hidden_case library_cases[] = {{"library", library, library_step},
                                            {"library_stored", library_stored, library_step},
                                            {"library_restored", library_restored, library_step},
                                            {"library_copied", library_copied, library_step},
                                            {"library_set", library_set, library_step},
                                            {"library_words", library_words, library_step},
                                            {"library_managed", library_managed, library_step},
                                            {"library_captured", library_captured, library_captured_step},
                                            {"library_pinned", library_pinned, library_pinned_step},
                                            {0}};
