/* What the calls that make and change executable graphs (update.c) say of them. */
#ifndef ULMS_GRAPH_H
#define ULMS_GRAPH_H

#include "interpose/copy.h"
#include "interpose/launch.h"
#include "interpose/memory.h"
#include "interpose/stream.h"

/* Around an instantiation: charges what the graph's allocation nodes take. False: the quota refuses, see claim_open. */
bool exec_open(struct claim *c, CUgraph graph);
void exec_close(struct claim *c, CUresult status, const CUgraphExec *handle, CUgraph graph);
/* The parameters of one node were set; touch adds what they touch. */
void exec_set(CUgraphExec handle, CUgraphNode node, void (*touch)(struct op *, const void *), const void *parameters);
void exec_enable(CUgraphExec handle, CUgraphNode node, bool enabled);
void exec_update(CUgraphExec handle, CUgraph graph);
void exec_gone(CUgraphExec handle);
/* Adds what a graph touches as a whole. */
void touch_graph(struct op *op, CUgraph graph);
/* The parameters of a kernel node, CUDA_KERNEL_NODE_PARAMS_v1 or _v2. Inside a library's call: with what it told. */
void touch_kernel_v1(struct op *op, const void *parameters);
void touch_kernel_v2(struct op *op, const void *parameters);

#endif
