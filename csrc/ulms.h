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
    const char *alias;    /* another name for it, or NULL; `name` wins */
    const char *fallback; /* its value when it is not set; "": none */
    const char *accepts;
    const char *help; /* one line */
};

size_t ulms_option_count(void);
/* NULL when i is past the last. */
const struct ulms_option *ulms_option(size_t i);

/* --- statistics: the layout of the memory, or file (ULMS_STATS), that holds the live counters --- */

enum {
    ULMS_STATS_VERSION = 1, /* changes when a reader of the old layout would go wrong */
    ULMS_COUNTERS = 64,     /* room; `counters` are in use */
    ULMS_SLOTS = 64,
    ULMS_DEVICES = 32
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
    struct ulms_counter_row row[ULMS_COUNTERS];
    struct ulms_memory memory[ULMS_DEVICES];
    struct ulms_slot slot[ULMS_SLOTS];
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

#pragma GCC visibility pop

#endif
