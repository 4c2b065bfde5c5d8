/* What the files of the engine share. docs/engine-rules.md has the rules that they follow. */
#ifndef ULMS_ENGINE_ENGINE_H
#define ULMS_ENGINE_ENGINE_H

#include "base/larger.h"
#include "engine/depth.h"
#include "engine/page.h"
#include "engine/policy.h"
#include "engine/registry.h"
#include "types.h"
#include "ulms.h"

/* --- operations --- */

/* What an operation does to a page: the union of its touches' modes (ULMS_TOUCH_*), and: */
enum {
    DOES_READ = ULMS_TOUCH_READ,
    DOES_MODES = 7,
    DOES_FADE = 8, /* leaves it dead */
    DOES_MUCH = 32 /* not only sparse reads */
};

enum { FAILURES_MAX = 3 };

struct entry {
    struct page *page;
    uint32_t generation; /* another than the page's: that memory is gone */
    uint8_t does;
};

struct operation {
    struct registered id; /* its serial; first, see registry.h */
    struct operation *before, *after;
    struct entry *entries; /* by page number */
    size_t count;
    size_t capacity;
    uint64_t key;
    uint64_t sure; /* sure pages whose waiter this is */
    size_t cursor; /* none of them before this entry */
    uint64_t wait; /* ordered: the last move made for it */
    bool queued;   /* held: it waits; ordered: it is in the fill window */
    bool late;
    bool is_short;
};

/* Operations in the order in which they were issued. */
struct queue {
    struct operation *first, *last;
};

void queue_append(struct queue *q, struct operation *op);
void queue_remove(struct queue *q, struct operation *op);

static inline bool entry_holds(const struct entry *x) {
    return x->generation == x->page->generation;
}

/* --- moves --- */

struct move {
    struct registered id; /* first, see registry.h */
    struct move *after;   /* in its lane, or among the unused */
    struct ulms_move out;
};

struct lane {
    struct move *first, *last;
};

/* --- who leaves --- */

/* The pages that may leave: two heaps. */
struct evict_queue {
    struct page *first[2]; /* on top of the heap of dead pages; of live ones */
    struct page *marked;   /* to be settled before the next look, oldest mark first */
    struct page *marked_last;
    bool stale; /* every key may have changed */
};

/* --- what comes next --- */

struct record {
    struct page *page;
    uint32_t ahead; /* operations to the next touch of the page; 0: none yet */
    uint8_t does;
};

struct past {
    uint64_t key;
    uint64_t mark;     /* of the key and the run of pages that tells most */
    uint64_t records;  /* number of the first */
    uint64_t previous; /* the position before in its bucket, of whatever mark; 0: none */
    uint32_t count;
    uint32_t weight;  /* in a likeness */
    uint32_t live;    /* pages that are once it runs, and those that it leaves dead */
    uint32_t between; /* dead pages that were touched shortly before and are again shortly after */
};

/* What has frames while it runs. */
static inline uint32_t past_most(const struct past *op) {
    return op->live + op->between;
}

/* Two rings. Positions and record numbers only grow. */
struct history {
    struct past *ops;
    uint64_t *buckets; /* by mark: the latest position */
    size_t ops_capacity;
    struct record *records;
    size_t records_capacity;
    uint64_t first, end; /* positions [first, end) are kept */
    uint64_t records_end;
};

static inline struct past *history_at(const struct history *h, uint64_t position) {
    return &h->ops[position & (h->ops_capacity - 1)];
}

static inline struct record *history_record(const struct history *h, uint64_t number) {
    return &h->records[number & (h->records_capacity - 1)];
}

struct track {
    bool on;
    uint64_t position; /* p */
    uint64_t search_at;
    uint32_t inserted;
    uint64_t steady; /* operations in a row that were expected */
    uint32_t epoch;  /* from 1 */
};

/* Predicted demand of one kind: a tree of sums over the positions of the history's ring. Place i of the ring is
 * sums[capacity + i], and what is above sums[n] is sums[n / 8]: there is none where that is 0. */
struct fill_demand {
    uint32_t *sums;
    size_t capacity; /* power of two, that of history.ops; 0: none */
    uint64_t total;
    uint64_t first; /* no position before it has any */
};

/* Whether streamed pages are used where they lie: trial.c. */
struct trial {
    int step;
    bool leave_streamed;  /* the way taken: streamed pages are left, not filled */
    bool close;           /* what was decided: neither way takes much longer */
    uint64_t laps;        /* of this step */
    uint64_t again;       /* so many after what was decided both ways are tried anew */
    uint64_t period;      /* of the laps compared; operations */
    uint64_t seen;        /* serial that ended the latest like them */
    uint64_t shortest;    /* ns of the laps of this step that count */
    uint64_t filled;      /* of those in which all pages came */
    uint64_t first, last; /* serials that begin and end the lap under way; 0: none yet */
    uint64_t length;      /* its period */
    uint64_t late;        /* operations that were, when it began */
    uint64_t begun;       /* when `first` had retired, ns; 0: not yet */
};

/* The most pages that had to have frames in a range of the history: a binary tree over the positions of its ring. */
struct peaks {
    uint32_t *most;  /* [1] is the root, the children of [i] are [2 i] and [2 i + 1] */
    size_t capacity; /* that of history.ops; 0: none */
};

struct ulms_engine {
    const struct policy *policy;
    struct page_table table;
    unsigned shift;      /* log2 of the page size */
    uint64_t run_pages;  /* at least 1 */
    uint64_t shed_pages; /* at least run_pages */
    uint64_t near_pages; /* frames kept free, at least 1 */
    bool keeps, faults;
    uint32_t in_place;  /* ULMS_IN_PLACE_* */
    ulms_holder holder; /* NULL: frames are alike */
    void *holder_data;

    uint64_t budget_bytes;
    uint64_t budget; /* the rest in pages */
    uint64_t pages;  /* allocated */
    uint64_t used;   /* frames */
    uint64_t filling;
    uint64_t evicting;
    uint64_t counted[COUNTS]; /* held: pages, by enum page_count */
    uint64_t lying;           /* pages that left to be used in place */

    uint64_t serial;            /* the last given out */
    uint64_t sent_at;           /* held: what it was when a page left last with its bytes; 0: none did */
    uint64_t carried;           /* held: of the 64 live pages that left last, a bit each: with its bytes */
    struct registry operations; /* issued and not retired */
    struct operation *unused;
    struct queue waiting;  /* held: neither admitted nor retired */
    struct queue window;   /* ordered: the fill window */
    uint64_t window_pages; /* that operations of the window touch */
    uint64_t running;      /* held: admitted and not retired */
    bool overtaken;        /* held: an operation was admitted before the first waiting one */

    uint64_t last_move;    /* the last id given out */
    struct registry moves; /* given out and not done */
    struct move *spare;
    size_t spares;
    struct lane lane; /* ordered: made and not given out */

    struct evict_queue evict_queue;
    struct fill_demand places, bytes, resting; /* predicted, of dead pages, of live ones, of those that rest */
    struct peaks peaks;
    struct history history;
    struct track track;
    struct trial trial;
    struct depth depth;
    struct ulms_engine_stats stats;
};

static inline uint64_t bytes_of(const struct ulms_engine *e, uint64_t pages) {
    return pages << e->shift;
}

/* The numbers of the pages that [start, start + bytes) overlaps; bytes > 0. */
static inline void span(const struct ulms_engine *e, uint64_t start, uint64_t bytes, uint64_t *first, uint64_t *last) {
    uint64_t end = start + (bytes - 1);
    *first = start >> e->shift;
    *last = (end < start ? UINT64_MAX : end) >> e->shift;
}

/* evict_queue.c: the resident pages that may leave, in order. */

/* The first to leave of the pages, of the dead and of the live ones, whose next touch is after that time. NULL: none.
 */
struct page *evict_queue_first(struct ulms_engine *e, uint64_t after);
struct page *evict_queue_first_dead(struct ulms_engine *e, uint64_t after);
struct page *evict_queue_first_live(struct ulms_engine *e, uint64_t after);
void evict_queue_check(struct ulms_engine *e);

/* Resident, and neither pinned nor given up. */
static inline bool page_may_leave(const struct page *p) {
    return p->state == PAGE_RESIDENT && p->pins == 0 && p->failures < FAILURES_MAX;
}

/* Whether the page may leave, or its place in the order, may have changed. */
static inline void evict_queue_mark(struct ulms_engine *e, struct page *p) {
    if (p->marked || !(p->heap || page_may_leave(p)))
        return;
    p->marked = true;
    p->marked_next = NULL;
    *(e->evict_queue.marked ? &e->evict_queue.marked_last->marked_next : &e->evict_queue.marked) = p;
    e->evict_queue.marked_last = p;
}

/* The times of touches: serials of waiting operations, then predicted ones, then this. */
#define TIME_PREDICTED (1ull << 62)
#define TIME_UNKNOWN   UINT64_MAX
static inline uint64_t page_time(const struct ulms_engine *e, const struct page *p) {
    if (p->waiter)
        return p->waiter->id.id;
    return p->epoch == e->track.epoch && p->next ? TIME_PREDICTED + p->next : TIME_UNKNOWN;
}

/* Touched once in the period, in a way that may be done where it lies: what is sparse there costs nothing, of others it
 * is tried. */
static inline bool page_streamed(const struct ulms_engine *e, const struct page *p) {
    if (!e->in_place || !(e->trial.leave_streamed || p->sparse) || !p->live || p->epoch != e->track.epoch || !p->next ||
        p->next != p->seen)
        return false;
    uint8_t does = history_record(&e->history, p->record - 1)->does;
    return p->sparse || does == (DOES_READ | DOES_MUCH) ||
           (e->in_place == ULMS_IN_PLACE_ALL && !(does & ULMS_TOUCH_SCRATCH));
}

/* What counts when pages leave: a streamed page serves where it lies; one that died before its next touch, and will die
 * again, goes one way only. */
static inline uint64_t page_leave_time(const struct ulms_engine *e, const struct page *p) {
    if (p->waiter)
        return p->waiter->id.id;
    if (p->epoch != e->track.epoch || !p->next || page_streamed(e, p))
        return TIME_UNKNOWN;
    return TIME_PREDICTED + (p->next == p->born && p->live ? (p->died + p->born) / 2 : p->next);
}

/* fill_demand.c: the demanded pages. */

/* When the k-th page is wanted, k from 1, of the sure pages and of the predicted ones of one kind.
 * TIME_UNKNOWN: there are not so many. */
uint64_t fill_demand_sure(const struct ulms_engine *e, uint64_t k);
uint64_t fill_demand_predicted(const struct ulms_engine *e, struct fill_demand *d, uint64_t k);
/* Takes a demanded page off what is counted, settles an absent one, and enters a predicted one again. */
void fill_demand_unset(struct ulms_engine *e, struct page *p);
void fill_demand_settle(struct ulms_engine *e, struct page *p);
void fill_demand_enter(struct ulms_engine *e, const struct page *p);
void fill_demand_clear(struct fill_demand *d);
/* For positions of a history of that capacity; empty. False: no memory. */
bool fill_demand_open(struct fill_demand *d, size_t capacity);

static inline uint8_t count_of(const struct page *p) {
    bool here = p->state == PAGE_RESIDENT || p->state == PAGE_FILLING;
    if (p->live)
        return here || (p->waiter && !p->rests) ? COUNT_HERE : COUNT_AWAY;
    return p->state == PAGE_RESIDENT && !p->waiter ? COUNT_IDLE : COUNT_DEAD;
}

static inline void count_page(struct ulms_engine *e, struct page *p) {
    uint8_t count = count_of(p);
    if (count == p->count)
        return;
    e->counted[p->count]--;
    e->counted[count]++;
    p->count = count;
}

/* Every change of a page's state, life, pins, failures, waiter or next touch lies between unsettle and settle. */
static inline void unsettle(struct ulms_engine *e, struct page *p) {
    if (p->demand != DEMAND_NONE)
        fill_demand_unset(e, p);
}

/* The same where only pins and touches change: a page that is not absent is counted whatever they are. */
static inline void settle_order(struct ulms_engine *e, struct page *p) {
    if (p->state == PAGE_ABSENT)
        fill_demand_settle(e, p);
    else
        evict_queue_mark(e, p);
}

static inline void settle(struct ulms_engine *e, struct page *p) {
    if (p->state != PAGE_ABSENT) {
        p->rests = false;
        count_page(e, p);
    }
    settle_order(e, p);
}

/* peaks.c: how many pages have to have frames when. */

/* As fill_demand_open. */
bool peaks_open(struct peaks *k, size_t capacity);
void peaks_set(struct peaks *k, uint64_t position, uint32_t live);
/* After many were set in their places alone. */
void peaks_sum(struct peaks *k);
static inline uint32_t *peaks_at(const struct peaks *k, uint64_t position) {
    return &k->most[k->capacity + (position & (k->capacity - 1))];
}
/* Of positions [first, end), which the ring holds: the most, and the first with more than that (end: none). */
uint32_t peaks_most(const struct peaks *k, uint64_t first, uint64_t end);
uint64_t peaks_above(const struct peaks *k, uint64_t first, uint64_t end, uint32_t live);

/* history.c */

/* Operations that a likeness goes back; likenesses that differ by a MARGINth are as good as each other. */
enum { BACK_MOST = 64, MARGIN = 8 };

/* Enters an operation; drops what no longer fits. False: it does not fit at all, and the history is empty. */
bool history_append(struct ulms_engine *e, const struct operation *op);
/* The likeness of two positions that are kept, a before b: a weight, BACK_MOST for a rare page. */
uint64_t history_likeness(const struct history *h, uint64_t a, uint64_t b);
/* The latest position before m with as good as the greatest likeness with m, if that is more. 0: none. */
uint64_t history_search(const struct history *h, uint64_t m, uint64_t more);
void history_free(struct history *h);

/* sequence.c */

/* Tells the history of an operation that is issued, and the pages of what follows. */
void sequence_issued(struct ulms_engine *e, const struct operation *op);
/* Other pages are streamed than before. */
void sequence_renew(struct ulms_engine *e);

/* trial.c */

void trial_issued(struct ulms_engine *e, uint64_t now, bool surprise);
void trial_retired(struct ulms_engine *e, uint64_t serial, uint64_t now);

/* moves.c: moves */

struct move *move_new(struct ulms_engine *e);
/* A move that begins at that page, without pages yet. NULL: no memory. */
struct move *move_give_out(struct ulms_engine *e, const struct page *p, uint32_t kind, uint32_t flags);
/* Room for n more moves without memory. False: no memory. */
bool move_reserve(struct ulms_engine *e, size_t n);
/* Whether it left so that kernels use it in place. */
void set_lying(struct ulms_engine *e, struct page *p, bool lies);
/* Whether it came with bytes, and was not touched since. */
static inline void set_untouched(struct ulms_engine *e, struct page *p, bool untouched) {
    if (p->untouched != untouched)
        e->depth.untouched += (uint64_t)untouched - p->untouched;
    p->untouched = untouched;
}

/* How many pages a move of the held policy still moved: the memory of some may be gone. */
uint64_t held_moved(struct ulms_engine *e, const struct ulms_move *m, bool ok);

/* operation.c */

bool held_issued(struct ulms_engine *e, struct operation *op);
int held_admit(struct ulms_engine *e, struct operation *op, int at_once, uint64_t *wait);
void held_retired(struct ulms_engine *e, struct operation *op, uint64_t now);
void operation_free(struct operation *op);
/* What the operation makes of the page, now that it is sure to run. */
static inline void entry_mark(struct ulms_engine *e, const struct entry *x) {
    struct page *p = x->page;
    p->live = !(x->does & DOES_FADE);
    p->dirty = p->live && p->state != PAGE_ABSENT && (p->dirty || (x->does & DOES_MODES) != DOES_READ);
    set_untouched(e, p, false);
}

/* check.c: proves the invariants; aborts with a line on the first violation. For tests. */
void engine_check(struct ulms_engine *e);

#endif
