/* One writer at a time; readers take no lock and read again when a writer was at work.
 *
 * What is guarded consists of words (word.h) in memory that keeps its type and stays mapped. A reader may act on a
 * torn state for a moment: every index it uses must be bounded and every pointer it follows must have been valid once.
 * A reader that loses too often waits its turn as a writer would, so that a descheduled writer costs it no spinning. */
#ifndef ULMS_SEQLOCK_H
#define ULMS_SEQLOCK_H

#include "base/lock.h"
#include "ledger/word.h"

#include <stdbool.h>

enum { READ_TRIES = 1024 };

struct seqlock {
    struct lock mutex;
    _Alignas(64) word sequence; /* odd while a writer is at work */
};

struct reading {
    uint64_t sequence;
    unsigned tries;
    bool locked, done;
};

static inline void write_begin(struct seqlock *s) {
    lock_take(&s->mutex);
    put(&s->sequence, get(&s->sequence) + 1);
}

static inline void write_end(struct seqlock *s) {
    put(&s->sequence, get(&s->sequence) + 1);
    lock_drop(&s->mutex);
}

static inline void read_again(struct seqlock *s, struct reading *r) {
    while ((r->sequence = get(&s->sequence)) & 1 && r->tries < READ_TRIES)
        r->tries++;
    if (r->tries == READ_TRIES) {
        lock_take(&s->mutex);
        r->locked = true;
    }
}

static inline struct reading read_begin(struct seqlock *s) {
    struct reading r = {0};
    read_again(s, &r);
    return r;
}

static inline void read_end(struct seqlock *s, struct reading *r) {
    if (r->locked)
        lock_drop(&s->mutex);
    r->done = r->locked || get(&s->sequence) == r->sequence;
    if (!r->done) {
        r->tries++;
        read_again(s, r);
    }
}

/* for (READING(s)) runs its body until that has seen one undisturbed state. The body has no break and no return. */
#define READING(s)                                                                                                     \
    struct reading reading_ = read_begin(s);                                                                           \
    !reading_.done;                                                                                                    \
    read_end((s), &reading_)

#endif
