/* What the files here share, and what backends see. Any thread; each pool has a lock. */
#ifndef ULMS_FRAMES_H
#define ULMS_FRAMES_H

#include "base/lock.h"
#include "types.h"
#include "ulms.h"

/* Claims on a frame that are remembered; pages beyond them are mapped anew. */
enum { FRAMES_CLAIMS = 4 };

#define NO_FRAME UINT32_MAX

/* What a pool asks of its owner, for runs of consecutive frames. No lock is held. */
struct frames_memory {
    /* How many, from the first, have memory now. */
    size_t (*make)(void *own, uint32_t first, size_t n);
    /* False: they have it still, and are as good as before. */
    bool (*unmake)(void *own, uint32_t first, size_t n);
};

/* How many frames some pools may make together. */
struct frames_limit {
    struct lock lock;
    uint32_t most, made;       /* frames */
    struct ulms_frames *pools; /* for good */
    uint64_t given;            /* so often frames were given, or may be made again. Atomic, and so is the next */
    uint32_t held;             /* threads that make or unmake frames which nobody has asked for */
};
#define FRAMES_LIMIT_NONE {.most = NO_FRAME}

void frames_limit_set(struct frames_limit *l, uint64_t bytes);

struct frame {
    uint64_t claims[FRAMES_CLAIMS]; /* when the pages came that are stale there; 0: none */
    addr_t holder;                  /* the page that came there last */
    uint64_t made_at;               /* `arrivals` when it was made, or unmade */
    bool once;                      /* unmade when it is given. By who has it */
};

struct ulms_frames {
    struct lock lock;
    uint32_t capacity, made, free; /* frames */
    struct frame *frame;           /* by number */
    uint64_t *idle, *bare;         /* bits by number: made and unused; not made */
    uint64_t arrivals;             /* pages that came */
    uint32_t lingering;            /* frames that were unmade, and where pages may be mapped still */
    uint32_t next;                 /* where the search for idle ones begins */
    const struct frames_memory *memory;
    void *own;
    struct frames_limit *limit, alone;
    struct ulms_frames *next_pool; /* under the limit */
    uint32_t stock, ahead;         /* so many idle frames should be there, while fewer than that are made */
    void (*low)(void *);           /* called with low_data by whoever takes, when they are not */
    void *low_data;
};

/* Room for so many frames, none made. memory NULL: they have none; limit NULL: there is none. False: no memory. */
bool frames_open(struct ulms_frames *f, uint64_t count, const struct frames_memory *memory, void *own,
                 struct frames_limit *limit);
/* Takes n frames, idle ones first: those without claims, mostly with consecutive numbers, then those whose claimants
 * came last, as pages tend to come in the same order again. together: neighbours, if there are so many idle ones,
 * and of those that leave fewest others, whatever their claims. Makes what is missing. False: there are not so many,
 * and none is taken. Their content is anybody's. */
bool frames_take(struct ulms_frames *f, uint32_t *out, size_t n, bool together);
/* From now on there should be `stock` idle frames, while those that are made are less than `bytes`. `low` is called
 * with `data` when there are not; any thread, without a lock. */
void frames_keep(struct ulms_frames *f, uint32_t stock, uint64_t bytes, void (*low)(void *), void *data);
/* Makes some of those that are missing. False: there is nothing to do, or it cannot be done. */
bool frames_stock(struct ulms_frames *f);
/* The same, until so many bytes of frames are made, used ones included. */
bool frames_make_ahead(struct ulms_frames *f, uint64_t bytes);
/* A frame that make_one made, which is handed n, and that is unmade as soon as it is given. NO_FRAME: there may be no
 * more, or it could not be made. */
uint32_t frames_make_once(struct ulms_frames *f, bool (*make_one)(void *own, uint32_t frame, size_t n), size_t n);
/* How often frames of the pools under its limit were given. */
uint64_t frames_given(const struct ulms_frames *f);
/* Some were since that was `given`, or will be at once: where none could be taken there may be one now. */
bool frames_may_come(const struct ulms_frames *f, uint64_t given);
/* Frames that were unmade, and whose memory is not free until no page is mapped there: at most so many. */
uint32_t frames_lingering(const struct ulms_frames *f);
/* At so many of them no page is mapped any more. */
void frames_left(struct ulms_frames *f, uint32_t n);
/* Unmakes idle frames, until only so many bytes of frames are made, used ones included. */
void frames_trim(struct ulms_frames *f, uint64_t bytes);
/* Bytes of the frames that are made. */
uint64_t frames_bytes(const struct ulms_frames *f);

/* The page is stale there no more. True, if so asked: the frame was idle and not unmade meanwhile, and is taken. */
bool frames_reclaim(struct ulms_frames *f, struct ulms_claim *c, bool take);
/* The stale page is, or may be, mapped at a frame that was unmade: its memory is free only once nobody is. */
bool frames_claim_is_void(struct ulms_frames *f, const struct ulms_claim *c);

/* Ends the process at the first invariant that does not hold. No call is under way. */
void frames_check(struct ulms_frames *f);

#endif
