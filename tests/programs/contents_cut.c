/* Graphs that touch a large part of what may be there, and more. */
#include "contents.h"
#include "counters.h"

USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuStreamSynchronize)
USE(cuStreamWaitEvent)
USE(cuEventCreate)
USE(cuEventRecord)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuLaunchHostFunc)
USE(cuGraphCreate)
USE(cuGraphDestroy)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphExecDestroy)
USE(cuGraphLaunch)
USE(cuGraphAddMemsetNode)
USE(cuGraphAddMemcpyNode)
USE(cuGraphAddNode_v2)
USE(cuGraphAddHostNode)
USE(cuGraphAddEmptyNode)
USE(cuGraphAddChildGraphNode)
USE(cuGraphAddEventRecordNode)
USE(cuGraphAddEventWaitNode)
USE(cuGraphAddDependencies)
USE(cuGraphExecMemsetNodeSetParams)
USE(cuGraphExecHostNodeSetParams)
USE(cuGraphExecEventRecordNodeSetEvent)
USE(cuGraphExecUpdate_v2)
USE(cuGraphNodeSetEnabled)

enum { BYTES = BLOCK_MIB * MIB, ROUNDS = 12 };

/* --- pieces --- */

/* Launches of one graph must not overlap: how many run, and how often the last node was reached. Atomic. */
static int running, ended;

static void begin(void *data) {
    (void)data;
    if (__atomic_add_fetch(&running, 1, __ATOMIC_SEQ_CST) != 1) {
        fprintf(stderr, "two launches of a graph overlap\n");
        _exit(1);
    }
}

static void end(void *data) {
    usleep(1000);
    __atomic_sub_fetch(&running, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add((int *)data, 1, __ATOMIC_SEQ_CST);
}

static CUDA_MEMSET_NODE_PARAMS setting(int i, unsigned value) {
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = block[i], .value = value, .elementSize = 4, .width = BLOCK_MIB * WORDS, .height = 1};
}

static CUgraphNode add_set(CUgraph g, int i, unsigned value, const CUgraphNode *after) {
    CUDA_MEMSET_NODE_PARAMS p = setting(i, value);
    CUgraphNode node;
    MUST(cuGraphAddMemsetNode(&node, g, after, after != NULL, &p, context));
    return node;
}

static CUDA_MEMCPY3D copying(int from, int to) {
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = block[from],
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = block[to],
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
}

static CUgraphNode add_copy(CUgraph g, int from, int to, const CUgraphNode *after) {
    CUDA_MEMCPY3D p = copying(from, to);
    CUgraphNode node;
    MUST(cuGraphAddMemcpyNode(&node, g, after, after != NULL, &p, context));
    return node;
}

/* It may begin before the one that it follows has ended. */
static CUgraphNode add_joined_copy(CUgraph g, int from, int to, const CUgraphNode *after) {
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                           .memcpy = {.copyCtx = context, .copyParams = copying(from, to)}};
    CUgraphEdgeData edge = {.from_port = 1, .type = 1};
    CUgraphNode node;
    MUST(cuGraphAddNode_v2(&node, g, after, &edge, 1, &p));
    return node;
}

static CUgraphNode add_host(CUgraph g, CUhostFn fn, void *data, const CUgraphNode *after) {
    CUDA_HOST_NODE_PARAMS p = {fn, data};
    CUgraphNode node;
    MUST(cuGraphAddHostNode(&node, g, after, after != NULL, &p));
    return node;
}

/* One node after the other, of every kind; the first ones were made last. */
struct made {
    CUgraph graph;
    CUgraphNode third, fourth, last, record;
};

static struct made make(unsigned value, CUevent event) {
    struct made m;
    CUgraph child;
    CUgraphNode node;
    MUST(cuGraphCreate(&m.graph, 0));
    MUST(cuGraphCreate(&child, 0));
    node = add_set(child, 0, value, NULL);
    add_copy(child, 0, 1, &node);
    m.third = node = add_set(m.graph, 2, value + 2, NULL);
    m.fourth = node = add_joined_copy(m.graph, 1, 3, &node);
    MUST(cuGraphAddEventRecordNode(&m.record, m.graph, &node, 1, event));
    MUST(cuGraphAddEventWaitNode(&node, m.graph, &m.record, 1, event));
    for (int i = 4; i < BLOCKS; i++)
        node = add_set(m.graph, i, value + (unsigned)i, &node);
    MUST(cuGraphAddEmptyNode(&node, m.graph, &node, 1));
    m.last = add_host(m.graph, end, &ended, &node);
    node = add_host(m.graph, begin, NULL, NULL);
    MUST(cuGraphAddChildGraphNode(&node, m.graph, &node, 1, child));
    MUST(cuGraphAddDependencies(m.graph, &node, &m.third, 1));
    MUST(cuGraphDestroy(child));
    return m;
}

static void launch(CUgraphExec exec) {
    static CUstream other;
    CUevent before;
    if (!other)
        other = new_stream();
    MUST(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    set_blocks(stream);
    MUST(cuEventRecord(before, stream));
    MUST(cuStreamWaitEvent(other, before, 0));
    MUST(cuGraphLaunch(exec, other));
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(other));
}

static void judge_blocks(unsigned value, unsigned third, unsigned fourth) {
    for (unsigned i = 0; i < BLOCKS; i++)
        expect(block[i], i < 2 ? value : i == 2 ? third : i == 3 ? fourth : value + i, BLOCK_MIB, stream);
}

/* What the executable graph does counts, not the graph that it was made of. */
void pieces(void) {
    CUgraphExec exec;
    CUevent event, other;
    CUgraphExecUpdateResultInfo how;
    int elsewhere = 0;
    CUDA_HOST_NODE_PARAMS last = {end, &elsewhere};
    fill_blocks();
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    struct made m = make(100, event);
    MUST(cuGraphInstantiateWithFlags(&exec, m.graph, 0));
    launch(exec);
    judge_blocks(100, 102, 100);
    CUDA_MEMSET_NODE_PARAMS p = setting(2, 7);
    MUST(cuGraphExecMemsetNodeSetParams(exec, m.third, &p, context));
    MUST(cuGraphExecHostNodeSetParams(exec, m.last, &last));
    MUST(cuGraphExecEventRecordNodeSetEvent(exec, m.record, other));
    MUST(cuGraphNodeSetEnabled(exec, m.fourth, 0));
    launch(exec);
    judge_blocks(100, 7, 3);
    MUST(cuGraphNodeSetEnabled(exec, m.fourth, 1));
    launch(exec);
    judge_blocks(100, 7, 100);
    MUST(cuGraphExecDestroy(exec));
    MUST(cuGraphInstantiateWithFlags(&exec, m.graph, 0));
    struct made newer = make(200, event);
    MUST(cuGraphExecUpdate_v2(exec, newer.graph, &how));
    MUST(cuGraphDestroy(newer.graph));
    MUST(cuGraphDestroy(m.graph));
    launch(exec);
    judge_blocks(200, 202, 200);
    printf("ended %d\nelsewhere %d\n", ended, elsewhere);
}

/* --- replayed --- */

static void issue(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemcpyDtoDAsync_v2(block[i], block[i] + BYTES / 2, BYTES / 2, stream));
}

static uint64_t moved(counter_reader counter) {
    return counter ? counter("filled_bytes") + counter("faulted_bytes") + counter("in_place_bytes") : 0;
}

static void issue_little(void) {
    set(block[0], 1, BLOCK_MIB, stream);
}

static void issue_all_that_fits(void) {
    for (int i = 0; i < 2; i++)
        set(block[i], 1, BLOCK_MIB, stream);
}

static CUgraphExec captured(void (*work)(void)) {
    CUgraph graph;
    CUgraphExec exec;
    MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    work();
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void print_launches(const char *name, CUgraphExec exec) {
    uint64_t before = emu_calls("cuGraphLaunch");
    MUST(cuGraphLaunch(exec, stream));
    printf("%s %llu\n", name, (unsigned long long)(emu_calls("cuGraphLaunch") - before));
}

/* Prints what comes to the device in as many steps, launched one by one, and as a graph; and how often the driver
 * launches a graph for a launch of one node, and of two that fill the device. */
void replayed(void) {
    counter_reader counter = find_counter();
    fill_blocks();
    CUgraphExec exec = captured(issue), little = captured(issue_little), full = captured(issue_all_that_fits);
    for (int how = 0; how < 2; how++) {
        uint64_t before = moved(counter);
        for (int round = 0; round < ROUNDS; round++)
            if (how)
                MUST(cuGraphLaunch(exec, stream));
            else
                issue();
        MUST(cuStreamSynchronize(stream));
        printf("%s %llu\n", how ? "replayed" : "issued", (unsigned long long)(moved(counter) - before) / MIB);
    }
    print_launches("whole", little);
    print_launches("halves", full);
}
