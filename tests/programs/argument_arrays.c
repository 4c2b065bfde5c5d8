/* Kernels with arrays of pointers inside a parameter, named and laid out like PyTorch's, of which a launch uses the
 * first places; the others hold live addresses. Prints what touches.c prints. */
#include <stdbool.h>
#include <string.h>

#include "device.h"
#include "emu.h"
#include "touched.h"

USE(cuMemAlloc_v2)
USE(cuModuleLoadData)
USE(cuModuleGetFunction)
USE(cuLaunchKernel)
USE(cuLaunchKernelEx)
USE(cuLaunchCooperativeKernel)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphCreate)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphAddKernelNode_v2)
USE(cuGraphExecKernelNodeSetParams_v2)

/* clang-format off */
#define LISTS "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9896c25multi_tensor_apply_kernelI" \
    "NS1_18TensorListMetadataILi2EEENS1_21BinaryOpScalarFunctorIfLi1ELi1ELi0EEEJSt5minusIfEfEEEvT_T0_DpT1_"
#define CONCATENATION "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c30CatArrayBatchedCopy_vectorizedI" \
    "NS1_10OpaqueTypeILj4EEEjLi3ELi128ELi1ELi16ELi4EEEvPcNS1_25CatArrInputTensorMetadataIT_T0_XT2_EXT3_EEE"
/* clang-format on */

enum { TENSORS = 64, BYTES = 4096, USED = 3, BLOCKS = 5, INPUTS = 128 };

struct lists {
    CUdeviceptr addresses[2][TENSORS];
    int64_t numel[TENSORS];
    unsigned char block_to_tensor[320];
    int block_to_chunk[320], start_tensor;
};

struct inputs {
    CUdeviceptr input[INPUTS];
    unsigned offset[INPUTS], size[INPUTS], elements[INPUTS];
    bool contiguous[INPUTS];
    unsigned stride[8];
};

static void apply(struct emu_launch *l) {
    const struct lists *p = emu_arg(l, 0);
    for (uint32_t b = 0; b < emu_shape(l, 0); b++)
        for (int i = 0; i < 2; i++)
            emu_use(l, p->addresses[i][p->block_to_tensor[b]], BYTES, i ? EMU_READ : EMU_UPDATE);
}

static void concatenate(struct emu_launch *l) {
    const struct inputs *p = emu_arg(l, 1);
    for (uint32_t y = 0; y < emu_shape(l, 1); y++)
        emu_use(l, p->input[y], BYTES, EMU_READ);
    emu_use(l, EMU_ARG(l, CUdeviceptr, 0), BYTES, EMU_WRITE);
}

static const struct emu_param of_apply[] = {{0, sizeof(struct lists)}, {sizeof(struct lists), 4}},
                              of_concatenate[] = {{0, 8}, {8, sizeof(struct inputs)}};
static const struct emu_kernel kernels[] = {{LISTS, of_apply, 2, apply},
                                            {CONCATENATION, of_concatenate, 2, concatenate}};
static const struct emu_image image = {EMU_MAGIC, kernels, 2, NULL, 0};

static CUdeviceptr tensors[2 * TENSORS];
static CUstream stream;

/* BLOCKS blocks work on the first USED of the tensors; all places hold addresses. */
static void fill(struct lists *p, int first) {
    memset(p, 0, sizeof *p);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < TENSORS; k++)
            p->addresses[i][k] = tensors[(first + i * TENSORS + k) % (2 * TENSORS)];
    for (int b = 0; b < BLOCKS; b++)
        p->block_to_tensor[b] = (unsigned char)(b < USED ? b : USED - 1);
}

static void launches(CUfunction f) {
    struct {
        struct lists lists;
        float number;
    } p = {.number = 1};
    void *parameters[] = {&p.lists, &p.number};
    size_t bytes = sizeof p;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &p, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {BLOCKS, 1, 1, 1, 1, 1, .hStream = stream};
    fill(&p.lists, 0);
    MUST(cuLaunchKernel(f, BLOCKS, 1, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("launch", 1);
    MUST(cuLaunchKernel(f, 2, 1, 1, 1, 1, 1, 0, stream, NULL, extra)), end_of("launch-extra", 1);
    MUST(cuLaunchKernelEx(&config, f, parameters, NULL)), end_of("launch-ex", 1);
    MUST(cuLaunchCooperativeKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, parameters)), end_of("launch-cooperative", 1);
}

static void graphs(CUfunction f) {
    struct lists first, second;
    float number = 1;
    void *parameters[] = {&first, &number}, *others[] = {&second, &number};
    CUDA_KERNEL_NODE_PARAMS k = {f, BLOCKS, 1, 1, 1, 1, 1, .kernelParams = parameters};
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    fill(&first, 10);
    fill(&second, 20);
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    MUST(cuLaunchKernel(f, BLOCKS, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-captured", 1);
    MUST(cuGraphCreate(&graph, 0));
    MUST(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &k));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-by-hand", 1);
    k.kernelParams = others;
    k.gridDimX = 2;
    MUST(cuGraphExecKernelNodeSetParams_v2(exec, node, &k));
    MUST(cuGraphLaunch(exec, stream)), end_of("graph-node-set", 1);
}

static void concatenations(CUfunction f) {
    struct inputs p = {0};
    void *parameters[] = {&tensors[100], &p};
    for (int i = 0; i < INPUTS; i++)
        p.input[i] = tensors[i];
    MUST(cuLaunchKernel(f, 7, 4, 1, 1, 1, 1, 0, stream, parameters, NULL)), end_of("concatenation", 1);
}

int main(void) {
    CUmodule module;
    CUfunction f;
    use_device();
    stream = new_stream();
    MUST(cuModuleLoadData(&module, &image));
    for (int i = 0; i < 2 * TENSORS; i++)
        MUST(cuMemAlloc_v2(&tensors[i], BYTES));
    emu_log(1);
    MUST(cuModuleGetFunction(&f, module, LISTS));
    launches(f);
    graphs(f);
    MUST(cuModuleGetFunction(&f, module, CONCATENATION));
    concatenations(f);
    return 0;
}
