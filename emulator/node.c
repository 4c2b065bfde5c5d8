#include "node.h"

#include "copy.h"
#include "launch.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

/* --- parameters to work --- */

static CUresult kernel_work(CUcontext c, const CUDA_KERNEL_NODE_PARAMS *p, struct work *w) {
    uint32_t shape[] = {p->gridDimX,  p->gridDimY,  p->gridDimZ,      p->blockDimX,
                        p->blockDimY, p->blockDimZ, p->sharedMemBytes};
    w->kind = WORK_KERNEL;
    return launch_make(c, p->func ? p->func : (CUfunction)p->kern, shape, p->kernelParams, p->extra, &w->launch);
}

static CUresult copy_work(const CUDA_MEMCPY3D *p, struct work *w) {
    *w = (struct work){.kind = WORK_COPY, .copy = copy_of_3d(p)};
    return copy_check_node(&w->copy);
}

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS_v2 *p, struct work *w) {
    INVALID_IF(p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4);
    *w =
        (struct work){.kind = WORK_MEMSET, .memset = {p->dst, p->pitch, p->width, p->height, p->value, p->elementSize}};
    return memset_check_node(&w->memset);
}

static CUresult memops_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct work *w) {
    TRY(p->paramArray || !p->count ? memops_check(p->paramArray, p->count) : CUDA_ERROR_INVALID_VALUE);
    w->kind = WORK_MEMOPS;
    return memops_copy(&w->memops, p->paramArray, p->count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS *p, struct work *w) {
    INVALID_IF(p->bytesize == 0 || p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
               !device_valid(p->poolProps.location.id));
    p->dptr = memory_reserve_for_graph(p->bytesize);
    if (!p->dptr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (struct work){.kind = WORK_ALLOC, .allocation = {p->dptr, p->bytesize, *p}};
    return CUDA_SUCCESS;
}

static CUresult child_work(CUgraph child, struct work *w) {
    w->kind = WORK_CHILD;
    w->child = child ? graph_clone(child) : NULL;
    if (!w->child)
        return child ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    w->child->child = true;
    return CUDA_SUCCESS;
}

static CUresult event_work(enum work_kind kind, CUevent e, struct work *w) {
    *w = (struct work){.kind = kind, .event = e};
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult work_of_params(CUcontext c, CUgraphNodeParams *p, struct work *w) {
    *w = (struct work){.kind = WORK_EMPTY};
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_work(p->kernel.ctx ? p->kernel.ctx : c, &p->kernel, w);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return copy_work(&p->memcpy.copyParams, w);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return memset_work(&p->memset, w);
    case CU_GRAPH_NODE_TYPE_HOST:
        *w = (struct work){.kind = WORK_HOST, .host = {.function = p->host.fn, .data = p->host.userData}};
        return p->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return child_work(p->graph.graph, w);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return event_work(WORK_WAIT, p->eventWait.event, w);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return event_work(WORK_RECORD, p->eventRecord.event, w);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return allocation_work(&p->alloc, w);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        *w = (struct work){.kind = WORK_FREE, .allocation = {.address = p->free.dptr}};
        return p->free.dptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return memops_work(&p->memOp, w);
    default:
        NOT_EMULATED("a graph node of this type");
    }
}

/* --- work to parameters --- */

static CUresult kernel_params(CUgraphNode n, CUDA_KERNEL_NODE_PARAMS *p) {
    struct launch *l = n->work.launch;
    const struct emu_kernel *k = l->function->kernel;
    free(n->view);
    n->view = calloc(k->param_count + 1, sizeof *n->view);
    if (!n->view)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint64_t i = 0; i < k->param_count; i++)
        n->view[i] = l->arguments + k->params[i].offset;
    *p = (CUDA_KERNEL_NODE_PARAMS){.func = l->function,
                                   .gridDimX = l->shape[0],
                                   .gridDimY = l->shape[1],
                                   .gridDimZ = l->shape[2],
                                   .blockDimX = l->shape[3],
                                   .blockDimY = l->shape[4],
                                   .blockDimZ = l->shape[5],
                                   .sharedMemBytes = l->shape[6],
                                   .kernelParams = n->view};
    return CUDA_SUCCESS;
}

CUresult params_of_node(CUgraphNode n, CUgraphNodeParams *p) {
    const struct work *w = &n->work;
    memset(p, 0, sizeof *p);
    p->type = n->type;
    switch (n->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_params(n, &p->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        p->memcpy.copyParams = copy_to_3d(&w->copy);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        p->memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = w->memset.address,
                                                 .pitch = w->memset.pitch,
                                                 .value = w->memset.value,
                                                 .elementSize = w->memset.element,
                                                 .width = w->memset.width,
                                                 .height = w->memset.height};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        p->host = (CUDA_HOST_NODE_PARAMS){w->host.function, w->host.data};
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        p->graph.graph = w->child;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        p->eventWait.event = w->event;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        p->alloc = w->allocation.params;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        p->free.dptr = w->allocation.address;
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        p->memOp = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.count = (unsigned)w->memops.count, .paramArray = w->memops.ops};
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

/* --- nodes --- */

CUresult node_add(CUgraph g, CUgraphNode *out, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t n,
                  CUgraphNodeParams *p) {
    struct work w;
    INVALID_IF(!g || !out || !p || (n && !after));
    for (size_t i = 0; i < n; i++)
        INVALID_IF(!after[i] || after[i]->graph != g);
    TRY(work_of_params(context_current(), p, &w));
    return node_new(g, p->type, &w, after, edges, n, out);
}

CUresult work_set_params(struct work *w, CUgraphNodeType type, CUgraphNodeParams *p) {
    struct work changed;
    INVALID_IF(p->type != type || type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE);
    TRY(work_of_params(context_current(), p, &changed));
    work_release(w);
    *w = changed;
    return CUDA_SUCCESS;
}
