/* What cuDNN's legacy descriptors say of memory. The library is asked, as it alone can read them; version 8 does not
 * survive being asked about NULL. */
#include <stdlib.h>

#include "driver/real.h"
#include "library.h"
#include "library/cudnn_shape.h"

struct numbers {
    cudnnDataType_t type;
    int n;
    int sizes[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
};

static void no_numbers(struct numbers *t) {
    t->type = CUDNN_DATA_FLOAT;
    t->n = 0;
}

/* n is 0 when the descriptor tells nothing. */
static void tensor_numbers(int variant, cudnnTensorDescriptor_t tensor, struct numbers *t) {
    if (!tensor ||
        REAL(cudnnGetTensorNdDescriptor, variant)(tensor, CUDNN_DIM_MAX, &t->type, &t->n, t->sizes, t->strides))
        no_numbers(t);
}

static void filter_numbers(int variant, cudnnFilterDescriptor_t filter, struct numbers *f) {
    cudnnTensorFormat_t format;
    if (!filter || REAL(cudnnGetFilterNdDescriptor, variant)(filter, CUDNN_DIM_MAX, &f->type, &format, &f->n, f->sizes))
        no_numbers(f);
}

static int64_t product(const int *sizes, int n) {
    int64_t all = n > 0;
    for (int i = 0; i < n; i++)
        all *= sizes[i];
    return all;
}

static bool is_vector(cudnnDataType_t type) {
    return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 || type == CUDNN_DATA_INT8x32;
}

struct span cudnn_tensor(int variant, cudnnTensorDescriptor_t tensor) {
    struct numbers t;
    tensor_numbers(variant, tensor, &t);
    if (t.n > 0 && is_vector(t.type)) {
        /* sizes are of elements, strides of vectors in one format and of elements in the others: only the sum is told
         */
        size_t bytes = 0;
        REAL(cudnnGetTensorSizeInBytes, variant)(tensor, &bytes);
        return library_part(library_bytes((int64_t)bytes));
    }
    return shape_bytes(shape_span_int(t.n, t.sizes, t.strides), cudnn_bits(t.type));
}

struct span cudnn_tensors(int variant, const cudnnTensorDescriptor_t *tensors, int n) {
    struct span all = library_none();
    for (int i = 0; tensors && i < n; i++) {
        struct span one = cudnn_tensor(variant, tensors[i]);
        all.high += one.high - one.low;
        all.holes |= one.holes;
    }
    return all;
}

struct span cudnn_filter(int variant, cudnnFilterDescriptor_t filter) {
    size_t bytes = 0;
    if (!filter || REAL(cudnnGetFilterSizeInBytes, variant)(filter, &bytes))
        return library_none();
    return library_bytes((int64_t)bytes);
}

struct span cudnn_bias(int variant, cudnnFilterDescriptor_t filter) {
    struct numbers f;
    filter_numbers(variant, filter, &f);
    return f.n > 0 ? library_bytes(f.sizes[0] * (int64_t)sizeof(float)) : library_none();
}

struct span cudnn_columns(int variant, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
                          cudnnConvolutionDescriptor_t convolution) {
    struct numbers t, f;
    int y[CUDNN_DIM_MAX]; /* as the output of the convolution: images, channels, places */
    tensor_numbers(variant, x, &t);
    filter_numbers(variant, filter, &f);
    if (t.n < 3 || f.n != t.n || !convolution ||
        REAL(cudnnGetConvolutionNdForwardOutputDim, variant)(convolution, x, filter, t.n, y))
        return library_none();
    int64_t places = y[0] * product(y + 2, t.n - 2);
    return library_bytes(places * product(f.sizes + 1, f.n - 1) * cudnn_size(t.type));
}

struct span cudnn_grid(int variant, cudnnTensorDescriptor_t image) {
    struct numbers t;
    tensor_numbers(variant, image, &t);
    return t.n == 4 ? library_bytes(2 * t.sizes[0] * product(t.sizes + 2, 2) * cudnn_size(t.type)) : library_none();
}

int64_t cudnn_sequences(int variant, cudnnTensorDescriptor_t probabilities) {
    struct numbers t;
    tensor_numbers(variant, probabilities, &t);
    return t.n > 1 ? t.sizes[1] : 0;
}

struct span cudnn_costs(int variant, cudnnTensorDescriptor_t probabilities) {
    struct numbers t;
    tensor_numbers(variant, probabilities, &t);
    return t.n > 1 ? library_bytes(t.sizes[1] * cudnn_size(t.type)) : library_none();
}

struct steps {
    cudnnDataType_t type;
    cudnnRNNDataLayout_t layout;
    int longest, batch, width;
};

/* lengths: room for n lengths of sequences. */
static bool ask_steps(int variant, cudnnRNNDataDescriptor_t data, struct steps *s, int n, int *lengths) {
    double padding[2]; /* NULL is refused */
    return data && REAL(cudnnGetRNNDataDescriptor, variant)(data, &s->type, &s->layout, &s->longest, &s->batch,
                                                            &s->width, n, lengths, padding) == CUDNN_STATUS_SUCCESS;
}

struct span cudnn_steps(int variant, cudnnRNNDataDescriptor_t data) {
    enum { FEW = 128 };
    int few[FEW], *lengths = few;
    struct steps s;
    if (!ask_steps(variant, data, &s, FEW, few))
        return library_none();
    if (s.batch > FEW &&
        (!(lengths = malloc((size_t)s.batch * sizeof *lengths)) || !ask_steps(variant, data, &s, s.batch, lengths)))
        s.batch = 0;
    int64_t vectors = 0, all = (int64_t)s.longest * s.batch, bytes = s.width * cudnn_size(s.type);
    for (int i = 0; i < s.batch; i++)
        vectors += lengths[i];
    if (lengths != few)
        free(lengths);
    if (s.layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED)
        return library_bytes(vectors * bytes);
    struct span padded = library_bytes(all * bytes);
    return vectors == all ? padded : library_part(padded);
}

struct span cudnn_rnnlengths(int variant, cudnnRNNDataDescriptor_t data) {
    struct steps s;
    int length;
    return ask_steps(variant, data, &s, 1, &length) ? library_count(s.batch) : library_none();
}

struct sequences {
    cudnnDataType_t type;
    int n, sizes[CUDNN_SEQDATA_DIM_COUNT];
    size_t lengths;
};

static bool ask_sequences(int variant, cudnnSeqDataDescriptor_t data, struct sequences *s) {
    cudnnSeqDataAxis_t axes[CUDNN_SEQDATA_DIM_COUNT];
    int length;
    double padding[2];
    return data &&
           REAL(cudnnGetSeqDataDescriptor, variant)(data, &s->type, &s->n, CUDNN_SEQDATA_DIM_COUNT, s->sizes, axes,
                                                    &s->lengths, 1, &length, padding) == CUDNN_STATUS_SUCCESS;
}

struct span cudnn_sequence(int variant, cudnnSeqDataDescriptor_t data) {
    struct sequences s;
    if (!ask_sequences(variant, data, &s) || s.n != CUDNN_SEQDATA_DIM_COUNT)
        return library_none();
    return library_part(library_bytes(product(s.sizes, s.n) * cudnn_size(s.type)));
}

struct span cudnn_lengths(int variant, cudnnSeqDataDescriptor_t data) {
    struct sequences s;
    return ask_sequences(variant, data, &s) ? library_count((int64_t)s.lengths) : library_none();
}

static cudaDataType_t scale_type(const struct numbers *of) {
    return of->n > 0 && of->type == CUDNN_DATA_DOUBLE ? CUDA_R_64F : CUDA_R_32F;
}

cudaDataType_t cudnn_scale(int variant, cudnnTensorDescriptor_t tensor) {
    struct numbers t;
    tensor_numbers(variant, tensor, &t);
    return scale_type(&t);
}

cudaDataType_t cudnn_filterscale(int variant, cudnnFilterDescriptor_t filter) {
    struct numbers f;
    filter_numbers(variant, filter, &f);
    return scale_type(&f);
}

int64_t cudnn_sources(const cudnnGnnCscGraph_t *graph) {
    return graph ? graph->nSrcNodes : 0;
}

int64_t cudnn_targets(const cudnnGnnCscGraph_t *graph) {
    return graph ? graph->nDstNodes : 0;
}

int64_t cudnn_edges(const cudnnGnnCscGraph_t *graph) {
    return graph ? graph->nIndices : 0;
}

int64_t cudnn_index(const cudnnGnnCscGraph_t *graph) {
    return graph ? cudnn_size(graph->idxType) : 0;
}

int64_t cudnn_heads(const cudnnGnnMhaParams_t *params) {
    return params ? params->numHeads : 0;
}

int64_t cudnn_joined(const cudnnGnnMhaParams_t *params, int features) {
    if (!params || params->numHeads <= 0)
        return 0;
    return params->concatHeads ? features : features / params->numHeads;
}
