/* The trace file, field by field; docs/trace-format.md has what a reader must know besides. Everything is
 * little-endian, every structure a multiple of 8 bytes without padding of the compiler's. Values: launch/op.h (kinds
 * and flags of operations), types.h (modes, sources, kinds of memory), ulms.h (ULMS_*). */
#ifndef ULMS_FORMAT_H
#define ULMS_FORMAT_H

#include "types.h"

#define TRACE_MAGIC "ulmstrac"
enum { TRACE_VERSION = 1, CHUNK_MAGIC = 0x4b4e4843 /* "CHNK" */ };

struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t text_bytes; /* of the line of JSON that follows, filled up with spaces to a multiple of 8 */
    uint32_t text_crc;
    uint32_t pid;
    uint64_t monotonic_ns; /* one moment on both clocks */
    uint64_t realtime_ns;
};

struct chunk {
    uint32_t magic;
    uint32_t crc;   /* CRC-32 (zlib's) of all that follows it, records included */
    uint32_t bytes; /* of the records behind this header */
    uint32_t records;
    uint64_t first_serial; /* of the first record; others may be lower */
};

enum record_type {
    RECORD_OP = 1,
    RECORD_RETIRED,
    RECORD_BIRTH,    /* of an allocation */
    RECORD_DEATH,    /* of an allocation */
    RECORD_BLOCK,    /* the framework made a block */
    RECORD_UNBLOCK,  /* the framework gave it back */
    RECORD_FUNCTION, /* names a kernel */
    RECORD_API,      /* names a call */
    RECORD_GRAPH,
    RECORD_TABLE,
    RECORD_DROPS, /* records of one thread that are missing before this one */
    RECORD_END,   /* the trace was closed in order */
    RECORD_MOVE,
    RECORD_HOLD,
    RECORD_COUNTER, /* names a counter */
    RECORD_COUNTS
};

struct record {
    uint16_t type;   /* enum record_type */
    uint16_t words;  /* length in units of 8 bytes, this header included */
    uint32_t thread; /* small number, from 1; 0: our own */
    uint64_t serial; /* order in the process; unique */
    uint64_t time_ns;
};

struct touch_record {
    uint64_t start;
    uint64_t bytes;
    uint64_t tail; /* bits 0-47 allocation's id (0: in none), 48-54 mode, 55 sparse, 56-63 source */
};

struct op_record {
    struct record head; /* time: when the call was issued */
    uint64_t stream;    /* 1 legacy, 2 per-thread default */
    uint64_t object;    /* event, stream, context, or the executable graph */
    uint32_t function;
    uint32_t kernels;
    uint16_t api;
    int16_t status; /* CUresult */
    uint8_t kind;   /* enum op_kind */
    uint8_t flags;  /* enum op_flag, below 256 */
    int8_t device;  /* -1: not known */
    uint8_t unused;
    struct touch_record touches[]; /* to the end of the record; a graph launch has none: its graph has them */
};

struct retired_record {
    struct record head;
    uint64_t operation; /* its serial */
    uint64_t start_ns;
    uint64_t ns; /* device time */
};

struct allocation_record {
    struct record head;
    uint64_t start;
    uint64_t bytes;
    uint64_t id;
    uint64_t charged;
    uint64_t context;
    int32_t device;
    uint32_t kind; /* enum memory_kind */
};

struct block_record {
    struct record head;
    uint64_t start;
    uint64_t bytes;
};

struct name_record {
    struct record head;
    uint32_t id;
    uint32_t bytes; /* of the text, without an end mark */
    char text[];    /* filled up with zeros */
};

struct graph_record {
    struct record head;
    uint64_t exec; /* what one launch of this executable graph touches, until said again */
    uint32_t kernels;
    uint32_t first; /* number of touches in the parts before this one; 0 starts a new content of the graph */
    uint64_t total; /* touches in all parts */
    struct touch_record touches[];
};

/* Addresses that were copied into the range. */
struct table_record {
    struct record head;
    uint64_t start;
    uint64_t bytes;
    uint32_t first; /* as for graphs */
    uint32_t total;
    uint64_t pointers[];
};

struct drops_record {
    struct record head; /* thread: the one that lost them */
    uint64_t records;
};

/* A move of pages, recorded when it was done, or had failed. */
struct move_record {
    struct record head;
    uint64_t start;
    uint64_t bytes;
    uint64_t begun_ns;
    uint64_t resident; /* bytes of the device's pages, after it */
    int32_t device;
    uint16_t kind;  /* ULMS_FILL, ULMS_EVICT */
    uint16_t flags; /* ULMS_MOVE_*, enum move_flag */
};

enum move_flag {
    MOVE_DISCARDED = 256, /* the content was given up */
    MOVE_FAILED = 512     /* the driver refused: nothing moved */
};

/* An operation that was held, recorded when it might go on. */
struct hold_record {
    struct record head;
    uint64_t operation; /* its serial */
    uint64_t begun_ns;
    uint64_t ns;
    uint64_t missing; /* bytes of the pages that were waited for; 0: it waited for its turn */
    int32_t device;
    uint32_t unused;
};

struct counts_record {
    struct record head;
    uint64_t values[]; /* sums since the program began, by the ids of RECORD_COUNTER */
};

struct end_record {
    struct record head;
    uint64_t records; /* written, this one not counted */
    uint64_t drops;
};

#endif
