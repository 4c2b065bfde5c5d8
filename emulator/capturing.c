/* The calls on capture. */
#include "capture.h"

STREAMED(cuStreamBeginCapture, _ptsz, (CUstream stream), (stream)) {
    BEGIN_ON(stream);
    return capture_begin(s, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

STREAMED(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode), (stream, mode)) {
    BEGIN_ON(stream);
    return capture_begin(s, NULL, NULL, 0, mode);
}

STREAMED(cuStreamBeginCaptureToGraph, _ptsz,
         (CUstream stream, CUgraph g, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t n,
          CUstreamCaptureMode mode),
         (stream, g, after, edges, n, mode)) {
    BEGIN_ON(stream);
    (void)edges;
    return g ? capture_begin(s, g, after, n, mode) : CUDA_ERROR_INVALID_VALUE;
}

STREAMED(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *out), (stream, out)) {
    BEGIN_ON(stream);
    return out ? capture_end(s, out) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    BEGIN(CALL_DRIVER);
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_self()->capture_mode;
    thread_self()->capture_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

/* Asking about the legacy stream while a blocking stream captures would be an implicit wait. */
static bool implicit(CUstream s) {
    return s == s->context->legacy && atomic_load(&s->context->captures) > 0;
}

STREAMED(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus *status), (stream, status)) {
    BEGIN_ON(stream);
    struct capture_info i;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (implicit(s))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    capture_info(s, &i);
    *status = i.status;
    return CUDA_SUCCESS;
}

static CUresult info(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                     const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *n) {
    struct capture_info i;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
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

STREAMED(cuStreamGetCaptureInfo, _ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
         (stream, status, id)) {
    BEGIN_ON(stream);
    return info(s, status, id, NULL, NULL, NULL, NULL);
}

STREAMED(cuStreamGetCaptureInfo_v2, _ptsz,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
          size_t *n),
         (stream, status, id, graph, nodes, n)) {
    BEGIN_ON(stream);
    return info(s, status, id, graph, nodes, NULL, n);
}

STREAMED(cuStreamGetCaptureInfo_v3, _ptsz,
         (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes,
          const CUgraphEdgeData **edges, size_t *n),
         (stream, status, id, graph, nodes, edges, n)) {
    BEGIN_ON(stream);
    return info(s, status, id, graph, nodes, edges, n);
}

static CUresult update(CUstream s, const CUgraphNode *nodes, size_t n, unsigned flags) {
    if ((n && !nodes) || flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    return capture_set_tail(s, nodes, n, flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES);
}

STREAMED(cuStreamUpdateCaptureDependencies, _ptsz, (CUstream stream, CUgraphNode *nodes, size_t n, unsigned flags),
         (stream, nodes, n, flags)) {
    BEGIN_ON(stream);
    return update(s, nodes, n, flags);
}

STREAMED(cuStreamUpdateCaptureDependencies_v2, _ptsz,
         (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t n, unsigned flags),
         (stream, nodes, edges, n, flags)) {
    BEGIN_ON(stream);
    (void)edges;
    return update(s, nodes, n, flags);
}
