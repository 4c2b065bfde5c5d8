/* The parts with graphs. */
#include "contents.h"
#include "counters.h"

USE(cuMemAlloc_v2)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuStreamSynchronize)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphCreate)
USE(cuGraphAddMemsetNode)
USE(cuGraphAddDependencies)
USE(cuGraphExecUpdate_v2)
USE(cuGraphExecMemsetNodeSetParams)
USE(cuGraphNodeSetEnabled)
USE(cuLaunchHostFunc)

enum { PIECES = 400 };

/* --- copies --- */

/* Each block but the last gets the content of the next. */
void graph(void) {
    CUgraph captured;
    CUgraphExec exec;
    size_t bytes = BLOCK_MIB * MIB / PIECES;
    fill_blocks();
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i + 1 < BLOCKS; i++)
        for (size_t at = 0; at < BLOCK_MIB * MIB; at += bytes)
            MUST(cuMemcpyDtoDAsync_v2(block[i] + at, block[i + 1] + at,
                                      at + bytes > BLOCK_MIB * MIB ? BLOCK_MIB * MIB - at : bytes, stream));
    MUST(cuStreamEndCapture(stream, &captured));
    MUST(cuGraphInstantiateWithFlags(&exec, captured, 0));
    for (unsigned round = 1; round < 3; round++) {
        MUST(cuGraphLaunch(exec, stream));
        for (unsigned i = 0; i < BLOCKS; i++)
            expect(block[i], i + round < BLOCKS ? i + round : BLOCKS - 1, BLOCK_MIB, stream);
    }
}

/* --- reordered --- */

static CUDA_MEMSET_NODE_PARAMS setting(int i, unsigned value) {
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = block[i], .value = value, .elementSize = 4, .width = BLOCK_MIB * WORDS, .height = 1};
}

static CUgraphNode add_set(CUgraph g, int i, unsigned value) {
    CUDA_MEMSET_NODE_PARAMS p = setting(i, value);
    CUgraphNode node;
    MUST(cuGraphAddMemsetNode(&node, g, NULL, 0, &p, context));
    return node;
}

/* Block 0 is set before block 1 by both graphs; of the second the later node was made first. */
void reordered(void) {
    CUgraph first, second;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo how;
    fill_blocks();
    CUDA_MEMSET_NODE_PARAMS other = setting(2, 300);
    MUST(cuGraphCreate(&first, 0));
    MUST(cuGraphCreate(&second, 0));
    CUgraphNode node = add_set(first, 0, 100), behind = add_set(first, 1, 200);
    MUST(cuGraphAddDependencies(first, &node, &behind, 1));
    CUgraphNode last = add_set(second, 1, 200), before = add_set(second, 0, 100);
    MUST(cuGraphAddDependencies(second, &before, &last, 1));
    MUST(cuGraphInstantiateWithFlags(&exec, first, 0));
    MUST(cuGraphExecUpdate_v2(exec, second, &how));
    MUST(cuGraphExecMemsetNodeSetParams(exec, node, &other, context));
    for (unsigned round = 0; round < 4; round++) {
        set_blocks(stream);
        MUST(cuGraphLaunch(exec, stream));
        for (unsigned i = 0; i < BLOCKS; i++)
            expect(block[i], i == 1 ? 200 : i == 2 ? 300 : i, BLOCK_MIB, stream);
    }
}

/* --- disabled --- */

void disabled(void) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo how;
    counter_reader counter = find_counter();
    fill_blocks();
    MUST(cuGraphCreate(&graph, 0));
    CUgraphNode node = add_set(graph, 0, 100);
    add_set(graph, 1, 200);
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    MUST(cuGraphNodeSetEnabled(exec, node, 0));
    for (int i = 0; i < 2; i++) {
        uint64_t before = counter("touched_bytes");
        MUST(cuGraphLaunch(exec, stream));
        printf("%s %llu\n", i ? "updated" : "disabled", (unsigned long long)(counter("touched_bytes") - before) / MIB);
        MUST(cuGraphExecUpdate_v2(exec, graph, &how));
    }
}

/* --- unread --- */

static int reached, opened; /* atomic */

static void wait_at_gate(void *data) {
    (void)data;
    __atomic_store_n(&reached, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&opened, __ATOMIC_SEQ_CST))
        usleep(1000);
}

/* Writes all of the block, waits, and copies it to `host`. */
static CUgraphExec unread_graph(CUdeviceptr p) {
    CUgraph captured;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    set(p, 8, BLOCK_MIB, stream);
    MUST(cuLaunchHostFunc(stream, wait_at_gate, NULL));
    MUST(cuMemcpyDtoHAsync_v2(host, p, BLOCK_MIB * MIB, stream));
    MUST(cuStreamEndCapture(stream, &captured));
    emu_fail("cuGraphGetNodes:sticky");
    MUST(cuGraphInstantiateWithFlags(&exec, captured, 0));
    emu_fail(NULL);
    return exec;
}

void unread(void) {
    CUdeviceptr temporary;
    CUstream other = new_stream();
    fill_blocks();
    MUST(cuMemAlloc_v2(&temporary, BLOCK_MIB * MIB));
    report(temporary, BLOCK_MIB * MIB);
    set(temporary, 7, BLOCK_MIB, stream);
    MUST(cuGraphLaunch(unread_graph(temporary), stream));
    while (!__atomic_load_n(&reached, __ATOMIC_SEQ_CST))
        usleep(1000);
    report(temporary, -BLOCK_MIB * MIB);
    set_blocks(other);
    MUST(cuStreamSynchronize(other));
    __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST);
    MUST(cuStreamSynchronize(stream));
    judge(8, BLOCK_MIB);
}
