/* Launches one kernel with eight pointers and a count, and prints what it wrote.
 *
 * old_driver FORM: how the arguments are given.
 *   page     both the array and the last argument end where a page ends that has none behind it
 *   stack    an array on the stack, with other pointers of the program behind it
 *   kernel   the same, to a CUkernel
 *   extra    all in one buffer
 *   capture  the first form, captured and launched as a graph
 *   node     the first form, as the node of a graph */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "device.h"
#include "emu.h"

enum { POINTERS = 8, ARGUMENTS = POINTERS + 1, PAGE = 4096, BYTES = 1 << 20, COUNT = 1000 };

USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuModuleUnload)
USE(cuLibraryLoadData)
USE(cuLibraryGetKernel)
USE(cuMemAlloc_v2)
USE(cuMemFree_v2)
USE(cuMemcpyDtoH_v2)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphCreate)
USE(cuGraphAddKernelNode_v2)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuLaunchKernel)

/* scatter(p0, ..., p7, count): element count - 1 of each p becomes its number. */
static void scatter(struct emu_launch *l) {
    uint32_t count = EMU_ARG(l, uint32_t, POINTERS);
    for (uint32_t i = 0; i < POINTERS; i++) {
        uint64_t last = EMU_ARG(l, uint64_t, i) + (count - 1) * sizeof(uint32_t);
        *(uint32_t *)emu_use(l, last, sizeof(uint32_t), EMU_WRITE) = i + 1;
    }
}

static const struct emu_param parameters[ARGUMENTS] = {{0, 8},  {8, 8},  {16, 8}, {24, 8}, {32, 8},
                                                       {40, 8}, {48, 8}, {56, 8}, {64, 4}};
static const struct emu_kernel kernel = {"scatter", parameters, ARGUMENTS, scatter};
static const struct emu_image image = {EMU_MAGIC, &kernel, 1, NULL, 0};

/* The last `bytes` bytes before an unmapped page. */
static void *before_nothing(size_t bytes) {
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || munmap(pages + PAGE, PAGE))
        abort();
    return pages + PAGE - bytes;
}

static CUdeviceptr pointer[POINTERS];
static uint32_t count = COUNT;

static void **arguments_before_nothing(void) {
    void **list = before_nothing(ARGUMENTS * sizeof(void *));
    uint32_t *last = before_nothing(sizeof *last);
    *last = count;
    for (int i = 0; i < POINTERS; i++)
        list[i] = &pointer[i];
    list[POINTERS] = last;
    return list;
}

static void launch(CUfunction f, CUstream stream, void **list, void **extra) {
    MUST(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, list, extra));
}

static void launch_from_stack(CUfunction f, CUstream stream) {
    struct {
        void *list[ARGUMENTS];
        void *behind[4];
    } frame = {.behind = {NULL, (void *)8, frame.list, (void *)-8l}};
    for (int i = 0; i < POINTERS; i++)
        frame.list[i] = &pointer[i];
    frame.list[POINTERS] = &count;
    launch(f, stream, frame.list, NULL);
}

static void launch_from_buffer(CUfunction f, CUstream stream) {
    struct {
        CUdeviceptr pointer[POINTERS];
        uint32_t count;
    } buffer = {.count = count};
    size_t bytes = POINTERS * sizeof(CUdeviceptr) + sizeof count;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    memcpy(buffer.pointer, pointer, sizeof pointer);
    launch(f, stream, NULL, extra);
}

static void launch_graph(CUfunction f, CUstream stream, int captured) {
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec executable;
    CUDA_KERNEL_NODE_PARAMS given = {f, 1, 1, 1, 1, 1, 1, .kernelParams = arguments_before_nothing()};
    if (captured) {
        MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        launch(f, stream, given.kernelParams, NULL);
        MUST(cuStreamEndCapture(stream, &graph));
    } else {
        MUST(cuGraphCreate(&graph, 0));
        MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &given));
    }
    MUST(cuGraphInstantiateWithFlags(&executable, graph, 0));
    MUST(cuGraphLaunch(executable, stream));
}

/* CUlibrary and CUkernel: from CUDA 12.0 on. */
static CUfunction kernel_of_library(void) {
    CUlibrary library;
    CUkernel k;
    MUST(cuLibraryLoadData(&library, &image, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&k, library, "scatter"));
    return (CUfunction)k;
}

static void run(const char *form, CUfunction f, CUstream stream) {
    if (strcmp(form, "page") == 0)
        launch(f, stream, arguments_before_nothing(), NULL);
    else if (strcmp(form, "stack") == 0)
        launch_from_stack(f, stream);
    else if (strcmp(form, "kernel") == 0)
        launch_from_stack(kernel_of_library(), stream);
    else if (strcmp(form, "extra") == 0)
        launch_from_buffer(f, stream);
    else
        launch_graph(f, stream, strcmp(form, "capture") == 0);
}

int main(int argc, char **argv) {
    CUmodule module;
    CUfunction f;
    use_device();
    CUstream stream = new_stream();
    MUST(cuModuleLoadData(&module, &image));
    MUST(cuModuleGetFunction(&f, module, "scatter"));
    for (int i = 0; i < POINTERS; i++)
        MUST(cuMemAlloc_v2(&pointer[i], BYTES));
    run(argc > 1 ? argv[1] : "page", f, stream);
    MUST(cuStreamSynchronize(stream));
    for (int i = 0; i < POINTERS; i++) {
        uint32_t wrote = 0;
        MUST(cuMemcpyDtoH_v2(&wrote, pointer[i] + (COUNT - 1) * sizeof wrote, sizeof wrote));
        printf("%d ", (int)wrote);
        MUST(cuMemFree_v2(pointer[i]));
    }
    MUST(cuModuleUnload(module));
    printf("done\n");
    return 0;
}
