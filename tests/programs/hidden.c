/* Kernels that reach memory through addresses which no argument of theirs shows, each case in its way.
 *
 * hidden CASE SECRETS OPENS MIB STEPS [still]: SECRETS buffers of MIB MiB are changed through hidden addresses, OPENS
 * others meanwhile as arguments show, in another stream; every step changes one of the secrets openly, too. `still`:
 * nothing moves while the hidden addresses are used. Prints a sum of each buffer: the same on every run, whatever
 * moves. Under ulms.so "counter NAME VALUE" follows for each of its counters.
 *
 * Without a header of CUDA and without linking, so that the same program runs on the emulated device (linked with
 * hidden_emulated.c) and on a GPU (with hidden_ptx.c). */
#define _GNU_SOURCE
#include "hidden.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "counters.h"
#include "driver.h"

enum { PAGE = 2 << 20, MOST = 64, LARGE = 8192, ROW = 16, BLOCKS = 64, THREADS = 256 };

static uint64_t secrets, opens, words, steps;
static bool still;
static CUdeviceptr secret[MOST], shown[MOST];
static CUstream out_stream, in_stream; /* of the secrets, of the others */
static CUmodule module;
static CUdeviceptr slots; /* room for LARGE addresses */

static void *find(const char *name) {
    static void *driver;
    driver = driver ? driver : dlopen("libcuda.so.1", RTLD_NOW);
    void *f = driver ? dlsym(driver, name) : NULL;
    if (!f) {
        fprintf(stderr, "hidden: no %s\n", name);
        exit(1);
    }
    return f;
}

static void check(int status, const char *what) {
    if (status == 0)
        return;
    fprintf(stderr, "hidden: %s: error %d\n", what, status);
    exit(1);
}
#define CALL(name, ...) check((int)((pfn_##name)(uintptr_t)find(#name))(__VA_ARGS__), #name)

static CUfunction function(const char *name) {
    CUfunction f;
    CALL(cuModuleGetFunction, &f, module, name);
    return f;
}

static void launch(const char *name, CUstream s, void **parameters) {
    CALL(cuLaunchKernel, function(name), BLOCKS, 1, 1, THREADS, 1, 1, 0, s, parameters, NULL);
}
#define LAUNCH(name, s, ...) launch(name, s, (void *[]){__VA_ARGS__})

static void to_device(CUdeviceptr to, const void *from, size_t bytes) {
    CALL(cuMemcpyHtoDAsync_v2, to, from, bytes, out_stream);
    CALL(cuStreamSynchronize, out_stream);
}

static CUdeviceptr variable(const char *name) {
    CUdeviceptr p;
    size_t bytes;
    CALL(cuModuleGetGlobal_v2, &p, &bytes, module, name);
    return p;
}

/* --- cases: each begins, and then acts once a step --- */

static void through(CUdeviceptr table, uint64_t count, uint32_t add) {
    LAUNCH("through", out_stream, &table, &count, &words, &add);
}

static void all_through(uint32_t add) {
    through(slots, secrets, add);
}

static void table(void) {
    to_device(slots, secret, secrets * sizeof *secret);
}

static void large(void) {
    static CUdeviceptr addresses[LARGE];
    memcpy(addresses + LARGE - secrets, secret, secrets * sizeof *secret);
    to_device(slots, addresses, sizeof addresses);
}

static void large_step(uint32_t add) {
    through(slots + (LARGE - secrets) * sizeof *secret, secrets, add);
}

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

/* A list of {next, data} in device memory. */
static void list(void) {
    CUdeviceptr nodes[MOST][2];
    for (uint64_t i = 0; i < secrets; i++) {
        nodes[i][0] = i + 1 < secrets ? slots + (i + 1) * sizeof nodes[0] : 0;
        nodes[i][1] = secret[i];
    }
    to_device(slots, nodes, secrets * sizeof nodes[0]);
}

static void list_step(uint32_t add) {
    LAUNCH("follow", out_stream, &slots, &words, &add);
}

static void variable_step(uint32_t add) {
    to_device(variable(HIDDEN_VARIABLE), &secret[add % secrets], sizeof *secret);
    LAUNCH("through_variable", out_stream, &words, &add);
}

static void constant_step(uint32_t add) {
    to_device(variable(HIDDEN_CONSTANT), &secret[add % secrets], sizeof *secret);
    LAUNCH("through_constant", out_stream, &words, &add);
}

static void inside_step(uint32_t add) {
    uint64_t half = words / 2;
    for (uint64_t i = 0; i < secrets; i++)
        LAUNCH("inside", out_stream, &secret[i], &half, &half, &add);
}

/* A kernel stores the addresses; the one that uses them is handed only where. */
static void stored(void) {
    uint64_t none = 0;
    for (uint64_t i = 0; i < secrets; i++)
        LAUNCH("store", out_stream, &slots, &i, &secret[i], &none);
}

/* Nor does the one that stores them. */
static void unshown(void) {
    uint64_t far = (uint64_t)1 << 45, words_far = far / sizeof(uint32_t);
    for (uint64_t i = 0; i < secrets; i++) {
        CUdeviceptr base = secret[i] - far;
        LAUNCH("store", out_stream, &slots, &i, &base, &words_far);
    }
}

static CUdeviceptr host_table;

static void pinned(void) {
    void *p;
    CALL(cuMemHostAlloc, &p, secrets * sizeof *secret, CU_MEMHOSTALLOC_DEVICEMAP);
    memcpy(p, secret, secrets * sizeof *secret);
    CALL(cuMemHostGetDevicePointer_v2, &host_table, p, 0);
}

static void managed(void) {
    CALL(cuMemAllocManaged, &host_table, secrets * sizeof *secret, CU_MEM_ATTACH_GLOBAL);
    memcpy((void *)(uintptr_t)host_table, secret, secrets * sizeof *secret);
}

static void host_step(uint32_t add) {
    through(host_table, secrets, add);
}

/* --- graphs --- */

static CUgraphExec exec;
static CUgraphNode kernel_node;
static CUdeviceptr source[1]; /* what the graph copies, changed between its launches */
static uint64_t one = 1;
static uint32_t graph_add = 7;

static CUDA_KERNEL_NODE_PARAMS kernel_parameters(void **parameters) {
    return (CUDA_KERNEL_NODE_PARAMS){.func = function("through"),
                                     .gridDimX = BLOCKS,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = THREADS,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = parameters};
}

static void instantiate(CUgraph graph) {
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CALL(cuGraphDestroy, graph);
}

static void launch_graph(void) {
    CALL(cuGraphLaunch, exec, out_stream);
}

/* A kernel node by hand, that uses one table or, updated, the other. */
static void graph_updated(void) {
    static CUgraph graph; /* kept: a driver takes no node of a graph that is gone */
    table();
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&slots, &one, &words, &graph_add});
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, NULL, 0, &p);
    CALL(cuGraphInstantiateWithFlags, &exec, graph, 0);
}

static void graph_updated_step(uint32_t add) {
    CUdeviceptr here = slots + add % secrets * sizeof *secret;
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&here, &one, &words, &add});
    CALL(cuGraphExecKernelNodeSetParams_v2, exec, kernel_node, &p);
    launch_graph();
}

/* The graph itself brings the address, which is another one at each launch. */
static void graph_copy(void) {
    CUgraph graph;
    CUgraphNode copy_node;
    CUcontext context;
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = source,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = slots,
                       .WidthInBytes = sizeof source,
                       .Height = 1,
                       .Depth = 1};
    source[0] = secret[0];
    CUDA_KERNEL_NODE_PARAMS p = kernel_parameters((void *[]){&slots, &one, &words, &graph_add});
    CALL(cuCtxGetCurrent, &context);
    CALL(cuGraphCreate, &graph, 0);
    CALL(cuGraphAddMemcpyNode, &copy_node, graph, NULL, 0, &c, context);
    CALL(cuGraphAddKernelNode_v2, &kernel_node, graph, &copy_node, 1, &p);
    instantiate(graph);
}

static void captured_copy(void) {
    CUgraph graph;
    source[0] = secret[0];
    CALL(cuStreamBeginCapture_v2, out_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CALL(cuMemcpyHtoDAsync_v2, slots, source, sizeof source, out_stream);
    CALL(cuLaunchKernel, function("through"), BLOCKS, 1, 1, THREADS, 1, 1, 0, out_stream,
         ((void *[]){&slots, &one, &words, &graph_add}), NULL);
    CALL(cuStreamEndCapture, out_stream, &graph);
    instantiate(graph);
}

static void graph_copy_step(uint32_t add) {
    CALL(cuStreamSynchronize, out_stream); /* the launch before has read it */
    source[0] = secret[add % secrets];
    launch_graph();
}

/* --- a library's array of pointers: a[i] b[i] + c[i] --- */

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

/* Its kernel is handed pinned memory, too, which holds no addresses: the call told all that is used. */
static void library_pinned(void) {
    const float tenth = 0.1f;
    float *factor;
    open_library();
    CALL(cuMemHostAlloc, (void **)&factor, 64 * 64 * sizeof *factor, CU_MEMHOSTALLOC_DEVICEMAP);
    for (int i = 0; i < 64 * 64; i++)
        factor[i] = tenth;
    CALL(cuMemHostGetDevicePointer_v2, &host_table, factor, 0);
}

static void library_pinned_step(uint32_t add) {
    const float half = 0.5f, most = 0.25f + 0.25f / (float)add;
    for (uint64_t i = 0; i < secrets; i++)
        check(product(blas_handle, 0, 0, 64, 64, 64, &half, host_table, 64, secret[i], 64, &most,
                      secret[i] + 64 * 64 * sizeof(float), 64),
              "cublasSgemm");
}

static const struct {
    const char *name;
    void (*begin)(void);
    void (*step)(uint32_t add);
} cases[] = {{"table", table, all_through},
             {"large", large, large_step},
             {"rows", rows, all_through},
             {"rows_peer", rows_peer, all_through},
             {"rows_list", rows_list, all_through},
             {"list", list, list_step},
             {"variable", NULL, variable_step},
             {"constant", NULL, constant_step},
             {"inside", NULL, inside_step},
             {"stored", stored, all_through},
             {"unshown", unshown, all_through},
             {"pinned", pinned, host_step},
             {"managed", managed, host_step},
             {"graph_updated", graph_updated, graph_updated_step},
             {"graph_copy", graph_copy, graph_copy_step},
             {"captured_copy", captured_copy, graph_copy_step},
             {"library", library, library_step},
             {"library_stored", library_stored, library_step},
             {"library_restored", library_restored, library_step},
             {"library_copied", library_copied, library_step},
             {"library_set", library_set, library_step},
             {"library_words", library_words, library_step},
             {"library_managed", library_managed, library_step},
             {"library_captured", library_captured, library_captured_step},
             {"library_pinned", library_pinned, library_pinned_step}};

/* No secret is ever used openly, and all are 0 when the device is new. */
static bool is_unshown(size_t k) {
    return cases[k].begin == unshown;
}

/* --- the program --- */

static CUdeviceptr buffer(uint32_t first) {
    CUdeviceptr p;
    CALL(cuMemAlloc_v2, &p, words * sizeof(uint32_t));
    CALL(cuMemsetD32Async, p, first, words, out_stream);
    return p;
}

static void print(const char *what, CUdeviceptr p) {
    uint32_t *host = malloc(words * sizeof *host);
    uint64_t sum = 14695981039346656037u;
    CALL(cuMemcpyDtoH_v2, host, p, words * sizeof *host);
    for (uint64_t i = 0; i < words; i++)
        sum = (sum ^ host[i]) * 1099511628211u;
    printf("%s %016llx\n", what, (unsigned long long)sum);
    free(host);
}

static void start(size_t k) {
    CUcontext context;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoadData, &module, hidden_image());
    CALL(cuStreamCreate, &in_stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &out_stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAlloc_v2, &slots, LARGE * sizeof *secret);
    for (uint64_t i = 0; i < secrets; i++)
        if (is_unshown(k))
            CALL(cuMemAlloc_v2, &secret[i], words * sizeof(uint32_t));
        else
            secret[i] = buffer(0x3f800000); /* also a number for a library */
    for (uint64_t i = 0; i < opens; i++)
        shown[i] = buffer((uint32_t)i);
    CALL(cuStreamSynchronize, out_stream);
}

/* Waits until every move that was begun is done, where moves are one page each: in budgets below 64 MiB. The counters
 * of what is done follow once a second. */
static void settle(void) {
    static const char *const done[] = {"filled_bytes", "evicted_bytes", "dropped_bytes", "dead_bytes"};
    uint64_t (*counter)(const char *) = (uint64_t (*)(const char *))dlsym(RTLD_DEFAULT, "ulms_counter");
    CALL(cuCtxSynchronize, );
    for (int calm = 0; counter && calm < 3;) {
        uint64_t begun = counter("moves"), pages = 0;
        usleep(50 * 1000);
        for (size_t i = 0; i < sizeof done / sizeof done[0]; i++)
            pages += counter(done[i]) / PAGE;
        calm = pages == begun && begun == counter("moves") ? calm + 1 : 0;
    }
}

static void run(size_t k) {
    bool numbers = strncmp(cases[k].name, "library", strlen("library")) == 0;
    bool openly = !numbers && !is_unshown(k);
    if (cases[k].begin)
        cases[k].begin();
    for (uint32_t step = 1; step <= steps; step++) {
        for (uint64_t i = 0; i < opens; i++)
            LAUNCH("open", in_stream, &shown[i], &words, &step);
        if (openly)
            LAUNCH("open", out_stream, &secret[step % secrets], &words, &step);
        if (still)
            settle();
        cases[k].step(step);
        if (still)
            CALL(cuCtxSynchronize, );
    }
    CALL(cuCtxSynchronize, );
    for (uint64_t i = 0; i < secrets; i++)
        print("secret", secret[i]);
    for (uint64_t i = 0; i < opens; i++)
        print("open", shown[i]);
}

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    secrets = strtoull(argv[2], NULL, 0);
    opens = strtoull(argv[3], NULL, 0);
    words = (strtoull(argv[4], NULL, 0) << 20) / sizeof(uint32_t);
    steps = strtoull(argv[5], NULL, 0);
    still = argc > 6;
    print_counters_at_exit();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            start(i);
            run(i);
            return 0;
        }
    return 2;
}
