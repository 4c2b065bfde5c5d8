/* The words of PUMP, before any structure. One word per thing, the same in C, Python, the documents and log lines.
 *
 *   allocation  one device-memory allocation by the program
 *   block       a range of an allocation that the program uses as one thing: a tensor, a matrix, a workspace
 *   touch       one operation reading or writing a range
 *   operation   one piece of device work: a launch, a copy, a memset, a graph launch
 *   retired     an operation that has finished on the device
 *   page        2 MiB of managed memory, the unit of residency; or a multiple of it
 *   capacity    bytes of device memory that the program may see and use
 *   budget      bytes of device memory that pages may occupy: a factor (per cent) of the capacity
 */
#ifndef ULMS_TYPES_H
#define ULMS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t addr_t; /* a device address; never dereferenced on the host */

/* Devices are numbered by CUDA ordinal; memory on the host that a device can reach has none. */
enum { DEVICE_MAX = 32, DEVICE_NONE = -1 };

enum touch_mode { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_UPDATE = 3, TOUCH_SCRATCH = 4 };

/* Who told the extent of a touch, best first. */
enum touch_source {
    SOURCE_CALL,       /* the call's own arguments: a copy, a memset */
    SOURCE_LIBRARY,    /* descriptors of cuBLAS, cuDNN */
    SOURCE_FRAMEWORK,  /* the framework's allocator events */
    SOURCE_OBSERVED,   /* the next pointer observed in the same allocation */
    SOURCE_ALLOCATION, /* nothing better is known: the whole allocation */
    SOURCE_COUNT
};

struct touch {
    addr_t start;
    uint64_t bytes;
    uint64_t allocation; /* its id in the ledger; 0: not in the ledger */
    uint8_t mode;        /* enum touch_mode */
    uint8_t source;      /* enum touch_source */
    bool sparse;         /* little of it is read, nothing is written: rows are gathered from it */
    uint32_t before;     /* bytes from the address that a library's call was given to start, which lies behind it */
};

enum memory_kind {
    MEMORY_PLAIN,
    MEMORY_PITCH,
    MEMORY_MANAGED,
    MEMORY_ASYNC,  /* cuMemAllocAsync, from a pool */
    MEMORY_ARRAY,  /* counted; has no address */
    MEMORY_VMM,    /* cuMemCreate; ranges are its mappings */
    MEMORY_IPC,    /* another process's; not charged here */
    MEMORY_GLOBAL, /* a module's variable; not charged */
    MEMORY_GRAPH,  /* a graph's own allocation */
    MEMORY_HOST,   /* pinned host memory, which kernels may use; not charged */
    MEMORY_KINDS
};

#endif
