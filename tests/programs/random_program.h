/* A random program over the driver API: what its parts share.
 *
 *   actor     one host thread with streams, events, blocks and graphs of its own
 *   block     one allocation of the actor, or one buffer on the host
 *   step      what to do, drawn once from the seed; a sequence of steps is repeated
 *   work      a step made concrete: one launch, copy, memset or host function, and the blocks it uses
 *   clock     how many works a stream has been given; `order.c` keeps works that share a block apart
 */
#ifndef RANDOM_PROGRAM_H
#define RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "driver.h"
#include "random_driver.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };
enum { PIECE = MIB }; /* bytes of a buffer on the host */
enum { ACTORS = 3, STREAMS = 5, EVENTS = 8, BLOCKS = 12, HOSTS = 3, GRAPHS = 2, STEPS = 16, USES = 8, POINTERS = 4 };

/* Streams by number. Captures of a program with several actors go into FREE ones only: while a blocking stream
 * captures, nobody may use the legacy stream. */
enum { LEGACY, PER_THREAD, BLOCKING, FREE, SECOND_FREE };

/* A tensor lies in the actor's arena, as a framework's allocator hands them out and tells of it. */
enum block_kind { PLAIN, PITCH, ASYNC, POOL, MANAGED, TENSOR, HANDLE, KINDS, PINNED = KINDS, PAGEABLE };

struct clocks {
    uint32_t of[STREAMS];
};

struct block {
    enum block_kind kind;
    CUdeviceptr start; /* 0: none */
    uint64_t bytes;
    uint64_t version; /* changes when the address does */
    CUmemGenericAllocationHandle handle;
    struct clocks wrote, used; /* the last work of each stream that wrote it, that used it at all */
};

struct use {
    struct block *block;
    bool writes;
};

/* What a kernel is given; random_kernels.c says how it looks there. */
struct arguments {
    int kernel;
    unsigned char bytes[128];
    uint32_t size;
};

enum work_kind { WORK_LAUNCH, WORK_MEMSET, WORK_COPY, WORK_HOST };

struct work {
    enum work_kind kind;
    struct arguments arguments;
    CUDA_MEMSET_NODE_PARAMS memset; /* height 1: a line, of width elements */
    CUDA_MEMCPY3D copy;             /* Depth and Height 1: a line */
    CUDA_HOST_NODE_PARAMS host;
    struct use use[USES];
    int uses;
};

enum step_kind {
    STEP_MIX, /* kernels, see random_kernels.c */
    STEP_BLEND,
    STEP_OVERWRITE,
    STEP_GATHER,
    STEP_SCATTER,
    STEP_HIDDEN,
    STEP_FUSED,
    STEP_MEMSET,
    STEP_MEMSET_ROWS,
    STEP_COPY,
    STEP_COPY_ROWS,
    STEP_COPY_IN,
    STEP_COPY_OUT,
    STEP_HOST_FUNCTION,
    STEP_WORKS, /* those above are one work, and may stand in a graph */
    STEP_GRAPH = STEP_WORKS,
    STEP_HOST_READ,
    STEP_HOST_WRITE,
    STEP_MANAGED_HOST,
    STEP_MANAGED_ADVICE,
    STEP_RENEW,
    STEP_TEMPORARY,
    STEP_NEW_STREAM,
    STEP_QUESTION,
    STEP_ERROR,
    STEP_WAIT,
    STEP_PAUSE,
    STEP_GATE,
    STEP_ARRAY,
    STEP_ELSEWHERE,
    STEP_KINDS
};

struct step {
    enum step_kind kind;
    int stream;
    int block[3];         /* of those that work.c calls operands */
    uint32_t part, place; /* of the block: 1/256 */
    uint32_t key;
    uint32_t form; /* which of the calls that do the same */
};

struct graph {
    struct step steps[6];
    int count;
    bool by_hand;
    bool allocates; /* in the capture */
    bool inside;    /* another graph */
    bool words;     /* by hand: it writes one */
    int stream, second;
    CUgraph made;
    CUgraphExec exec;
    CUgraphNode node[6];
    uint64_t signature; /* of the addresses that exec was made for */
};

struct event {
    CUevent handle;
    struct clocks knows;
};

struct actor {
    int number, actors;
    uint64_t random;
    uint32_t keys; /* drawn from for works that no step gave one */
    CUcontext context, other;
    CUmodule module;
    CUlibrary library;
    CUfunction kernel[8]; /* by enum below */
    CUdeviceptr hidden;
    CUmemoryPool pool;

    CUstream stream[STREAMS];
    uint32_t clock[STREAMS];
    struct clocks knows[STREAMS]; /* works of other streams that what comes next into this one follows */
    struct clocks host;           /* works known to be done */
    struct event event[EVENTS];
    uint32_t next_event;
    bool capturing;             /* works go into a graph: no ordering */
    bool no_waiting;            /* on the host: a gate is closed */
    uint32_t gates, gates_most; /* opened so far */

    struct block block[BLOCKS], host_block[HOSTS];
    struct block table;  /* addresses inside pointed blocks: for kernels whose pointers no argument shows */
    struct block word;   /* small: a stream may write and await words in it */
    struct block arena;  /* of tensors; the works that used what is free of it count as using it */
    struct block common; /* all actors read it; written only while they stand still */
    CUarray array;
    struct block in_array; /* what the array holds */
    int blocks, pointed[POINTERS];
    uint64_t pointed_version;
    uint64_t target, live, peak, versions;
    uint32_t shape; /* of this iteration: sixteenths of the size */

    struct step steps[STEPS];
    int count;
    struct graph graph[GRAPHS];
    int graphs;
    uint64_t seen; /* hash of all that the host has read */
    FILE *out;
};

/* random_program.c */
uint64_t random_below(struct actor *a, uint64_t n);
bool one_in(struct actor *a, uint64_t n);
void see(struct actor *a, uint64_t value);
/* The process, or a child, ends before its time: it tells of no calls at its end. */
void program_ends(void);

/* --- what happens to the process (random_event.c): not one of its events --- */

/* Once, before the programs. */
void event_choose(const char *name, uint64_t seed);
/* The actor begins, on its thread; takes a step; has taken all: what happens has happened when this returns. */
void event_begin(const struct actor *a);
void event_step(const struct actor *a);
void event_await(const struct actor *a);

/* random_order.c */
void streams_make(struct actor *a);
void streams_unmake(struct actor *a);
void stream_renew(struct actor *a, int s);
/* Makes what comes next into stream s follow all that the uses conflict with, by events or by waiting. */
void order_before(struct actor *a, int s, const struct use *use, int uses);
/* A work with these uses was given to stream s. */
void order_after(struct actor *a, int s, const struct use *use, int uses);
/* What b takes or has left was used by all that used the other. */
void order_inherit(struct block *b, const struct block *other);
void host_wait_stream(struct actor *a, int s, uint32_t form);
void host_wait_all(struct actor *a);
void host_wait_uses(struct actor *a, const struct block *b, bool writers_only);
void stream_follow(struct actor *a, int s, int other);

/* random_block.c */
extern const char *const kind_names[];
void block_make(struct actor *a, struct block *b, enum block_kind kind, uint64_t bytes, int stream);
void block_free(struct actor *a, struct block *b, int stream, uint32_t form);
void block_fill(struct actor *a, struct block *b, int stream, uint32_t value);
void block_print(struct actor *a, struct block *b, const char *name, int number);
void blocks_make(struct actor *a);
void blocks_free(struct actor *a);
uint64_t hash_bytes(const void *p, uint64_t bytes, uint64_t hash);

/* random_arena.c */
void tensor_make(struct actor *a, struct block *b);
void tensor_free(struct actor *a, struct block *b);

/* --- handles (random_handle.c) --- */

/* Its bytes become whole granules. */
void handle_make(struct actor *a, struct block *b);
void handle_free(struct actor *a, struct block *b, uint32_t form);

/* random_array.c */
void array_make(struct actor *a);
void array_free(struct actor *a);
/* Copies a part of a block to another block, through the array. */
void array_pass(struct actor *a, const struct step *s);

/* random_away.c */
void away_begin(uint64_t seed);
/* A call comes next. */
void away_point(void);
/* From now on a capture, or work behind a gate, ends by what is called next; or (-1) does no more. */
void away_bound(int more);
/* Prints how often it was away; then, once more away, what is lost: bytes of the device, of the file. */
void away_end(void);

/* random_context.c */
/* Copies within a block and frees memory while a context is current that is neither's. */
void elsewhere(struct actor *a, const struct step *s);

/* random_kernels.c */
enum { MIX, BLEND, OVERWRITE, GATHER, SCATTER, HIDDEN, FUSED, KERNELS };
extern const struct emu_image random_image;
extern const char *const kernel_names[KERNELS];
int kernel_parameters(int kernel, unsigned char *bytes, void **out);
struct arguments kernel_mix(CUdeviceptr y, CUdeviceptr x, uint64_t words, uint32_t key);
struct arguments kernel_blend(CUdeviceptr y, CUdeviceptr a, CUdeviceptr b, uint64_t words, uint32_t key);
struct arguments kernel_overwrite(CUdeviceptr y, uint64_t words, uint32_t key);
struct arguments kernel_table(int kernel, CUdeviceptr y, CUdeviceptr table, uint64_t words, uint32_t key);
struct arguments kernel_hidden(CUdeviceptr x, uint64_t words, uint32_t key);
struct arguments kernel_fused(const CUdeviceptr *start, const uint64_t *words, uint32_t count, uint32_t key);

/* random_work.c */
void work_prepare(struct actor *a, const struct step *s, struct work *w);
void work_issue(struct actor *a, const struct step *s, const struct work *w, int stream);
void work_do(struct actor *a, const struct step *s);
/* The table and the module's variable point to the blocks' addresses of now. Waits. */
void work_point(struct actor *a);
uint64_t work_pointed_version(const struct actor *a);
struct block *operand(struct actor *a, int number);
/* Operands by number: the actor's blocks, then buffers on the host, the last of them pageable. */
enum { OPERAND_HOST = BLOCKS, OPERAND_PAGEABLE = BLOCKS + HOSTS - 1, OPERAND_COMMON };

/* random_graph.c */
void graph_draw(struct actor *a, struct graph *g);
void graph_run(struct actor *a, struct graph *g, int stream, uint32_t form);
void graph_free(struct graph *g);

/* random_step.c */
void step_draw(struct actor *a, struct step *s, enum step_kind kind);
void step_run(struct actor *a, const struct step *s);
/* Reads every block, the same way again and again: long enough that both ways are tried, to move what does not fit and
 * to use it where it lies. */
void step_sweep(struct actor *a);

#endif
