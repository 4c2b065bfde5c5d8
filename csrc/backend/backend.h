/* The backend contract: how memory is provided and moved, and what holds an operation back until its pages are there.
 *
 * Any thread of the program calls; none of these changes the program's arguments, result, current context or last
 * error. A backend that serves no device may leave all but name and serves NULL. */
#ifndef ULMS_BACKEND_H
#define ULMS_BACKEND_H

#include "launch/op.h"

enum { BACKEND_PIECES = 32 };

/* Pieces of physical memory that lie one behind the other at the addresses of an allocation. */
struct backend_share {
    const bool *given_up; /* atomic, the caller's: it wants nothing any more */
    uint64_t lead;        /* the allocation begins so many bytes behind the first one's beginning */
    uint64_t bytes;       /* of all of them */
    size_t all;           /* how many there are */
    size_t count;         /* of which so many follow */
    struct {
        int file;
        uint64_t bytes;
    } piece[BACKEND_PIECES];
};

/* Memory for a handle that has no addresses yet. */
struct promise;

/* Memory of the backend's that a handle of the driver's takes over. */
struct own_real {
    addr_t at;
    uint64_t bytes;
    unsigned long long handle;
    bool shown;       /* the handle is to be mapped there */
    uint64_t context; /* where it may be used; 0: nowhere */
};

/* The program's own virtual memory: the backend's memory at addresses that the program reserved, and shows and hides
 * by mapping. What the program does with a handle beyond that makes its memory the driver's. */
struct backend_own {
    /* Memory that can be put at any whole grains. NULL: there is none. The current context is the device's. */
    struct promise *(*promise)(uint64_t bytes, int32_t device);
    void (*forgo)(struct promise *p);
    /* Memory of the device can be put at these addresses, whole pages, which the program reserved. */
    bool (*open)(addr_t start, uint64_t bytes, int32_t device);
    /* Nothing is there any more. */
    void (*close)(addr_t start);
    /* The memory lies there, and p is gone. False: it cannot, and p is as before, but may be empty. */
    bool (*put)(struct promise *p, addr_t at, uint64_t bytes);
    /* Of memory that was put there: nobody uses it until it is shown again. */
    void (*hide)(addr_t at);
    bool (*show)(addr_t at);
    /* It is nobody's any more. */
    void (*drop)(addr_t at);
    /* The memory that was put on pages of [start, start + bytes), and on pages that this reaches to: the starts of n at
     * most. Returns how many there are. */
    size_t (*beside)(addr_t start, uint64_t bytes, addr_t *out, size_t n);
    /* Puts handles of the driver's, with the content, in the place of all the memory that `beside` says. False: it
     * cannot be done, and nothing has changed. */
    bool (*replace)(const struct own_real *list, size_t n);
    /* A handle of the driver's is mapped there, or no more. */
    void (*foreign)(addr_t start, uint64_t bytes, bool mapped);
};

/* What a program wants of a device that it shares with others, and has. */
struct backend_load {
    uint64_t need;       /* bytes that it uses in turn */
    uint64_t held;       /* bytes of the device */
    uint64_t refilled;   /* bytes that came over the link since the start */
    uint64_t evicted;    /* bytes that went over it */
    uint64_t stays;      /* bytes of `held` that cannot leave */
    uint64_t lingers;    /* bytes that left and that the driver keeps until it needs them; where nothing may stay */
    uint64_t filed;      /* bytes that lie in a file */
    const char *unfiled; /* why not all that was to go there did; NULL: it did */
    bool files;          /* more go there */
    bool wants;          /* a thread of the program waits to issue */
};

/* Of a device that several processes share (csrc/tenant). A device that is not the backend's: nothing happens. */
struct backend_shares {
    /* The program uses the device: the backend does from now on, too, whether any memory is to move or not. False: its
     * context is not current. Any thread of the program. */
    bool (*use)(int32_t device);
    /* From now on no operation of the device is admitted: who issues one waits. Or (false) no more. */
    void (*close)(int32_t device, bool closed);
    /* From now on so many nanoseconds of work are before the device at most; 0: any. */
    void (*bound)(int32_t device, uint64_t most_ns);
    /* From now on its budget follows those of others: what is away is waited for, as it can come soon, and not used
     * where it lies. Or (false) no more. */
    void (*settles)(int32_t device, bool settles);
    /* Nothing runs that was issued to the device: looks once. On a thread of ours. */
    bool (*idle)(int32_t device);
    /* From now on host memory for all that may leave is pinned ahead, where any is. Or (false) no more. */
    void (*pin)(int32_t device, bool pins);
    /* All has left: from now on what lies on the host goes to a file in the folder ("": in memory, unless there is a
     * file); NULL: no more does. On one thread of ours. */
    void (*file)(int32_t device, const char *folder);
    /* All that lay on the host is in the file: no host memory is the driver's any more, and whoever needs some waits,
     * until (false). Another process may take the context from the device then. NULL, or why not; "": something moves
     * still. Likewise. */
    const char *(*let_go)(int32_t device, bool lets);
    struct backend_load (*load)(int32_t device);
};

struct pager_kind;

struct backend {
    const char *name;              /* what ULMS_BACKEND calls it */
    const struct pager_kind *kind; /* what the pager does in its own way; NULL: it has none */

    /* --- operations --- */

    /* While nothing moves, operations may pass without a call of admit (driver/fast_path.h). A backend that begins to
     * move ends the fast path first, and waits until it has drained. */
    bool fast_path;
    /* admit runs on the issuing thread before the real call, with the operation's touches known; it may wait, and may
     * refuse it (OP_REFUSED, and a status) where it would use memory that is lost. It is never called for an operation
     * that goes into a stream capture. settle runs after the real call and pairs with every admit. */
    void (*admit)(struct op *op);
    void (*settle)(const struct op *op);
    /* A copy or memset becomes a node of a graph, captured or made: until still_end on this thread all that it touches
     * is mapped. Once or several times. NULL, both: it always is. */
    void (*still_begin)(const struct op *op);
    void (*still_end)(void);
    /* A library's call of this thread has returned whose kernels are one operation. NULL: each is one. */
    void (*returned)(void);
    /* From now on operations may run that admit is not called for, as the driver does not tell what is captured. NULL:
     * they do no harm. */
    void (*capture_unknown)(void);
    /* A jump out of a handler of a signal has left an operation of this thread behind, between admit and settle. NULL:
     * nothing is counted meanwhile. */
    void (*jumped)(void);

    /* --- memory --- */

    /* Memory of this device may be the backend's. */
    bool (*serves)(int32_t device);
    /* New memory of the backend's kind in the current context, which is the device's: *start, of `bytes` in whole
     * grains. False: there is none, the real call takes the backend's place. Served devices only. */
    bool (*provide)(addr_t *start, uint64_t bytes, int32_t device);
    /* The address is of the backend's memory, whether an allocation is there or not. NULL: where none is, the driver
     * refuses it itself. */
    bool (*holds)(addr_t p);
    /* The memory is in the ledger, its content means nothing to anybody. Whole grains; also memory that the program
     * asked to be managed. */
    void (*arrived)(addr_t start, uint64_t bytes, int32_t device);
    /* Whether so many bytes more would make pages begin to move: what is unused had better leave before. */
    bool (*crowded)(int32_t device, uint64_t bytes);
    /* Bytes that its pages may occupy of a device at a time. NULL: they do not move. */
    uint64_t (*room)(int32_t device);
    /* There is more plain memory on a served device, of which a context need not be current: less room is left for
     * pages. */
    void (*plain)(int32_t device);
    /* So much more of it is about to be, or (below 0) is there now, or will not be: pages leave for it before, as long
     * as patience lasts. */
    void (*coming)(int32_t device, int64_t bytes);
    /* What the program's memory may occupy of the device is another now (capacity_granted). NULL: that does not
     * matter. */
    void (*granted)(int32_t device);
    /* It is about to be freed, or, with its context, already was. On return no move of it is under way and none will
     * be. What never arrived may leave. */
    void (*freeing)(addr_t start, uint64_t bytes);
    /* It was freed in stream order, and leaves later, or arrives again without that. `unused`: what was issued before
     * that has run, so that nobody wants its content. False: to be told so once more. NULL: it leaves at once. */
    bool (*free_deferred)(addr_t start, uint64_t bytes, bool unused);
    /* Takes back memory that provide gave and that has left, in the place of the driver's free, which waits for the
     * context (0: it is gone, nothing is left to wait for). *status: what the free returns. False, or NULL: it is not
     * the backend's to free. */
    bool (*release)(addr_t start, uint64_t context, int32_t *status);
    /* Bytes of the device that the backend holds, used or not, and the driver takes for used. NULL: none. */
    uint64_t (*held)(int32_t device);
    /* The driver has no memory left on a served device, whose context is current: gives back what is held without use.
     * False: there was nothing. NULL: never is. */
    bool (*relieve)(int32_t device);
    /* NULL: what the program maps itself is the driver's. */
    const struct backend_own *own;
    /* Memory that provide gave and that other processes are to map: from now on it stays, in physical memory of its
     * own. Fills in its pieces from number `first` on; their files are the caller's to close. Any thread of ours; waits
     * until no operation runs. False: it cannot be shared now. NULL: it never can. */
    bool (*share)(addr_t start, size_t first, struct backend_share *share);

    /* --- reachability --- */

    /* A copy has brought addresses to the device: operations of which we know nothing may use what they point to. NULL:
     * that does no harm, and nobody looks for addresses. */
    void (*pin_reachable)(const addr_t *pointers, size_t n);

    /* --- blocks of the framework's allocator --- */

    /* The ledger is about to know of one; `block` follows on this thread when it does. */
    void (*block_before)(void);
    /* It was given out (live) or taken back. */
    void (*block)(addr_t start, uint64_t bytes, bool live);

    /* NULL: its device cannot be shared. */
    const struct backend_shares *shares;

    /* --- contexts, and the process --- */

    /* The program has just waited for the whole context: what could not be taken back before may be now. NULL: all was.
     */
    void (*context_synced)(uint64_t context);
    /* The context is about to be destroyed, or may be: nothing of ours uses it on return, and no memory moves
     * until forgotten. */
    void (*forget)(uint64_t context);
    /* It is gone, and its memory has left; or (0) it stays. As often as forget. NULL with it. */
    void (*forgotten)(uint64_t gone);
    /* In a forked child: it takes no lock. NULL: there is nothing to do. */
    void (*fork_child)(void);
    /* The process ends in a handler of a signal that interrupted this thread in a call of ours: threads of ours begin
     * nothing new. Takes no lock and waits for nothing. NULL: there are none. */
    void (*abandon)(void);
    /* The process ends, and the driver still answers. Nothing is held and no thread of ours runs on return. */
    void (*stop)(void);
};

/* Why what operations touch matters, anywhere; 0: it does not. */
enum {
    BACKEND_MOVES = 1,  /* pages have begun to move */
    BACKEND_FROZEN = 2, /* no operation may run for a moment (pager/freeze.c) */
    BACKEND_TURN = 4    /* another process has a device's turn (pager/turn.c) */
};
extern uint8_t backend_moves;

extern const struct backend backend_observe; /* replaces nothing: counts and traces */
extern const struct backend backend_um;      /* managed memory, moved by prefetches */
extern const struct backend backend_vmm;     /* remapped memory, moved by copies */

#endif
