/* Work: what an operation in a stream, or a node of a graph, does. */
#ifndef EMU_WORK_H
#define EMU_WORK_H

#include "cuda/abi.h"
#include "run.h"

enum work_kind {
    WORK_EMPTY,
    WORK_KERNEL,
    WORK_COPY,
    WORK_MEMSET,
    WORK_HOST,
    WORK_MEMOPS, /* waits for and writes of words */
    WORK_STAMP,  /* the record of an event */
    WORK_FREE,   /* of memory allocated in stream order, or by a graph */
    WORK_MOVE,   /* managed pages: prefetch, discard */
    WORK_GRAPH,  /* a launch of a graph in a stream */
    /* Only in graphs: */
    WORK_RECORD, /* of an event; a WORK_STAMP in a launch */
    WORK_WAIT,   /* for an event; in a stream that is a dependency */
    WORK_AFTER,  /* what it is in a launch: after a record */
    WORK_ALLOC,
    WORK_CHILD,
};

/* One side of a copy: rows of `pitch` bytes, layers of `rows` rows. */
struct side {
    CUmemorytype type; /* host, device, array; unified: device or host by its address */
    uint64_t address;
    CUarray array;
    uint64_t pitch, rows;
    uint64_t x, y, z; /* x in bytes */
};

struct copy {
    struct side from, to;
    uint64_t width, height, depth; /* width in bytes */
    void *staged;                  /* owned: what `from` was when the copy was issued */
};

struct memset_work {
    uint64_t address, pitch;
    uint64_t width, height;  /* width in elements */
    uint32_t value, element; /* element: 1, 2, 4 bytes */
};

struct host_work {
    CUhostFn function;
    CUstreamCallback callback; /* instead of function */
    CUstream stream;
    void *data;
};

struct memops {
    size_t count;
    CUstreamBatchMemOpParams *ops; /* owned */
};

struct move {
    size_t count;
    struct range *ranges; /* owned */
    int *places;          /* owned: a device's number or EMU_HOST; NULL: discard only */
    bool discard;
    /* Its pages have moved, if it ran; how many bytes that was. */
    bool ran, to_host;
    uint64_t prefetch_bytes, evict_bytes;
};

struct allocation {
    uint64_t address, bytes;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
};

struct launch; /* launch.h */
struct stamp;  /* event.h */
struct plan;   /* plan.h */

struct work {
    enum work_kind kind;
    union {
        struct launch *launch; /* owned */
        struct copy copy;
        struct memset_work memset;
        struct host_work host;
        struct memops memops;
        struct move move;
        struct stamp *stamp; /* counted */
        struct plan *plan;   /* counted */
        CUevent event;
        struct allocation allocation; /* WORK_ALLOC, WORK_FREE */
        CUgraph child;                /* owned */
    };
};

/* Executes it on a worker, in r. */
void work_run(struct work *w, struct emu_launch *r);
/* What its touches are logged under. */
const char *work_name(const struct work *w);
/* Gives back what it owns. */
void work_release(struct work *w);

/* CUDA_SUCCESS when it can be entered. */
CUresult memset_check(const struct memset_work *m);
/* Of a node: also what is mapped. */
CUresult memset_check_node(const struct memset_work *m);
CUresult memops_check(const CUstreamBatchMemOpParams *ops, size_t n);
/* m owns a copy of them. False: no memory. */
bool memops_copy(struct memops *m, const CUstreamBatchMemOpParams *ops, size_t n);

/* copy.c, memset.c, memop.c, prefetch.c, launch.c ... */
void copy_run(const struct copy *y, struct emu_launch *r);
void memset_run(const struct memset_work *m, struct emu_launch *r);
void memops_run(const struct memops *m, struct emu_launch *r);
void move_run(const struct move *m, struct emu_launch *r);
void host_run(const struct host_work *h, struct emu_launch *r);

#endif
