/* Capture: what a stream is given becomes a graph; and what must not be called meanwhile. */
#include "emu_api.h"

static const CUstreamCaptureMode GLOBAL = CU_STREAM_CAPTURE_MODE_GLOBAL, LOCAL = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                 RELAXED = CU_STREAM_CAPTURE_MODE_RELAXED;

static CUgraph finish(CUstream s) {
    CUgraph g;
    OK(cuStreamEndCapture(s, &g));
    CHECK(g != NULL);
    return g;
}

static void launch(CUgraph g) {
    CUgraphExec e;
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphLaunch(e, NULL));
    OK(cuCtxSynchronize());
}

static size_t count_nodes(CUgraph g) {
    size_t n;
    OK(cuGraphGetNodes(g, NULL, &n));
    return n;
}

static CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus status;
    OK(cuStreamIsCapturing(s, &status));
    return status;
}

static void expect_lost(CUstream s) {
    CUgraph g = (CUgraph)1;
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CHECK_EQ(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQ(g, 0);
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST(what_was_captured_runs_when_launched) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(64);
    OK(fill(NULL, p, 1, 1));
    OK(cuCtxSynchronize());
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    CHECK_EQ(status(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(scale(s, p, 2, 1));
    OK(cuMemcpyDtoDAsync_v2(p + 4, p, 4, s));
    OK(cuMemsetD32Async(p + 8, 0x3f800000, 1, s));
    CUgraph g = finish(s);
    CHECK(first_float(p) == 1);
    CHECK_EQ(count_nodes(g), 3);
    launch(g);
    launch(g);
    CHECK(first_float(p) == 4 && first_float(p + 4) == 4 && first_float(p + 8) == 1);
}

TEST(streams_fork_and_join_through_events) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(8), sum = device_memory(4);
    CUevent fork, join;
    OK(cuEventCreate(&fork, 0));
    OK(cuEventCreate(&join, 0));
    OK(cuStreamBeginCapture_v2(a, LOCAL));
    OK(fill(a, p, 1, 2));
    OK(cuEventRecord(fork, a));
    CHECK_EQ(cuEventQuery(fork), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); /* unsafe in this thread */
    CUgraph lost;
    CHECK_EQ(cuStreamEndCapture(a, &lost), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    OK(cuStreamBeginCapture_v2(a, RELAXED));
    OK(fill(a, p, 1, 2));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    CHECK_EQ(status(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(scale(b, p + 4, 3, 1));
    OK(scale(a, p, 2, 1));
    OK(cuEventRecord(join, b));
    OK(cuStreamWaitEvent(a, join, 0));
    uint64_t n = 2;
    OK(LAUNCH(a, "reduce_sum", &sum, &p, &n));
    CUstreamCaptureStatus active;
    cuuint64_t id;
    CUgraph graph;
    const CUgraphNode *last;
    size_t count;
    OK(cuStreamGetCaptureInfo_v2(a, &active, &id, &graph, &last, &count));
    CHECK_EQ(count, 1);
    size_t before;
    OK(cuGraphNodeGetDependencies(last[0], NULL, &before));
    CHECK_EQ(before, 2);
    CUgraph g = finish(a);
    CHECK_EQ(g, graph);
    CHECK_EQ(status(b), CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK_EQ(count_nodes(g), 4);
    launch(g);
    CHECK(first_float(sum) == 5);
    CHECK_EQ(cuEventQuery(fork), CUDA_ERROR_CAPTURED_EVENT);
    OK(cuEventRecord(fork, a));
    OK(cuEventSynchronize(fork));
}

TEST(forked_work_has_to_be_joined) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(8);
    CUevent fork;
    OK(cuEventCreate(&fork, 0));
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    OK(fill(a, p, 1, 1));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(fill(b, p, 1, 1));
    CUgraph g;
    CHECK_EQ(cuStreamEndCapture(b, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK_EQ(cuStreamEndCapture(a, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    OK(cuStreamBeginCapture_v2(a, GLOBAL));
    OK(fill(a, p, 1, 1));
    OK(cuEventRecord(fork, a));
    OK(cuStreamWaitEvent(b, fork, 0));
    OK(fill(b, p, 1, 1));
    CHECK_EQ(cuStreamEndCapture(a, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    OK(fill(b, p, 1, 1)); /* both are ordinary streams again */
    OK(cuStreamSynchronize(b));
}

TEST(unsafe_calls_lose_the_capture) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(8), q;
    kernel("fill");
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    OK(fill(s, p, 1, 1));
    CHECK_EQ(cuMemAlloc_v2(&q, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(fill(s, p, 1, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    CHECK_EQ(cuMemFree_v2(p), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, RELAXED));
    OK(cuMemAlloc_v2(&q, 4));
    CHECK_EQ(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); /* never allowed */
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, RELAXED));
    CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, RELAXED));
    CHECK_EQ(cuMemPrefetchAsync(managed_memory(4096), 4096, 0, s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_lost(s);
    OK(cuMemFree_v2(q));
}

TEST(a_thread_says_how_strict_it_is) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p;
    CUstreamCaptureMode mode = RELAXED;
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQ(mode, GLOBAL);
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_EQ(mode, RELAXED);
    OK(cuMemsetD8Async(p, 1, 4, s));
    CHECK_EQ(count_nodes(finish(s)), 1);
}

static CUresult result_elsewhere;
static CUstream stream_elsewhere;

static void *allocate_elsewhere(void *context) {
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    result_elsewhere = cuMemAlloc_v2(&p, 4);
    return NULL;
}

static void *end_elsewhere(void *context) {
    CUgraph g;
    OK(cuCtxSetCurrent(context));
    result_elsewhere = cuStreamEndCapture(stream_elsewhere, &g);
    return NULL;
}

static CUresult elsewhere(void *(*call)(void *), CUcontext c) {
    pthread_t t;
    pthread_create(&t, NULL, call, c);
    pthread_join(t, NULL);
    return result_elsewhere;
}

TEST(other_threads_are_bound_by_global_captures_only) {
    CUcontext c = begin();
    CUstream s = stream_elsewhere = new_stream(CU_STREAM_NON_BLOCKING);
    OK(cuStreamBeginCapture_v2(s, LOCAL));
    CHECK_EQ(elsewhere(allocate_elsewhere, c), CUDA_SUCCESS);
    CHECK_EQ(elsewhere(end_elsewhere, c), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    CHECK_EQ(elsewhere(allocate_elsewhere, c), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    expect_lost(s);
    OK(cuStreamBeginCapture_v2(s, RELAXED));
    CHECK_EQ(elsewhere(end_elsewhere, c), CUDA_SUCCESS);
}

TEST(the_legacy_stream_keeps_away_from_blocking_captures) {
    begin();
    CUstream blocking = new_stream(CU_STREAM_DEFAULT), apart = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(8);
    CUstreamCaptureStatus now;
    CUgraph g;
    OK(cuMemsetD8_v2(p, 0, 8));
    OK(cuStreamBeginCapture_v2(blocking, RELAXED));
    CHECK_EQ(cuStreamIsCapturing(NULL, &now), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQ(cuMemsetD8_v2(p, 1, 8), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    expect_lost(blocking);
    OK(cuStreamBeginCapture_v2(apart, RELAXED));
    OK(cuMemsetD8_v2(p, 1, 8));
    OK(cuStreamEndCapture(apart, &g));
    CHECK_EQ(cuStreamBeginCapture_v2(NULL, RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQ(cuStreamEndCapture(apart, &g), CUDA_ERROR_ILLEGAL_STATE);
}

TEST(captures_do_not_mix) {
    begin();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e;
    OK(cuEventCreate(&e, 0));
    OK(cuEventRecord(e, b));
    OK(cuStreamBeginCapture_v2(a, RELAXED));
    CHECK_EQ(cuStreamWaitEvent(a, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    expect_lost(a);
    OK(cuStreamBeginCapture_v2(a, RELAXED));
    OK(cuStreamBeginCapture_v2(b, RELAXED));
    OK(cuEventRecord(e, a));
    CHECK_EQ(cuStreamWaitEvent(b, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    expect_lost(a);
    expect_lost(b);
}

TEST(capture_into_a_graph_that_exists) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p = device_memory(4);
    CUgraph g, same;
    CUgraphNode first;
    CUDA_MEMSET_NODE_PARAMS m = {.dst = p, .value = 0x40000000, .elementSize = 4, .width = 1, .height = 1}; /* 2.0 */
    OK(cuGraphCreate(&g, 0));
    OK(cuGraphAddMemsetNode(&first, g, NULL, 0, &m, NULL));
    OK(cuStreamBeginCaptureToGraph(s, g, &first, NULL, 1, RELAXED));
    OK(scale(s, p, 4, 1));
    OK(cuStreamEndCapture(s, &same));
    CHECK_EQ(same, g);
    CHECK_EQ(count_nodes(g), 2);
    launch(g);
    CHECK(first_float(p) == 8);
}

TEST(stream_ordered_memory_becomes_nodes) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p, out = device_memory(4);
    kernel("fill");
    size_t before = memory_used();
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    OK(cuMemAllocAsync(&p, 1000, s));
    OK(fill(s, p, 6, 250));
    OK(cuMemcpyDtoDAsync_v2(out, p + 996, 4, s));
    OK(cuMemFreeAsync(p, s));
    CUgraph g = finish(s);
    CHECK_EQ(count_nodes(g), 4);
    CHECK_EQ(memory_used(), before);
    launch(g);
    CHECK(first_float(out) == 6);
    CHECK_EQ(memory_used(), before + 2 * MiB);
    OK(cuDeviceGraphMemTrim(0));
    CHECK_EQ(memory_used(), before);
}

TEST(external_events_are_nodes) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e;
    OK(cuEventCreate(&e, 0));
    OK(cuStreamBeginCapture_v2(s, RELAXED));
    OK(cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
    CUgraph g = finish(s);
    CHECK_EQ(count_nodes(g), 1);
    launch(g);
    OK(cuEventSynchronize(e));
}

TEST(a_stream_that_goes_takes_its_part_with_it) {
    begin();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr p;
    OK(cuStreamBeginCapture_v2(s, GLOBAL));
    OK(cuStreamDestroy_v2(s));
    OK(cuMemAlloc_v2(&p, 4)); /* nothing captures any more */
}
