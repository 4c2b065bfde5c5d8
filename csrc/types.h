/* The words of PUMP, before any structure. One word per thing, the same in C, Python, the documents and log lines.
 *
 *   allocation   one device-memory allocation by the program
 *   block        a range of an allocation that the program uses as one thing: a tensor, a matrix, a workspace
 *   grain        2 MiB, which memory of ours is provided and counted in
 *   page         the unit that moves: a grain, or a power of two of them
 *   frame        room on the device for one page
 *   claim        a stale page's, on the frame where it is mapped: it comes back there without a call
 *   handle       physical memory that the program maps itself
 *   capacity     bytes of device memory that the program may see and use
 *   budget       bytes of device memory that pages may occupy: a factor (per cent) of the capacity
 *   quota        what is charged to the program, and the limit of that
 *
 *   operation    one piece of device work: a launch, a copy, a memset, a graph launch
 *   touch        one operation reading or writing a range
 *   extent       the range that may be reached from an address
 *   pointer table  device memory that holds addresses
 *   opaque       of an operation: it may touch memory that it does not show
 *   trusted      of a kernel: it reaches nothing but what its arguments show
 *   capture      the recording of a stream into a graph: nothing of ours may land there
 *
 *   admit        let an operation be issued
 *   hold         keep its thread until it may be
 *   stall        the time for which it is held
 *   patience     how long that may last
 *   settle       enter an admitted operation behind its real call
 *   retire       finish on the device
 *   pin          keep a page on the device while an operation that touches it runs; host memory: what the GPU may copy
 *   fast path    the way of operations that need not be admitted, while nothing moves
 *   gate         what may hold the device back: a host function, a wait for memory
 *
 *   fill, evict  bring a page's bytes to the device; take them away
 *   move         one fill or eviction of adjacent pages
 *   lane         the moves of one direction
 *   ahead        of a fill: before an operation waits for it
 *   in place     of a page: used on the host, over the link
 *   live, dead   of a page: its content matters; it does not, and need not be copied
 *   clean, dirty of a page: the host has the same bytes; the device has newer ones
 *   stale        of a page: away, and still mapped to the frame that it had
 *   evict queue  the pages that may leave, in order
 *   mover        a thread of ours that carries moves out
 *   watcher      a thread of ours that sees what is done
 *   marker       an event in a stream that tells it
 *
 *   broker       the process that shares a GPU out among tenants: programs
 *   lease        what a tenant may use of it, and when
 *   turn         the time in which one tenant of several may issue
 *   barred       of a tenant: kept from its broker
 *   checkpoint   a program on a disk, which can be restarted; the driver's: a context in host memory
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
