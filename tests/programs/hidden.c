/* Kernels that reach memory through addresses which no argument of theirs shows, each case in its way.
 *
 * hidden CASE SECRETS OPENS MIB STEPS [still|late|handles|segment]: SECRETS buffers of MIB MiB are changed through
 * hidden addresses, OPENS others meanwhile as arguments show, in another stream; every step changes one of the secrets
 * openly, too. `still`: nothing moves while the hidden addresses are used. `late`: the others are made only after a
 * step, and the secrets are told as a framework's blocks: until then nobody looks at what is launched. `handles`: each
 * buffer lies behind a handle, at addresses reserved for it; `segment`: at addresses reserved for all of them. Prints a
 * sum of each buffer: the same on every run, whatever moves. Under ulms.so "counter NAME VALUE" follows for each of its
 * counters.
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
#include "crash.h"
#include "hidden_case.h"

enum { PAGE = 2 << 20 };

uint64_t secrets, words;
CUdeviceptr secret[MOST], shown[MOST];
CUstream out_stream;
CUdeviceptr slots;
bool apart;
static uint64_t opens, steps;
static bool still, late, handles, segment;
static CUstream in_stream;
static CUmodule module;

void *find(const char *name) {
    static void *driver;
    driver = driver ? driver : dlopen("libcuda.so.1", RTLD_NOW);
    void *f = driver ? dlsym(driver, name) : NULL;
    if (!f) {
        fprintf(stderr, "hidden: no %s\n", name);
        exit(1);
    }
    return f;
}

void check(int status, const char *what) {
    if (status == 0)
        return;
    fprintf(stderr, "hidden: %s: error %d\n", what, status);
    exit(1);
}

CUfunction function(const char *name) {
    CUfunction f;
    CALL(cuModuleGetFunction, &f, module, name);
    return f;
}

static void launch(const char *name, CUstream s, void **parameters) {
    CALL(cuLaunchKernel, function(name), BLOCKS, 1, 1, THREADS, 1, 1, 0, s, parameters, NULL);
}
#define LAUNCH(name, s, ...) launch(name, s, (void *[]){__VA_ARGS__})

void to_device(CUdeviceptr to, const void *from, size_t bytes) {
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

void all_through(uint32_t add) {
    through(slots, secrets, add);
}

void table(void) {
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

/* Less is brought than the kernel has parameters, as NCCL does. */
static void part_step(uint32_t add) {
    for (uint64_t i = 0; i < secrets; i++) {
        struct {
            CUdeviceptr y;
            uint64_t n;
            uint32_t add, none;
        } arguments = {secret[i], words, add, 0};
        size_t bytes = sizeof arguments;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                         CU_LAUNCH_PARAM_END};
        CALL(cuLaunchKernel, function("part"), BLOCKS, 1, 1, THREADS, 1, 1, 0, out_stream, NULL, extra);
    }
}

/* A kernel stores the addresses; the one that uses them is handed only where. */
void stored(void) {
    uint64_t none = 0;
    for (uint64_t i = 0; i < secrets; i++)
        LAUNCH(HIDDEN_STORE, out_stream, &slots, &i, &secret[i], &none);
}

/* Nor does the one that stores them. */
static void unshown(void) {
    uint64_t far = (uint64_t)1 << 45, words_far = far / sizeof(uint32_t);
    apart = true;
    for (uint64_t i = 0; i < secrets; i++) {
        CUdeviceptr base = secret[i] - far;
        LAUNCH(HIDDEN_STORE, out_stream, &slots, &i, &base, &words_far);
    }
}

/* The stream itself writes the addresses, one by one. */
static void written(void) {
    for (uint64_t i = 0; i < secrets; i++)
        CALL(cuStreamWriteValue64_v2, out_stream, slots + i * sizeof *secret, secret[i], 0);
}

static void written_list(void) {
    static CUstreamBatchMemOpParams word[MOST];
    for (uint64_t i = 0; i < secrets; i++)
        word[i].writeValue = (__typeof__(word[i].writeValue)){
            .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = slots + i * sizeof *secret, .value64 = secret[i]};
    CALL(cuStreamBatchMemOp_v2, out_stream, (unsigned)secrets, word, 0);
}

/* One secret is read through a texture, the next is shown. */
static CUtexObject texture[MOST];

static void textures(void) {
    for (uint64_t i = 0; i < secrets; i++) {
        CUDA_RESOURCE_DESC memory = {.resType = CU_RESOURCE_TYPE_LINEAR};
        CUDA_TEXTURE_DESC how = {.flags = CU_TRSF_READ_AS_INTEGER};
        memory.res.linear.devPtr = secret[i];
        memory.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
        memory.res.linear.numChannels = 1;
        memory.res.linear.sizeInBytes = words * sizeof(uint32_t);
        CALL(cuTexObjectCreate, &texture[i], &memory, &how, NULL);
    }
}

static void textures_step(uint32_t add) {
    for (uint64_t i = 0; i < secrets; i++)
        LAUNCH(HIDDEN_SAMPLED, out_stream, &texture[i], &secret[(i + 1) % secrets], &words, &add);
}

/* As in CUDA 3: arguments are set one by one, before. */
static void set_step(uint32_t add) {
    CUfunction f = function(HIDDEN_OPEN);
    CALL_OLD(cuFuncSetBlockShape, (CUfunction, int, int, int), f, THREADS, 1, 1);
    CALL_OLD(cuParamSetSize, (CUfunction, unsigned), f, 20);
    for (uint64_t i = 0; i < secrets; i++) {
        CALL_OLD(cuParamSetv, (CUfunction, int, void *, unsigned), f, 0, &secret[i], 8);
        CALL_OLD(cuParamSetv, (CUfunction, int, void *, unsigned), f, 8, &words, 8);
        CALL_OLD(cuParamSetv, (CUfunction, int, void *, unsigned), f, 16, &add, 4);
        CALL(cuLaunchGridAsync, f, BLOCKS, 1, out_stream);
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

static const struct hidden_case cases[] = {{"table", table, all_through},
                                           {"large", large, large_step},
                                           {"list", list, list_step},
                                           {"variable", NULL, variable_step},
                                           {"constant", NULL, constant_step},
                                           {"inside", NULL, inside_step},
                                           {"part", NULL, part_step},
                                           {"stored", stored, all_through},
                                           {"unshown", unshown, all_through},
                                           {"written", written, all_through},
                                           {"written_list", written_list, all_through},
                                           {"texture", textures, textures_step},
                                           {"set", NULL, set_step},
                                           {"pinned", pinned, host_step},
                                           {"managed", managed, host_step},
                                           {0}};

/* All are 0 when the device is new. */
static bool is_unshown(const struct hidden_case *c) {
    return c->begin == unshown;
}

/* --- the program --- */

static CUdeviceptr addresses(size_t bytes) {
    static CUdeviceptr next;
    CUdeviceptr p = next;
    if (!segment || !next)
        CALL(cuMemAddressReserve, &p, segment ? 2 * MOST * bytes : bytes, 0, 0, 0);
    next = p + bytes;
    return p;
}

static CUdeviceptr mapped(size_t bytes) {
    const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc all = {here, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr p = addresses(bytes);
    CALL(cuMemCreate, &handle, bytes, &plain, 0);
    CALL(cuMemMap, p, bytes, 0, handle, 0);
    CALL(cuMemSetAccess, p, bytes, &all, 1);
    CALL(cuMemRelease, handle);
    return p;
}

static CUdeviceptr allocated(size_t bytes) {
    CUdeviceptr p;
    CALL(cuMemAlloc_v2, &p, bytes);
    return p;
}

static CUdeviceptr buffer(uint32_t first) {
    size_t bytes = words * sizeof first;
    CUdeviceptr p = handles || segment ? mapped(bytes) : allocated(bytes);
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

#define TELL _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
__attribute__((weak)) void TELL(CUdeviceptr, int64_t, size_t, size_t, int16_t);

static void tell_secrets(void) {
    enum { CUDA_DEVICE_0 = 1 };
    for (uint64_t i = 0; TELL && i < secrets; i++)
        TELL(secret[i], (int64_t)(words * sizeof(uint32_t)), 0, 0, CUDA_DEVICE_0);
}

static void make_others(void) {
    for (uint64_t i = 0; i < opens; i++)
        shown[i] = buffer((uint32_t)i);
    CALL(cuStreamSynchronize, out_stream);
}

static void start(const struct hidden_case *c) {
    CUcontext context;
    CALL(cuInit, 0);
    CALL(cuDevicePrimaryCtxRetain, &context, 0);
    CALL(cuCtxSetCurrent, context);
    CALL(cuModuleLoadData, &module, hidden_image());
    CALL(cuStreamCreate, &in_stream, CU_STREAM_NON_BLOCKING);
    CALL(cuStreamCreate, &out_stream, CU_STREAM_NON_BLOCKING);
    CALL(cuMemAlloc_v2, &slots, LARGE * sizeof *secret);
    for (uint64_t i = 0; i < secrets; i++)
        if (is_unshown(c))
            CALL(cuMemAlloc_v2, &secret[i], words * sizeof(uint32_t));
        else
            secret[i] = buffer(0x3f800000); /* also a number for a library */
    if (late)
        tell_secrets();
    else
        make_others();
}

/* Waits until every move that was begun is done, where moves are one page each: in budgets below 64 MiB. The counters
 * of what is done follow once a second. */
static void settle(void) {
    static const char *const done[] = {"filled_bytes", "evicted_bytes", "dropped_bytes", "dead_bytes"};
    counter_reader counter = find_counter();
    CALL(cuCtxSynchronize, );
    for (int calm = 0; counter && calm < 3;) {
        uint64_t begun = counter("moves"), pages = 0;
        usleep(50 * 1000);
        for (size_t i = 0; i < sizeof done / sizeof done[0]; i++)
            pages += counter(done[i]) / PAGE;
        calm = pages == begun && begun == counter("moves") ? calm + 1 : 0;
    }
}

static void run(const struct hidden_case *c, bool openly) {
    if (c->begin)
        c->begin();
    if (late) {
        c->step(0);
        make_others();
    }
    for (uint32_t step = 1; step <= steps; step++) {
        for (uint64_t i = 0; i < opens; i++)
            LAUNCH(HIDDEN_OPEN, in_stream, &shown[i], &words, &step);
        if (openly && !apart)
            LAUNCH(HIDDEN_OPEN, out_stream, &secret[step % secrets], &words, &step);
        if (still)
            settle();
        c->step(step);
        if (still)
            CALL(cuCtxSynchronize, );
    }
    CALL(cuCtxSynchronize, );
    for (uint64_t i = 0; i < secrets; i++)
        print("secret", secret[i]);
    for (uint64_t i = 0; i < opens; i++)
        print("open", shown[i]);
}

/* NULL: none of that name. */
static const struct hidden_case *named(const struct hidden_case *list, const char *name) {
    for (; list->name; list++)
        if (strcmp(list->name, name) == 0)
            return list;
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 6)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0); /* a crash shows how far it came */
    crash_tells();
    const struct hidden_case *numbers = named(library_cases, argv[1]), *c = numbers;
    c = c ? c : named(graph_cases, argv[1]);
    c = c ? c : named(copy_cases, argv[1]);
    c = c ? c : named(cases, argv[1]);
    if (!c)
        return 2;
    secrets = strtoull(argv[2], NULL, 0);
    opens = strtoull(argv[3], NULL, 0);
    words = (strtoull(argv[4], NULL, 0) << 20) / sizeof(uint32_t);
    steps = strtoull(argv[5], NULL, 0);
    still = argc > 6 && strcmp(argv[6], "still") == 0;
    late = argc > 6 && strcmp(argv[6], "late") == 0;
    handles = argc > 6 && strcmp(argv[6], "handles") == 0;
    segment = argc > 6 && strcmp(argv[6], "segment") == 0;
    print_counters_at_exit();
    start(c);
    run(c, !numbers);
    return 0;
}
