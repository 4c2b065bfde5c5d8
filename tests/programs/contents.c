/* What memory holds, over more of it than the budget, while an operation that overwrites it has not run, was refused,
 * or nobody wants it any more.
 *
 *   contents refused    the driver refuses calls that would overwrite memory
 *   contents overtaken  an operation waits for its turn on a stream; one that is issued later reads before it
 *   contents graph      one graph copies all of it, in more pieces than a kernel could have arguments
 *   contents dead       a framework takes back a block that the device has to give up next
 *   contents early      it gave out that block while all memory fitted
 *   contents shared     the same, of two blocks that share a page: one is wanted
 *   contents awaited    streams wait for a word of memory that has nothing else to do there
 *   contents reordered  a graph is updated from one whose nodes were made in another order, and a node is set
 *   contents unread     a graph that could not be read still uses a block that the framework took back
 *
 * Ends at the first word that is wrong. Prints "out BYTES": copied to the host by others than the program. Under
 * ulms.so "counter NAME VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "emu.h"
#include "framework.h"
#include "must.h"

USE(cuInit)
USE(cuDevicePrimaryCtxRetain)
USE(cuCtxSetCurrent)
USE(cuMemAlloc_v2)
USE(cuMemHostAlloc)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyHtoDAsync_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuStreamCreate)
USE(cuStreamSynchronize)
USE(cuStreamQuery)
USE(cuStreamWaitValue32_v2)
USE(cuStreamWriteValue32_v2)
USE(cuStreamBatchMemOp_v2)
USE(cuStreamBeginCapture_v2)
USE(cuStreamEndCapture)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphCreate)
USE(cuGraphAddBatchMemOpNode)
USE(cuGraphAddMemsetNode)
USE(cuGraphAddDependencies)
USE(cuGraphExecUpdate_v2)
USE(cuGraphExecMemsetNodeSetParams)
USE(cuLaunchHostFunc)

enum { MIB = 1 << 20, WORDS = MIB / 4, BLOCKS = 8, BLOCK_MIB = 4, PIECES = 400, SEEN_US = 20000, TRIES = 8 };

static CUcontext context;
static CUstream stream;
static CUdeviceptr block[BLOCKS];
static unsigned host[BLOCK_MIB * WORDS];
static uint64_t copied_out; /* by the program */

static void set(CUdeviceptr p, unsigned value, size_t mib, CUstream s) {
    MUST(cuMemsetD32Async(p, value, mib * WORDS, s));
}

/* Every word of so many MiB, in the stream's order. */
static void expect(CUdeviceptr p, unsigned value, size_t mib, CUstream s) {
    MUST(cuMemcpyDtoHAsync_v2(host, p, mib * MIB, s));
    MUST(cuStreamSynchronize(s));
    copied_out += mib * MIB;
    for (size_t i = 0; i < mib * WORDS; i++)
        if (host[i] != value) {
            fprintf(stderr, "word %zu is %x, not %x\n", i, host[i], value);
            _exit(1);
        }
}

static void fill_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK_MIB * MIB));
    for (unsigned i = 0; i < BLOCKS; i++)
        set(block[i], i, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
}

/* --- refused --- */

static CUresult overwrite(int how, int i) {
    static const char *const calls[] = {"cuMemsetD32Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2"};
    emu_fail(calls[how]);
    if (how == 0)
        return cuMemsetD32Async(block[i], 77, BLOCK_MIB * WORDS, stream);
    if (how == 1)
        return cuMemcpyHtoDAsync_v2(block[i], host, BLOCK_MIB * MIB, stream);
    return cuMemcpyDtoDAsync_v2(block[i], block[(i + 1) % BLOCKS], BLOCK_MIB * MIB, stream);
}

static void refused(void) {
    fill_blocks();
    for (int how = 0; how < 3; how++) {
        for (int i = 0; i < BLOCKS; i++)
            if (overwrite(how, i) == CUDA_SUCCESS)
                _exit(1);
        for (unsigned i = 0; i < BLOCKS; i++)
            expect(block[i], i, BLOCK_MIB, stream);
    }
}

/* --- overtaken --- */

struct waiting {
    CUdeviceptr start;
    CUstream stream;
};

static void *overwrite_all(void *data) {
    const struct waiting *w = data;
    MUST(cuCtxSetCurrent(context));
    set(w->start, 99, 2 * BLOCK_MIB, w->stream);
    return NULL;
}

/* Two blocks fit. One is in use behind the gate, so that not all of `two` can come before the gate opens. */
static void overtaken(void) {
    struct waiting two;
    CUstream behind;
    pthread_t thread;
    unsigned *gate;
    MUST(cuMemHostAlloc((void **)&gate, 4096, 0));
    MUST(cuStreamCreate(&behind, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&two.stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&two.start, 2 * BLOCK_MIB * MIB));
    set(two.start, 55, 2 * BLOCK_MIB, stream);
    fill_blocks();
    *gate = 0;
    MUST(cuStreamWaitValue32_v2(behind, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cuStreamWaitValue32_v2(two.stream, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
    set(block[0], 100, BLOCK_MIB, behind);
    if (pthread_create(&thread, NULL, overwrite_all, &two))
        _exit(1);
    usleep(SEEN_US);
    for (int i = 0; i < BLOCK_MIB; i += 2)
        expect(two.start + (size_t)i * MIB, 55, 2, stream);
    __atomic_store_n(gate, 1, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        expect(two.start + (size_t)i * BLOCK_MIB * MIB, 99, BLOCK_MIB, two.stream);
    expect(block[0], 100, BLOCK_MIB, behind);
}

/* --- graph --- */

/* Each block but the last gets the content of the next. */
static void graph(void) {
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

/* --- dead --- */

static uint64_t out(void) {
    struct emu_traffic now;
    emu_traffic(&now);
    return now.copied_out + now.prefetch_out - copied_out;
}

/* Two blocks fit. Those that are used here were never used before, so that nothing comes early. What has been done is
 * known soon after. */
static uint64_t out_for_dead(useconds_t soon) {
    CUdeviceptr fresh[3];
    for (int i = 0; i < 3; i++)
        MUST(cuMemAlloc_v2(&fresh[i], BLOCK_MIB * MIB));
    report(fresh[0], BLOCK_MIB * MIB);
    set(fresh[0], 8, BLOCK_MIB, stream);
    set(fresh[1], 9, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
    report(fresh[0], -BLOCK_MIB * MIB);
    usleep(soon);
    uint64_t before = out();
    set(fresh[2], 10, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
    uint64_t bytes = out() - before;
    expect(fresh[1], 9, BLOCK_MIB, stream);
    expect(fresh[2], 10, BLOCK_MIB, stream);
    return bytes;
}

static void dead(void) {
    uint64_t least = UINT64_MAX;
    fill_blocks();
    for (int tries = 0; tries < TRIES && least > 0; tries++) {
        uint64_t bytes = out_for_dead(SEEN_US << tries);
        least = bytes < least ? bytes : least;
    }
    printf("dead %llu\n", (unsigned long long)least);
}

/* --- early, shared --- */

/* Two blocks share the memory's first page. */
static void report_both(CUdeviceptr start, int sign) {
    report(start, sign * MIB);
    report(start + MIB, sign * (BLOCK_MIB - 1) * MIB);
}

/* While it is all that there is, and fits. */
static CUdeviceptr told_early(void) {
    CUdeviceptr start;
    MUST(cuMemAlloc_v2(&start, BLOCK_MIB * MIB));
    for (int times = 0; times < 3; times++) {
        report_both(start, 1);
        report_both(start, -1);
    }
    report_both(start, 1);
    return start;
}

static void early(void) {
    CUdeviceptr first = told_early(), fresh[2];
    fill_blocks();
    for (int i = 0; i < 2; i++)
        MUST(cuMemAlloc_v2(&fresh[i], BLOCK_MIB * MIB));
    set(first, 8, BLOCK_MIB, stream);
    set(fresh[0], 9, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
    report_both(first, -1);
    usleep(SEEN_US * 32);
    uint64_t before = out();
    set(fresh[1], 10, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
    printf("dead %llu\n", (unsigned long long)(out() - before));
}

static void shared(void) {
    CUdeviceptr first = told_early();
    set(first, 77, BLOCK_MIB, stream);
    fill_blocks();
    set(first, 78, BLOCK_MIB, stream);
    MUST(cuStreamSynchronize(stream));
    report(first, -MIB);
    usleep(SEEN_US);
    for (unsigned i = 0; i < BLOCKS; i++)
        set(block[i], i, BLOCK_MIB, stream);
    expect(first + MIB, 78, BLOCK_MIB - 1, stream);
}

/* --- awaited --- */

static void wait_plainly(CUdeviceptr word, unsigned value, CUstream s) {
    MUST(cuStreamWaitValue32_v2(s, word, value, CU_STREAM_WAIT_VALUE_GEQ));
}

static CUstreamBatchMemOpParams waiting_for(CUdeviceptr word, unsigned value) {
    return (CUstreamBatchMemOpParams){
        .waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = word, .value = value}};
}

static void wait_in_list(CUdeviceptr word, unsigned value, CUstream s) {
    CUstreamBatchMemOpParams wait = waiting_for(word, value);
    MUST(cuStreamBatchMemOp_v2(s, 1, &wait, 0));
}

static void wait_in_graph(CUdeviceptr word, unsigned value, CUstream s) {
    CUstreamBatchMemOpParams wait = waiting_for(word, value);
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.ctx = context, .count = 1, .paramArray = &wait};
    CUgraph made;
    CUgraphNode node;
    CUgraphExec exec;
    MUST(cuGraphCreate(&made, 0));
    MUST(cuGraphAddBatchMemOpNode(&node, made, NULL, 0, &p));
    MUST(cuGraphInstantiateWithFlags(&exec, made, 0));
    MUST(cuGraphLaunch(exec, s));
}

/* Its page would leave, were it not for who waits. */
static void awaited(void) {
    static void (*const ways[])(CUdeviceptr, unsigned, CUstream) = {wait_plainly, wait_in_list, wait_in_graph};
    CUdeviceptr word;
    CUstream other;
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    MUST(cuMemAlloc_v2(&word, BLOCK_MIB * MIB));
    set(word, 0, BLOCK_MIB, stream);
    fill_blocks();
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        ways[way](word, way + 1, other);
        for (unsigned i = 0; i < 2 * BLOCKS; i++)
            set(block[i % BLOCKS], i, BLOCK_MIB, stream);
        MUST(cuStreamSynchronize(stream));
        if (cuStreamQuery(other) != CUDA_ERROR_NOT_READY) {
            fprintf(stderr, "wait %u is over before the word was written\n", way);
            _exit(1);
        }
        MUST(cuStreamWriteValue32_v2(stream, word, way + 1, 0));
        MUST(cuStreamSynchronize(other));
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
static void reordered(void) {
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
        for (unsigned i = 0; i < BLOCKS; i++)
            set(block[i], i, BLOCK_MIB, stream);
        MUST(cuGraphLaunch(exec, stream));
        for (unsigned i = 0; i < BLOCKS; i++)
            expect(block[i], i == 1 ? 200 : i == 2 ? 300 : i, BLOCK_MIB, stream);
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

static void unread(void) {
    CUdeviceptr temporary;
    CUstream other;
    MUST(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    fill_blocks();
    MUST(cuMemAlloc_v2(&temporary, BLOCK_MIB * MIB));
    report(temporary, BLOCK_MIB * MIB);
    set(temporary, 7, BLOCK_MIB, stream);
    MUST(cuGraphLaunch(unread_graph(temporary), stream));
    while (!__atomic_load_n(&reached, __ATOMIC_SEQ_CST))
        usleep(1000);
    report(temporary, -BLOCK_MIB * MIB);
    for (unsigned i = 0; i < BLOCKS; i++)
        set(block[i], i, BLOCK_MIB, other);
    MUST(cuStreamSynchronize(other));
    __atomic_store_n(&opened, 1, __ATOMIC_SEQ_CST);
    MUST(cuStreamSynchronize(stream));
    for (size_t i = 0; i < BLOCK_MIB * WORDS; i++)
        if (host[i] != 8) {
            fprintf(stderr, "word %zu is %x, not 8\n", i, host[i]);
            _exit(1);
        }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    print_counters_at_exit();
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    if (strcmp(what, "refused") == 0)
        refused();
    else if (strcmp(what, "overtaken") == 0)
        overtaken();
    else if (strcmp(what, "graph") == 0)
        graph();
    else if (strcmp(what, "dead") == 0)
        dead();
    else if (strcmp(what, "early") == 0)
        early();
    else if (strcmp(what, "shared") == 0)
        shared();
    else if (strcmp(what, "awaited") == 0)
        awaited();
    else if (strcmp(what, "reordered") == 0)
        reordered();
    else if (strcmp(what, "unread") == 0)
        unread();
    else
        return 2;
    return 0;
}
