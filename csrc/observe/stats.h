/* Live counters, in memory that another process may read (ULMS_STATS). The file describes itself; ulms.h has its
 * layout. Adding costs about a nanosecond: each thread adds to a slot of its own, readers sum the slots. */
#ifndef ULMS_STATS_H
#define ULMS_STATS_H

#include "base/thread.h"

/* name, unit, what it counts. What launches and blocks add to comes first, side by side. */
#define STATS_COUNTERS(X)                                                                                              \
    X(operations, "", "device operations issued")                                                                      \
    X(kernels, "", "kernels run, those inside graphs included")                                                        \
    X(launches, "", "kernel launch calls")                                                                             \
    X(launches_unread, "", "of these, not looked at, as nothing moved")                                                \
    X(blocks, "", "blocks told by the framework")                                                                      \
    X(touches_call, "", "touches whose extent the call's arguments told")                                              \
    X(touches_library, "", "touches whose extent a library's descriptors told")                                        \
    X(touches_framework, "", "touches whose extent the framework's allocator told")                                    \
    X(touches_observed, "", "touches bounded by the next pointer observed")                                            \
    X(touches_allocation, "", "touches of a whole allocation, nothing better being known")                             \
    X(touched_bytes, "B", "bytes touched by what was looked at")                                                       \
    X(launches_extra, "", "launches with arguments in the `extra` form")                                               \
    X(launches_unmatched, "", "launches with arguments but no known address among them")                               \
    X(launches_blind, "", "launches with an unknown parameter layout")                                                 \
    X(graph_launches, "", "graph launches")                                                                            \
    X(graphs_cut, "", "launches of large graphs, in pieces: each counts as a graph launch")                            \
    X(captured, "", "operations that went into a stream capture")                                                      \
    X(copies, "", "copies")                                                                                            \
    X(copied_bytes, "B", "bytes copied")                                                                               \
    X(memsets, "", "memsets")                                                                                          \
    X(waits, "", "times the host waited for the device")                                                               \
    X(tables, "", "copies that brought pointers to the device")                                                        \
    X(table_pointers, "", "pointers in them")                                                                          \
    X(allocations, "", "allocations made")                                                                             \
    X(frees, "", "allocations given back")                                                                             \
    X(refused, "", "allocations refused by the quota")                                                                 \
    X(placed_bytes, "B", "managed memory brought to the device when it was allocated")                                 \
    X(largest_bytes, "B", "pages that one operation touched at most, once not everything fits")                        \
    X(gated_bytes, "B", "pages beyond the budget at most, for operations behind a closed gate")                        \
    X(paged_bytes, "B", "pages touched by operations, once not everything fits")                                       \
    X(hit_bytes, "B", "of these, already there when the operation was issued")                                         \
    X(filled_bytes, "B", "pages moved to the device ahead of the kernels")                                             \
    X(early_bytes, "B", "of these, before an operation asked for them")                                                \
    X(useless_bytes, "B", "of these, gone again without use")                                                          \
    X(faulted_bytes, "B", "pages left to kernels to bring in")                                                         \
    X(in_place_bytes, "B", "pages that kernels used on the host, over the link")                                       \
    X(in_place_written_bytes, "B", "of these, written, too")                                                           \
    X(evicted_bytes, "B", "pages moved to the host")                                                                   \
    X(dropped_bytes, "B", "pages that left unchanged: nothing to move")                                                \
    X(dead_bytes, "B", "pages that came or left without content that matters")                                         \
    X(moves, "", "fills and evictions asked of the driver")                                                            \
    X(move_failures, "", "calls of ours that the driver refused")                                                      \
    X(opaque, "", "operations that may touch any page: nothing moved while they ran")                                  \
    X(untrusted, "", "operations whose kernels may follow addresses that lie in memory")                               \
    X(violations, "", "pages that an operation wrote without showing it, as ULMS_VERIFY found")                        \
    X(in_ns, "", "nanoseconds of moves to the device (um: of calls), summed over threads")                             \
    X(out_ns, "", "nanoseconds of moves to the host")                                                                  \
    X(sent_ns, "", "of these, nanoseconds of copies to the host, one after another")                                   \
    X(mapped_bytes, "B", "pages mapped by backend vmm")                                                                \
    X(map_ns, "", "nanoseconds of the driver's calls that map and unmap them, summed over threads")                    \
    X(file_out_bytes, "B", "pages that went from the host to a file")                                                  \
    X(file_in_bytes, "B", "pages that came from the file")                                                             \
    X(late, "", "operations that waited for their pages")                                                              \
    X(held_ns, "", "nanoseconds that operations were held")                                                            \
    X(admit_ns, "", "nanoseconds in our code before operations, beside that, while pages move")                        \
    X(settle_ns, "", "nanoseconds in our code behind operations, while pages move")                                    \
    X(short_operations, "", "operations run though pages were missing")                                                \
    X(predicted, "", "operations that came as predicted")                                                              \
    X(surprises, "", "operations that came otherwise")                                                                 \
    X(trace_records, "", "trace records written")                                                                      \
    X(trace_drops, "", "trace records dropped because the writer fell behind")

enum counter {
#define X(name, unit, what) COUNT_##name,
    STATS_COUNTERS(X)
#undef X
        COUNTERS
};

/* Maps the counters to the file, or to private memory when path is "". False: told in one line, private memory used.
 * Before other threads count. */
bool stats_open(const char *path);
/* This thread will add to the first counters: brings them nearer. */
void stats_foresee(void);
/* Where this thread counts, for those that add to several. */
struct counts {
    uint64_t *at;
    bool shared; /* with threads that have no slot of their own */
};
struct counts stats_enter(void); /* a thread that has no slot yet, or shares one */
static inline struct counts stats_here(void) {
    return __builtin_expect(thread_here.counts != NULL, 1) ? (struct counts){thread_here.counts, false} : stats_enter();
}
/* Returns what it is then. */
static inline uint64_t counts_add(struct counts here, enum counter c, uint64_t n) {
    if (__builtin_expect(here.shared, 0))
        return __atomic_add_fetch(&here.at[c], n, __ATOMIC_RELAXED);
    uint64_t sum = __atomic_load_n(&here.at[c], __ATOMIC_RELAXED) + n;
    __atomic_store_n(&here.at[c], sum, __ATOMIC_RELAXED);
    return sum;
}
static inline void stats_add(enum counter c, uint64_t n) {
    counts_add(stats_here(), c, n);
}
/* The counter is the most of what is told here; *most is that, 0 at first, and one thread at a time has it. */
static inline void stats_most(enum counter c, uint64_t *most, uint64_t now) {
    if (now <= *most)
        return;
    stats_add(c, now - *most);
    *most = now;
}
/* Tells readers that the process lives; now and then, by how many operations this thread counted. */
void stats_heart(void);
static inline void stats_beat(uint64_t operations) {
    enum { EVERY = 64 };
    if (__builtin_expect(operations % EVERY == 0, 0))
        stats_heart();
}

uint64_t stats_sum(enum counter c);
const char *stats_name(enum counter c);
/* Bytes charged to a device, kept beside the counters for readers; the peak never falls. */
void stats_memory(int device, uint64_t used, uint64_t peak, uint64_t capacity);
/* The rows of what was held (observe/held.h), ULMS_HELD of them. */
struct ulms_held *stats_held(void);
/* Removes the file; counting goes on. */
void stats_close(void);
/* The process may be written to a disk: its counters are in no file, until it is shown that they are again; of a
 * process that was restarted, in one of another name. */
void stats_hide(void);
void stats_show(void);
/* In the child of a fork: counters become private and start at 0; the file stays the parent's. */
void stats_fork_child(void);

#endif
