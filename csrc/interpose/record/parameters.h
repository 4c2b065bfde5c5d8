/* The parameters of graph nodes, whichever call gave them, and what they touch. */
#ifndef ULMS_PARAMETERS_H
#define ULMS_PARAMETERS_H

#include "driver.h"
#include "launch/op.h"

/* What the calls for one type of node take, as those for any type take it. */
CUgraphNodeParams parameters_of_kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUgraphNodeParams parameters_of_kernel(const CUDA_KERNEL_NODE_PARAMS *p);
CUgraphNodeParams parameters_of_copy(const CUDA_MEMCPY3D *p, CUcontext context);
CUgraphNodeParams parameters_of_memset(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context);
CUgraphNodeParams parameters_of_host(const CUDA_HOST_NODE_PARAMS *p);
CUgraphNodeParams parameters_of_event(CUgraphNodeType type, CUevent event); /* that it records, or waits for */
CUgraphNodeParams parameters_of_words(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p);
CUgraphNodeParams parameters_of_child(CUgraph graph);

/* Asks the driver, where they say what is touched. False: it does not tell more than, where it does, the type. */
bool parameters_read(CUgraphNode node, CUgraphNodeParams *p);
/* Adds what a node with these parameters touches; OP_BLIND where that is more than is known. A kernel's inside a
 * library's call: with what it told. */
void parameters_touch(struct op *op, const CUgraphNodeParams *p);
/* A call that hands a node its parameters reads: parameters_taken(parameters_refused(p) ?: the real call). */
/* What the driver answers if they are of a copy or a memset that leaves its allocation (interpose/record/bounds.h);
 * else CUDA_SUCCESS: what they touch is mapped until parameters_taken, which answers the status. NULL leaves none. */
CUresult parameters_refused(const CUgraphNodeParams *p);
CUresult parameters_copy_refused(const CUDA_MEMCPY3D *p);
CUresult parameters_memset_refused(const CUDA_MEMSET_NODE_PARAMS *p);
CUresult parameters_taken(CUresult status);

#endif
