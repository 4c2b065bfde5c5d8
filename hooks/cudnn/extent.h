/* What cuDNN's descriptors say of memory: spans of bytes from the pointer that goes with a descriptor. Each asks the
 * library; a descriptor that is NULL, or that it does not accept, spans nothing. */
#ifndef ULMS_CUDNN_EXTENT_H
#define ULMS_CUDNN_EXTENT_H

#include "cudnn/abi.h"
#include "library/extent.h"

/* From the first element to the last, as its strides say. */
struct span cudnn_tensor(int variant, cudnnTensorDescriptor_t tensor);
/* n tensors, one behind the other. */
struct span cudnn_tensors(int variant, const cudnnTensorDescriptor_t *tensors, int n);
struct span cudnn_filter(int variant, cudnnFilterDescriptor_t filter);
/* A float for each output of the filter. */
struct span cudnn_bias(int variant, cudnnFilterDescriptor_t filter);
/* x unfolded: for each position of the filter what it covers. */
struct span cudnn_columns(int variant, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t filter,
                          cudnnConvolutionDescriptor_t convolution);
/* Two coordinates for each place of an image of two dimensions. */
struct span cudnn_grid(int variant, cudnnTensorDescriptor_t image);
/* Sequences of a batch, and a number of their type for each; probabilities are of times, sequences, labels. */
int64_t cudnn_sequences(int variant, cudnnTensorDescriptor_t probabilities);
struct span cudnn_costs(int variant, cudnnTensorDescriptor_t probabilities);
/* The vectors of all time steps; unpacked, with the padding between sequences. */
struct span cudnn_steps(int variant, cudnnRNNDataDescriptor_t data);
/* A length for each of its sequences; elements, not bytes. */
struct span cudnn_rnnlengths(int variant, cudnnRNNDataDescriptor_t data);
/* Vectors with padding: which of them are touched depends on lengths. */
struct span cudnn_sequence(int variant, cudnnSeqDataDescriptor_t data);
/* A length for each of its sequences; elements, not bytes. */
struct span cudnn_lengths(int variant, cudnnSeqDataDescriptor_t data);

/* The type of alpha and beta beside a tensor or a filter. */
cudaDataType_t cudnn_scale(int variant, cudnnTensorDescriptor_t tensor);
cudaDataType_t cudnn_filterscale(int variant, cudnnFilterDescriptor_t filter);

/* Bits of an element; 0: not known here. */
unsigned cudnn_bits(cudnnDataType_t type);
/* Bytes of an element of at least eight bits. */
int64_t cudnn_size(cudnnDataType_t type);

/* A graph's nodes that edges start from, nodes that they lead to, and edges; bytes of an index. */
int64_t cudnn_sources(const cudnnGnnCscGraph_t *graph);
int64_t cudnn_targets(const cudnnGnnCscGraph_t *graph);
int64_t cudnn_edges(const cudnnGnnCscGraph_t *graph);
int64_t cudnn_index(const cudnnGnnCscGraph_t *graph);
int64_t cudnn_heads(const cudnnGnnMhaParams_t *params);
/* Features of a node when its heads are put side by side, or averaged. */
int64_t cudnn_joined(const cudnnGnnMhaParams_t *params, int features);

#endif
