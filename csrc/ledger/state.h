/* What a ledger consists of; for the files of this folder only. */
#ifndef ULMS_STATE_H
#define ULMS_STATE_H

#include "ledger/addrmap.h"
#include "ledger/ledger.h"
#include "ledger/seqlock.h"
#include "ledger/table.h"

/* One bit a GiB, of 2^48 addresses; addresses beyond share bits. A bit once set stays. */
enum { SEEN_SHIFT = 30, SEEN_BITS = 1 << 18 };

/* The value of a range in `blocks`: the id of the allocation that holds all of it (0: none does) and who told it.
 * Blocks lie inside one allocation, except the framework's: they may span several, or none that is known. Those a
 * library told count as observed, but no pointer observed inside splits them. What the framework took back stays, as a
 * free range, until another block needs the place: frameworks give out the same ones again and again. */
enum {
    BLOCK_OBSERVED,
    BLOCK_FRAMEWORK,
    BLOCK_LIBRARY,
    BLOCK_FREE = 4, /* inside an allocation that the framework divides; as good as none */
    BLOCK_TOLD = BLOCK_FRAMEWORK | BLOCK_LIBRARY,
    BLOCK_ID_SHIFT = 3
};

/* So many in an allocation: a kernel that is handed a new address at every launch must not fill the ledger. */
enum { OBSERVED_MAX = 4096 };

/* As `observed` counts them. */
static inline bool is_observed(uint64_t block) {
    return !(block & (BLOCK_FRAMEWORK | BLOCK_FREE));
}

/* What lies in no block of memory that the framework divides is unused; but not where a capture was given some of it:
 * what a graph uses is the graph's after the framework took it back, and gave it to others that run before or after.
 * Its blocks have no id, so that only look-ups in the capture itself believe them, and none of them is free. */
enum divided { UNDIVIDED, DIVIDED, DIVIDED_BY_GRAPHS };

struct record {
    _Alignas(64) word spare; /* the pool's */
    word id, charged, context;
    word where;    /* device, of 32 bits; kind; managed, of one */
    word observed; /* observed blocks in it */
    word divided;  /* enum divided */
    word joined;   /* observed blocks in it that calls used as one with others */
};

/* A block, pending.c; bytes 0: none. Those that share a line of memory, the newest first. */
struct pending {
    addr_t start;
    uint64_t bytes;
};
enum { PENDING_BITS = 11, PENDING_WAYS = 4 };
struct pending_line {
    _Alignas(64) struct pending way[PENDING_WAYS];
};

/* How many bytes each device holds, and the most it may: changed without a lock. A device that has no number
 * (DEVICE_NONE, or DEVICE_MAX and above) is neither limited nor counted. */
struct quota {
    word managed_limit; /* managed bytes in all, as the host backs them for all devices; 0: no limit */
    word managed;       /* bytes in whole pages */
    struct {
        word limit;   /* plain bytes it may hold; 0: no limit */
        word claimed; /* plain bytes held or promised: what the limit bounds */
        word plain;   /* bytes held: part of used */
        word used, peak;
    } devices[DEVICE_MAX];
};
/* Nothing is held and nothing ever was; the limits stay. */
void quota_clear(struct quota *q);

struct ledger {
    struct seqlock lock;
    word lowest, highest;       /* no address below, or from here on, was ever in the ledger */
    word table_low, table_high; /* nor does a table reach there; high is 0 while there is none */
    word pending_count;         /* blocks told that are not in `blocks` yet */
    atomic_bool pending_busy;   /* the lock of what is pending, taken before the writer's */
    bool all_at_once;           /* none is told later any more */
    word seen[SEEN_BITS / 64];
    struct quota quota;
    uint64_t last_id;
    word observed;              /* observed blocks in all */
    word free;                  /* free ranges in all */
    struct addrmap allocations; /* value: struct record * */
    struct addrmap blocks;
    struct tables tables;
    struct pool records;
    struct pending_line pending[1 << PENDING_BITS];
};

static inline bool valid(addr_t start, uint64_t bytes) {
    return start > 0 && bytes > 0 && start + bytes > start;
}

/* Look-ups write hints, and may wait their turn at the lock. */
static inline struct ledger *open_for_look(const struct ledger *l) {
    return (struct ledger *)(uintptr_t)l;
}

static inline struct record *record_of(const struct range *allocation) {
    return (struct record *)(uintptr_t)allocation->value;
}

static inline struct allocation allocation_of(const struct range *r) {
    const struct record *c = record_of(r);
    uint64_t where = get(&c->where);
    return (struct allocation){.start = r->start,
                               .bytes = r->end - r->start,
                               .id = get(&c->id),
                               .charged = get(&c->charged),
                               .context = get(&c->context),
                               .device = (int32_t)(uint32_t)(where >> 32),
                               .kind = (uint16_t)(where >> 1),
                               .managed = where & 1};
}

/* False of almost every range without tables. */
static inline bool may_have_tables(const struct ledger *l, addr_t start, addr_t end) {
    return start < get(&l->table_high) && end > get(&l->table_low);
}

/* Forgets what tables say of [start, end). The caller holds the writer's lock. */
void tables_gone(struct ledger *l, addr_t start, addr_t end);
/* [start, end) changes hands: what was copied there is nobody's any more. The caller holds the writer's lock. */
static inline void use_anew(struct ledger *l, addr_t start, addr_t end) {
    if (__builtin_expect(may_have_tables(l, start, end), 0))
        tables_gone(l, start, end);
}

/* The framework told of the block. The caller holds the writer's lock. */
void block_enter(struct ledger *l, addr_t start, uint64_t bytes);
/* It took back the one that starts there. False: there is none. The caller holds the writer's lock. */
bool block_leave(struct ledger *l, addr_t start);

/* Held for a few stores, seldom for a block to enter. */
void pending_wait(struct ledger *l);
static inline void pending_begin(struct ledger *l) {
    section_begin();
    if (__builtin_expect(atomic_exchange_explicit(&l->pending_busy, true, memory_order_acquire), 0))
        pending_wait(l);
}
static inline void pending_end(struct ledger *l) {
    atomic_store_explicit(&l->pending_busy, false, memory_order_release);
    section_end();
}
/* The pending block that starts there is pending no more. False: none does. */
bool pending_remove(struct ledger *l, addr_t start);
void pending_enter(struct ledger *l);
/* Whoever looks blocks up says this first. */
static inline void blocks_needed(const struct ledger *l) {
    if (__builtin_expect(get(&l->pending_count) != 0, 0))
        pending_enter(open_for_look(l));
}

/* So many more observed blocks are in it. The caller holds the writer's lock. */
static inline void count_observed(struct ledger *l, const struct range *allocation, uint64_t more) {
    word *observed = &record_of(allocation)->observed;
    put(observed, get(observed) + more);
    put(&l->observed, get(&l->observed) + more);
}

/* Forgets the blocks that reach into [start, end), but not in what allocation they were; an observed one keeps what
 * lies before start. The caller holds the writer's lock. */
void blocks_forget(struct ledger *l, addr_t start, addr_t end);

#endif
