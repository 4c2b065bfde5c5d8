/* A convolution, a normalisation with addition and activation, a recurrent network, and a graph of convolution, bias
 * and activation: its plan run on variant packs made before, and on one made for each run, as frameworks do. */
#include "cudnn_operations.h"
#include "library_calls.h"

enum { N = 2, C = 8, SIDE = 6, OUT = 4, FILTER = 3, STEPS = 3, SEQUENCES = 32, WIDTH = 16, SPACE = 1024 };
enum { ACTIVATION = 1, PERSISTENT = 1, FIND_FIRST = 0, NCHW = 0, CROSS_CORRELATION = 1 };

/* attributes that ulms.so looks at only by what they hold */
enum { GRAPH_OPERATIONS = 801, ENGINE_GRAPH = 1300, CONFIG_ENGINE = 300, PLAN_CONFIG = 401 };

/* tensors of the graph that lie in memory */
enum { X = 1, W, BIAS, Y, IN_MEMORY = Y };

static const float one = 1, zero;
static cudnnHandle_t handle;
static cudnnTensorDescriptor_t image, result, channels, state;
static cudnnFilterDescriptor_t filter;
static cudnnConvolutionDescriptor_t convolution;
static cudnnRNNDataDescriptor_t sequences;
static cudnnBackendDescriptor_t plan, packs[SETS];
static const struct operands *first_set;

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle);
cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t, cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f);
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int n, const int *sizes);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c);
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t c, int n, const int *padding,
                                              const int *step, const int *dilation, int mode, cudnnDataType_t type);
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *d);
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type, cudnnRNNDataLayout_t layout,
                                        int longest, int batch, int width, const int *lengths, void *padding);

/* --- calls --- */

__attribute__((noinline)) static void call_convolution(void *function, const struct operands *o) {
    ((pfn_cudnnConvolutionForward)function)(handle, &one, image, o->at[0], filter, o->at[1], convolution, FIND_FIRST,
                                            o->at[2], SPACE, &zero, result, o->at[3]);
}

__attribute__((noinline)) static void call_normalization(void *function, const struct operands *o) {
    ((pfn_cudnnBatchNormalizationForwardTrainingEx)function)(
        handle, PERSISTENT, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, &one, &zero, image, o->at[0], image, o->at[1], image,
        o->at[2], channels, o->at[3], o->at[4], 0.1, o->at[5], o->at[6], 1e-5, o->at[7], o->at[8], NULL, o->at[9],
        SPACE, o->at[10], SPACE);
}

__attribute__((noinline)) static void call_network(void *function, const struct operands *o) {
    ((pfn_cudnnRNNForward)function)(handle, NULL, CUDNN_FWD_MODE_TRAINING, o->at[0], sequences, o->at[1], sequences,
                                    o->at[2], state, o->at[3], o->at[4], state, o->at[5], o->at[6], SPACE, o->at[7],
                                    SPACE, o->at[8], SPACE, o->at[9]);
}

__attribute__((noinline)) static void call_plan(void *function, const struct operands *o) {
    ((pfn_cudnnBackendExecute)function)(handle, plan, packs[o - first_set]);
}

/* --- descriptors --- */

static cudnnTensorDescriptor_t tensor(int n, int c, int h, int w) {
    cudnnTensorDescriptor_t t;
    check((int)cudnnCreateTensorDescriptor(&t));
    check((int)cudnnSetTensor4dDescriptor(t, NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
    return t;
}

static void make_legacy(void) {
    int lengths[SEQUENCES];
    float padding = 0;
    for (int i = 0; i < SEQUENCES; i++)
        lengths[i] = STEPS - i % 2;
    image = tensor(N, C, SIDE, SIDE);
    result = tensor(N, C, OUT, OUT);
    channels = tensor(1, C, 1, 1);
    state = tensor(1, SEQUENCES, WIDTH, 1);
    check((int)cudnnCreateFilterDescriptor(&filter));
    check((int)cudnnSetFilterNdDescriptor(filter, CUDNN_DATA_FLOAT, NCHW, 4, (int[]){C, C, FILTER, FILTER}));
    check((int)cudnnCreateConvolutionDescriptor(&convolution));
    check((int)cudnnSetConvolutionNdDescriptor(convolution, 2, (int[]){0, 0}, (int[]){1, 1}, (int[]){1, 1},
                                               CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    check((int)cudnnCreateRNNDataDescriptor(&sequences));
    check((int)cudnnSetRNNDataDescriptor(sequences, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, STEPS,
                                         SEQUENCES, WIDTH, lengths, &padding));
}

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t kind) {
    cudnnBackendDescriptor_t d;
    check((int)((pfn_cudnnBackendCreateDescriptor)hooked("cudnnBackendCreateDescriptor"))(kind, &d));
    return d;
}

static void set(cudnnBackendDescriptor_t d, int attribute, cudnnBackendAttributeType_t type, int64_t n,
                const void *values) {
    pfn_cudnnBackendSetAttribute f = (pfn_cudnnBackendSetAttribute)hooked("cudnnBackendSetAttribute");
    check((int)f(d, (cudnnBackendAttributeName_t)attribute, type, n, values));
}

static cudnnBackendDescriptor_t finished(cudnnBackendDescriptor_t d) {
    check((int)((pfn_cudnnBackendFinalize)hooked("cudnnBackendFinalize"))(d));
    return d;
}

static cudnnBackendDescriptor_t graph_tensor(int64_t uid, int64_t n, int64_t c, int64_t h, int64_t w) {
    cudnnBackendDescriptor_t t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    bool is_virtual = uid > IN_MEMORY;
    set(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, (int64_t[]){n, c, h, w});
    set(t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, (int64_t[]){c * h * w, h * w, w, 1});
    set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    return finished(t);
}

static void set_child(cudnnBackendDescriptor_t d, int attribute, cudnnBackendDescriptor_t child) {
    set(d, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &child);
}

static cudnnBackendDescriptor_t holder(cudnnBackendDescriptorType_t kind, int attribute,
                                       cudnnBackendDescriptor_t child) {
    cudnnBackendDescriptor_t d = make(kind);
    set_child(d, attribute, child);
    return finished(d);
}

/* y = f(a, b), or f(a) where b is NULL. */
static cudnnBackendDescriptor_t pointwise(cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_child(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a);
    if (b)
        set_child(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    set_child(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return finished(d);
}

static void make_plan(void) {
    cudnnBackendDescriptor_t forward = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    cudnnBackendDescriptor_t product = graph_tensor(Y + 1, N, C, OUT, OUT), sum = graph_tensor(Y + 2, N, C, OUT, OUT);
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_child(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, graph_tensor(X, N, C, SIDE, SIDE));
    set_child(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, graph_tensor(W, C, C, FILTER, FILTER));
    set_child(forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, product);
    cudnnBackendDescriptor_t operations[] = {finished(forward), pointwise(product, graph_tensor(BIAS, 1, C, 1, 1), sum),
                                             pointwise(sum, NULL, graph_tensor(Y, N, C, OUT, OUT))};
    set(graph, GRAPH_OPERATIONS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 3, operations);
    cudnnBackendDescriptor_t engine = holder(CUDNN_BACKEND_ENGINE_DESCRIPTOR, ENGINE_GRAPH, finished(graph));
    cudnnBackendDescriptor_t config = holder(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CONFIG_ENGINE, engine);
    plan = holder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, PLAN_CONFIG, config);
}

static cudnnBackendDescriptor_t make_pack(const struct operands *o) {
    static const int64_t ids[IN_MEMORY] = {X, W, BIAS, Y};
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, IN_MEMORY, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, IN_MEMORY, o->at);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &o->at[IN_MEMORY]);
    return finished(pack);
}

const struct bench_call *dnn_calls(const struct operands *sets) {
    static const struct bench_call calls[] = {{"cudnnConvolutionForward", call_convolution},
                                              {"cudnnBatchNormalizationForwardTrainingEx", call_normalization},
                                              {"cudnnRNNForward", call_network},
                                              {"cudnnBackendExecute", call_plan},
                                              {0}};
    check((int)cudnnCreate(&handle));
    make_legacy();
    make_plan();
    first_set = sets;
    for (int s = 0; s < SETS; s++)
        packs[s] = make_pack(&sets[s]);
    return calls;
}
