/* Operations on graphs of nodes and edges (version 9.28 on). */
#ifndef ULMS_CUDNN_ABI_GNN_H
#define ULMS_CUDNN_ABI_GNN_H

#include <stdint.h>

#include "dnn.h"

typedef int cudnnGnnAggOp_t;

typedef int cudnnGnnActivationOp_t;

/* Compressed sparse columns: numbers of type idxType in device memory. */
typedef struct {
    const void *cscOffsets;
    const void *cscIndices;
    const void *mapCscToCoo;
    const void *mapRevToCoo;
    int64_t nSrcNodes;
    int64_t nDstNodes;
    int64_t nIndices;
    cudnnDataType_t idxType;
    const void *cscRevOffsets;
} cudnnGnnCscGraph_t;

typedef struct {
    cudnnGnnActivationOp_t activation;
    float activationAlpha;
    int numHeads;
    int concatHeads;
} cudnnGnnMhaParams_t;

#endif
