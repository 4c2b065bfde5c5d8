/* The calls on capture. */
#include "capture.h"

CALL_ON(cuStreamBeginCapture, CUstream stream) {
    return capture_begin(s, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CALL_ON(cuStreamBeginCapture_v2, CUstream stream, CUstreamCaptureMode mode) {
    return capture_begin(s, NULL, NULL, 0, mode);
}

CALL_ON(cuStreamBeginCaptureToGraph, CUstream stream, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *edges,
        size_t n, CUstreamCaptureMode mode) {
    return g ? capture_begin(s, g, after, n, mode) : CUDA_ERROR_INVALID_VALUE;
}

CALL_ON(cuStreamEndCapture, CUstream stream, CUgraph *out) {
    return out ? capture_end(s, out) : CUDA_ERROR_INVALID_VALUE;
}

CALL(cuThreadExchangeStreamCaptureMode, CALL_DRIVER, CUstreamCaptureMode *mode) {
    INVALID_IF(!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureMode before = thread_self()->capture_mode;
    thread_self()->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* Asking about the legacy stream while a blocking stream captures would be an implicit wait. */
static bool implicit(CUstream s) {
    return s == s->context->legacy && atomic_load(&s->context->captures) > 0;
}

CALL_ON(cuStreamGetCaptureInfo_v3, CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
        const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *n) {
    struct capture_info i;
    INVALID_IF(!status);
    if (implicit(s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    capture_info(s, &i);
    *status = i.status;
    if (i.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = i.id;
    if (graph)
        *graph = i.graph;
    if (nodes)
        *nodes = i.tail.nodes;
    if (edges)
        *edges = i.tail.edges;
    if (n)
        *n = i.tail.count;
    return CUDA_SUCCESS;
}

CALL_ON(cuStreamGetCaptureInfo_v2, CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
        const CUgraphNode **nodes, size_t *n) {
    return body_cuStreamGetCaptureInfo_v3(c, s, stream, status, id, graph, nodes, NULL, n);
}

CALL_ON(cuStreamGetCaptureInfo, CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id) {
    return body_cuStreamGetCaptureInfo_v3(c, s, stream, status, id, NULL, NULL, NULL, NULL);
}

CALL_ON(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status) {
    return body_cuStreamGetCaptureInfo_v3(c, s, stream, status, NULL, NULL, NULL, NULL, NULL);
}
