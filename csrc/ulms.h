/* What the library shows to the outside. The only header Python reads: plain declarations and enums, nothing for a
 * compiler only (Python skips the lines that begin with #). */
#ifndef ULMS_H
#define ULMS_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* "1.2.3". Never NULL. */
const char *ulms_version(void);

/* --- options: what can be set, in words --- */

struct ulms_option {
    const char *name;     /* the environment variable */
    const char *aliases;  /* what others call it, separated by spaces; "": nothing. The first that is set wins */
    const char *fallback; /* its value when it is not set; "": none */
    const char *accepts;
    const char *help; /* one line */
};

size_t ulms_option_count(void);
/* NULL when i is past the last. */
const struct ulms_option *ulms_option(size_t i);
/* NULL: the text is accepted as ULMS_SHARE; else what is accepted in the place of what is wrong. */
const char *ulms_share_accepts(const char *text);

/* --- kernels --- */

/* Nonzero: the kernel of that name, as compiled, is known to use only memory that its arguments show (docs/vmm.md). */
int ulms_kernel_trusted(const char *name);

enum { ULMS_KERNEL_PARTS = 8 };

/* What the machine code of a kernel says. */
struct ulms_kernel {
    const char *name;
    const char *verdict; /* "direct", "indexed", "follows" or "unknown" */
    const char *reason;  /* of the last two; "": none */
    uint32_t architecture;
    uint64_t instructions;
    uint64_t
        reads[ULMS_KERNEL_PARTS]; /* words of 8 bytes of the parameters, as bits, at which memory is read; written */
    uint64_t writes[ULMS_KERNEL_PARTS];
};

typedef void (*ulms_kernel_told)(const struct ulms_kernel *k, void *data);
/* Tells every kernel in the bytes of a cubin, a fat binary or a library, for devices of that architecture (90: sm_90);
 * 0: for any. Takes seconds for a large library. */
void ulms_kernels(const void *start, uint64_t bytes, uint32_t architecture, ulms_kernel_told told, void *data);

/* --- statistics: the layout of the memory, or file (ULMS_STATS), that holds the live counters --- */

enum {
    ULMS_STATS_VERSION = 1, /* changes when a reader of the old layout would go wrong */
    ULMS_COUNTERS = 64,     /* room; `counters` are in use */
    ULMS_SLOTS = 64,
    ULMS_DEVICES = 32,
    ULMS_HELD = 256
};

struct ulms_counter_row {
    char name[32];
    char unit[8]; /* "B" or "" */
    char help[88];
};

/* Bytes charged to one device; capacity 0: no limit. */
struct ulms_memory {
    uint64_t used;
    uint64_t peak;
    uint64_t capacity;
    uint64_t unused;
};

/* The counts of one thread, or of several that share it. A counter's value is its sum over the slots. */
struct ulms_slot {
    uint64_t counts[ULMS_COUNTERS];
};

/* What was held at gates: the launches of a kernel, or the other operations of a call. key 0: the row is not in use. */
struct ulms_held {
    uint64_t key; /* set when the name is there */
    uint64_t ns;
    uint64_t times;
    uint64_t missing_bytes; /* of the pages that were waited for */
    char name[160];         /* cut off */
};

struct ulms_stats {
    uint64_t magic; /* the bytes "ulmsstat", set last */
    uint32_t version;
    uint32_t pid;
    uint64_t process_start; /* clock ticks from boot; with pid it names the process (field 22 of /proc/PID/stat) */
    uint64_t opened_ns;     /* CLOCK_REALTIME */
    uint64_t heartbeat_ns;  /* CLOCK_MONOTONIC: the process issued an operation or allocated; seen to 64 operations */
    uint32_t counters;      /* number of rows in use */
    uint32_t devices;       /* number of memory entries */
    uint32_t slots;
    uint32_t row_bytes;
    uint32_t memory_bytes; /* of one entry */
    uint32_t slot_bytes;
    uint32_t rows_at; /* offsets in bytes from the start */
    uint32_t memory_at;
    uint32_t slots_at;
    uint32_t file_bytes;
    char program[48]; /* name of the executable */
    uint32_t held;    /* number of rows; the last one has what found no row of its own */
    uint32_t held_at;
    uint32_t held_bytes;
    uint32_t unused;
    uint64_t pid_namespace; /* in which pid names the process: the inode of /proc/self/ns/pid; 0: not known */
    uint32_t unused_too[10];
    struct ulms_counter_row row[ULMS_COUNTERS];
    struct ulms_memory memory[ULMS_DEVICES];
    struct ulms_slot slot[ULMS_SLOTS];
    struct ulms_held held_row[ULMS_HELD];
};

/* The counters of this process. Never NULL. */
const struct ulms_stats *ulms_stats(void);
/* Present value of a counter by its name; UINT64_MAX when there is none of that name. */
uint64_t ulms_counter(const char *name);

/* --- the ledger: what the program holds --- */

struct ulms_allocation {
    uint64_t start;
    uint64_t bytes;
    uint64_t charged; /* against ULMS_GPU_MEMORY */
    int32_t device;   /* CUDA ordinal; -1: on the host */
    uint32_t kind;    /* enum memory_kind, csrc/types.h */
};

/* Copies at most n live allocations, in address order, to out; returns how many. 0 before CUDA is initialised. Any
 * thread. */
size_t ulms_allocations(struct ulms_allocation *out, size_t n);

/* An allocator of the program's own gives out [start, start + bytes) of its device memory, or, with -bytes, takes it
 * back: what it takes back need not move. From the first on, an operation that is shown an address in memory of that
 * allocator which is not given out does not use it. Called before work on a block is issued, and before another may be
 * given its place. Nothing before CUDA is initialised. Any thread. */
void ulms_block(uint64_t start, int64_t bytes);

/* From now on the program's memory may occupy so many bytes of a device (CUDA ordinal), at most ULMS_GPU_MEMORY; 0: all
 * of that again. What is too much leaves at once, also while the program does nothing; what the program is told of the
 * device stays. 0: nothing moves with this backend, or CUDA is not initialised. Any thread. */
int ulms_grant(int device, uint64_t bytes);

/* Suspends the program on all devices that it shares, or (0) resumes it, soon: what it issues waits
 * meanwhile, also on the calling thread. 0: it shares none now. Any thread, also in a handler of a signal. */
int ulms_suspend(int suspended);
/* 1: it is suspended, and all that can leave has left. Likewise. */
int ulms_is_away(void);

/* --- the engine: which page moves when, and which operation may run (docs/engine-rules.md has the rules) ---
 *
 * It is told what happens and asked what to do next. It calls nothing, reads no clock and takes no lock: one caller at
 * a time, and the same events give the same answers. One engine a device. */

enum {
    ULMS_TOUCH_READ = 1,
    ULMS_TOUCH_WRITE = 2, /* every byte of it */
    ULMS_TOUCH_UPDATE = 3,
    ULMS_TOUCH_SCRATCH = 4, /* content means nothing before and after */
    ULMS_TOUCH_SPARSE = 16  /* with READ alone: little of it */
};

enum { ULMS_LANE_IN = 0, ULMS_LANE_OUT = 1 };

enum { ULMS_FILL = 1, ULMS_EVICT = 2 };

enum {
    ULMS_MOVE_DEAD = 1,     /* only the place moves: nobody will read the bytes */
    ULMS_MOVE_CLEAN = 2,    /* an evicted page whose host copy is up to date */
    ULMS_MOVE_KEEP = 4,     /* a filled page that is expected to be only read: its host copy is worth keeping */
    ULMS_MOVE_EARLY = 8,    /* not asked for by an operation that waits */
    ULMS_MOVE_IN_PLACE = 16 /* an evicted page that kernels will use where it then lies, over the link */
};

/* What kernels may use in place (struct ulms_engine_settings). */
enum { ULMS_IN_PLACE_NOTHING = 0, ULMS_IN_PLACE_READ = 1, ULMS_IN_PLACE_ALL = 2 };

enum {
    ULMS_HOLD = 0,     /* not yet: some of its pages are absent */
    ULMS_RUN = 1,      /* its pages are here, and stay until it retires */
    ULMS_RUN_SHORT = 2 /* run it, though not all of its pages are here or can be */
};

struct ulms_engine_settings {
    const char *policy;   /* the name of a policy; NULL: the default */
    uint64_t page_bytes;  /* a power of two */
    uint64_t budget;      /* bytes */
    uint64_t run_bytes;   /* the most one move covers */
    uint64_t ahead_bytes; /* frames that are made free before they are asked for */
    uint32_t keeps;       /* 1: the backend can give up a clean page without a copy */
    uint32_t faults;      /* 1: a kernel may touch an absent page, which brings it (managed memory) */
    uint32_t in_place;    /* ULMS_IN_PLACE_*: what kernels may do to a page that left with ULMS_MOVE_IN_PLACE */
    uint64_t shed_bytes;  /* the most one move covers while the budget is passed by more than run_bytes */
};

struct ulms_engine_touch {
    uint64_t start;
    uint64_t bytes;
    uint64_t mode; /* ULMS_TOUCH_* */
};

struct ulms_move {
    uint64_t id;    /* from 1, in the order in which moves are given out */
    uint64_t start; /* whole pages */
    uint64_t bytes;
    uint64_t after; /* the operation that must have retired first; 0: none */
    uint32_t kind;  /* ULMS_FILL or ULMS_EVICT */
    uint32_t flags; /* ULMS_MOVE_* */
};

/* Sums since the engine was made. Bytes are whole pages. */
struct ulms_engine_stats {
    uint64_t operations;
    uint64_t touched_bytes;   /* pages touched by operations */
    uint64_t hit_bytes;       /* of these, resident when the operation was issued */
    uint64_t late_operations; /* had to be held */
    uint64_t short_operations;
    uint64_t filled_bytes;           /* over the link */
    uint64_t early_bytes;            /* of these, before an operation asked */
    uint64_t useless_bytes;          /* of the filled, evicted or freed untouched */
    uint64_t faulted_bytes;          /* left to kernels to bring in */
    uint64_t in_place_bytes;         /* used by operations where they lay on the host */
    uint64_t in_place_written_bytes; /* of these, those that were written, too */
    uint64_t evicted_bytes;          /* over the link */
    uint64_t dropped_bytes;          /* evicted without a copy: clean */
    uint64_t dead_bytes;             /* evicted or filled without a copy: dead */
    uint64_t predicted;              /* operations that were the predicted ones */
    uint64_t surprises;              /* that were not, with a prediction */
    uint64_t resident_bytes;         /* now */
    uint64_t budget_bytes;           /* now */
};

struct ulms_policy {
    const char *name;
    const char *help; /* one line */
};

struct ulms_engine;

size_t ulms_policy_count(void);
/* The first is the default. NULL when i is past the last. */
const struct ulms_policy *ulms_policy(size_t i);
/* 1: its operations are held until their pages are here; 0: its moves are ordered on the device, or there is none of
 * that name. */
int ulms_policy_holds(const char *name);

/* NULL: no memory, or settings that make no sense. */
struct ulms_engine *ulms_engine_new(const struct ulms_engine_settings *settings);
void ulms_engine_free(struct ulms_engine *e);

/* Memory of the program appears: absent, and dead. [start, start + bytes) in whole pages. 0: no memory, nothing done.
 */
int ulms_engine_allocated(struct ulms_engine *e, uint64_t start, uint64_t bytes);
/* It is gone, moves under way included. */
void ulms_engine_freed(struct ulms_engine *e, uint64_t start, uint64_t bytes);
/* It is resident already: the backend brought it when it was allocated. */
void ulms_engine_placed(struct ulms_engine *e, uint64_t start, uint64_t bytes);
/* The framework's allocator gives out (live 1) or takes back (live 0) a block. A page that had blocks and has none is
 * dead. */
void ulms_engine_block(struct ulms_engine *e, uint64_t start, uint64_t bytes, int live);
void ulms_engine_budget(struct ulms_engine *e, uint64_t bytes);
/* What kernels may do from now on to pages that leave with ULMS_MOVE_IN_PLACE: ULMS_IN_PLACE_*. Those that lie on the
 * host and may not be used there any more are filled before an operation that touches them. */
void ulms_engine_in_place(struct ulms_engine *e, uint32_t in_place);
/* From now on as many pages come ahead of need as there is room for (1), not only so many that operations wait for none
 * (0, as at first). For who waits meanwhile, or is about to lose what it has. */
void ulms_engine_eager(struct ulms_engine *e, int eager);
/* Who has the frame on which the absent page that begins at `start` has a claim: that page's start; 0: there is no
 * claim, or nobody has the frame. */
typedef uint64_t (*ulms_holder)(void *data, uint64_t start);
/* Pages have claims on frames from now on; NULL: frames are alike. Called in ulms_engine_next; it must not call the
 * engine. What it says may be old or wrong: then another page leaves. */
void ulms_engine_holder(struct ulms_engine *e, ulms_holder holder, void *data);

/* An operation is about to be issued; `key` tells what it is (a function, a kind of copy). Its serial, from 1; 0: no
 * memory, or it touches nothing of the engine's, and may run. */
uint64_t ulms_engine_issued(struct ulms_engine *e, uint64_t key, const struct ulms_engine_touch *touches, size_t n);
/* May it run? ULMS_RUN and ULMS_RUN_SHORT are said once. at_once: held long enough, let it run. *wait: the move that
 * must be done before it runs on the device; 0: none. */
int ulms_engine_admit(struct ulms_engine *e, uint64_t serial, int at_once, uint64_t *wait);
/* Bytes of the pages that it would have to wait for now; 0, too, if it is not known. */
uint64_t ulms_engine_missing(const struct ulms_engine *e, uint64_t serial);
/* Everything the operation does on the device is done. now: by any clock, ns; 0: not known. */
void ulms_engine_retired(struct ulms_engine *e, uint64_t serial, uint64_t now);

/* The next move for a lane, now. False: nothing to do until the next event. */
int ulms_engine_next(struct ulms_engine *e, int lane, struct ulms_move *out);
/* A move is done (ok 1), or was not done and never will be (ok 0). */
void ulms_engine_moved(struct ulms_engine *e, uint64_t id, int ok);

void ulms_engine_stats(const struct ulms_engine *e, struct ulms_engine_stats *out);

/* --- frames: pages of physical memory, and the claims of pages on those that they had (docs/vmm.md, "Claims") --- */

enum { ULMS_FRAMES_COME = 64 };

/* Of a page; zero-initialised. It changes by who moves the page. */
struct ulms_claim {
    uint64_t came;  /* how many pages had come when this one did; 0: never */
    uint32_t frame; /* where the page is stale, remembered or not; UINT32_MAX: nowhere, or a move failed half-way */
};

struct ulms_frames;

/* So many frames at most, of no memory. NULL: no memory. */
struct ulms_frames *ulms_frames_new(uint32_t count);
void ulms_frames_free(struct ulms_frames *f);
/* Frames for n pages that come, ULMS_FRAMES_COME at most: to each that which it has a claim on, if that is idle, to the
 * others other ones, in order. claims[i] NULL: it has none. together: those are neighbours, if there are such. 0: there
 * are not enough, and the others get none (UINT32_MAX). */
int ulms_frames_come(struct ulms_frames *f, struct ulms_claim *const *claims, uint32_t *out, size_t n, int together);
/* The page, which begins at `start`, is there. */
void ulms_frames_hold(struct ulms_frames *f, uint32_t frame, uint64_t start, struct ulms_claim *c);
/* Nobody uses them any more. */
void ulms_frames_give(struct ulms_frames *f, const uint32_t *frames, size_t n);
/* The same of a page that is stale there from now on. */
void ulms_frames_give_stale(struct ulms_frames *f, uint32_t frame, struct ulms_claim *c);
/* As ulms_holder, of one claim. */
uint64_t ulms_frames_holder(struct ulms_frames *f, const struct ulms_claim *c);

/* --- advice: that pages of managed memory are mostly read, so that the host keeps its copy of them --- */

/* Of a page; 0: it has none. Written: in spite of it, so that it is not given again. */
enum { ULMS_ADVICE_KEPT = 1, ULMS_ADVICE_WRITTEN = 2 };
/* What the driver is to be told of the pages of a move. */
enum { ULMS_ADVISE_KEEP = 1, ULMS_ADVISE_UNKEEP = 2 };
/* That, 0 for nothing; then the pages are so. kind, flags: the move's. */
int ulms_advise(uint8_t *pages, size_t n, uint32_t kind, uint32_t flags);

#pragma GCC visibility pop

#endif
