/* Where captures begin and end. */
#include "driver/capture.h"

#include "driver/real.h"

CUresult custom_cuStreamBeginCapture_v2(int variant, CUstream hStream, CUstreamCaptureMode mode) {
    struct capture c = capture_begins(variant, hStream);
    return capture_begun(REAL(cuStreamBeginCapture_v2, variant)(hStream, mode), c);
}

CUresult custom_cuStreamBeginCapture(int variant, CUstream hStream) {
    struct capture c = capture_begins(variant, hStream);
    return capture_begun(REAL(cuStreamBeginCapture, variant)(hStream), c);
}

CUresult custom_cuStreamBeginCaptureToGraph(int variant, CUstream hStream, CUgraph hGraph,
                                            const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                                            size_t numDependencies, CUstreamCaptureMode mode) {
    struct capture c = capture_begins(variant, hStream);
    return capture_begun(REAL(cuStreamBeginCaptureToGraph, variant)(hStream, hGraph, dependencies, dependencyData,
                                                                    numDependencies, mode),
                         c);
}

CUresult custom_cuStreamBeginRecaptureToGraph(int variant, CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
                                              CUgraphRecaptureCallback callbackFunc, void *userData) {
    struct capture c = capture_begins(variant, hStream);
    return capture_begun(REAL(cuStreamBeginRecaptureToGraph, variant)(hStream, mode, hGraph, callbackFunc, userData),
                         c);
}

/* A capture ends also when the driver says that it had become invalid, and goes on after a mistake in the call. */
CUresult custom_cuStreamEndCapture(int variant, CUstream hStream, CUgraph *phGraph) {
    struct capture *c = capture_take(stream_key(variant, hStream));
    CUresult status = REAL(cuStreamEndCapture, variant)(hStream, phGraph);
    if (c && status != CUDA_SUCCESS && capture_goes_on(c->stream))
        capture_put_back(c);
    else if (c)
        capture_over(c);
    return status;
}
