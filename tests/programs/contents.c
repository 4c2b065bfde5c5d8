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
 *   contents disabled   prints the MiB that a graph is thought to touch with a node disabled, and updated after that
 *   contents unread     a graph that could not be read still uses a block that the framework took back
 *   contents pieces     a graph of every kind of node, changed and updated, two launches at a time
 *   contents replayed   prints the MiB that come for operations one by one, and for the same as a graph
 *   contents copies     copies between memory and arrays, in rows, between peers, and fills of rows
 *
 * Ends at the first word that is wrong. Prints "out BYTES": copied to the host by others than the program. Under
 * ulms.so "counter NAME VALUE" follows for each of its counters. */
#define _GNU_SOURCE
#include "contents.h"

#include <pthread.h>
#include <stdlib.h>

#include "counters.h"
#include "gate.h"
#include "part.h"

USE(cuMemAlloc_v2)
USE(cuMemsetD32Async)
USE(cuMemcpyDtoHAsync_v2)
USE(cuMemcpyHtoDAsync_v2)
USE(cuMemcpyDtoDAsync_v2)
USE(cuStreamSynchronize)
USE(cuStreamQuery)
USE(cuStreamWriteValue32_v2)
USE(cuStreamBatchMemOp_v2)
USE(cuGraphInstantiateWithFlags)
USE(cuGraphLaunch)
USE(cuGraphCreate)
USE(cuGraphAddBatchMemOpNode)

enum { SEEN_US = 20000, TRIES = 8 };

CUcontext context;
CUstream stream;
CUdeviceptr block[BLOCKS];
unsigned host[BLOCK_MIB * WORDS];
static uint64_t copied_out; /* by the program */

void set(CUdeviceptr p, unsigned value, size_t mib, CUstream s) {
    MUST(cuMemsetD32Async(p, value, mib * WORDS, s));
}

void judge(unsigned value, size_t mib) {
    for (size_t i = 0; i < mib * WORDS; i++)
        if (host[i] != value) {
            fprintf(stderr, "word %zu is %x, not %x\n", i, host[i], value);
            _exit(1);
        }
}

void expect(CUdeviceptr p, unsigned value, size_t mib, CUstream s) {
    MUST(cuMemcpyDtoHAsync_v2(host, p, mib * MIB, s));
    MUST(cuStreamSynchronize(s));
    copied_out += mib * MIB;
    judge(value, mib);
}

void set_blocks(CUstream s) {
    for (unsigned i = 0; i < BLOCKS; i++)
        set(block[i], i, BLOCK_MIB, s);
}

void fill_blocks(void) {
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc_v2(&block[i], BLOCK_MIB * MIB));
    set_blocks(stream);
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
    struct waiting two = {.stream = new_stream()};
    CUstream behind = new_stream();
    pthread_t thread;
    MUST(cuMemAlloc_v2(&two.start, 2 * BLOCK_MIB * MIB));
    set(two.start, 55, 2 * BLOCK_MIB, stream);
    fill_blocks();
    volatile unsigned *gate = close_gate(behind);
    wait_at(gate, two.stream);
    set(block[0], 100, BLOCK_MIB, behind);
    if (pthread_create(&thread, NULL, overwrite_all, &two))
        _exit(1);
    usleep(SEEN_US);
    for (int i = 0; i < BLOCK_MIB; i += 2)
        expect(two.start + (size_t)i * MIB, 55, 2, stream);
    *gate = 1;
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        expect(two.start + (size_t)i * BLOCK_MIB * MIB, 99, BLOCK_MIB, two.stream);
    expect(block[0], 100, BLOCK_MIB, behind);
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
    set_blocks(stream);
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
    CUstream other = new_stream();
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

static const struct part parts[] = {{"refused", refused},   {"overtaken", overtaken},
                                    {"graph", graph},       {"dead", dead},
                                    {"early", early},       {"shared", shared},
                                    {"awaited", awaited},   {"reordered", reordered},
                                    {"disabled", disabled}, {"unread", unread},
                                    {"pieces", pieces},     {"replayed", replayed},
                                    {"copies", copies},     {NULL, NULL}};

int main(int argc, char **argv) {
    print_counters_at_exit();
    context = use_device();
    stream = new_stream();
    return run_part(parts, argc, argv);
}
