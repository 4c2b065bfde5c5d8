/* Whether streamed pages are used where they lie: laps of each way are timed. A lap is a period of the sequence without
 * a surprise, by the ends of its operations on the device. */
#include "engine/engine.h"

enum { FILLS, LEAVES, DECIDED };
enum {
    SETTLE_LAPS = 2, /* of each way, before those that count */
    TIMED_LAPS = 2,  /* of these the shortest: others are longer for reasons of their own */
    PART = 8,        /* of a period: less is the same */
    GAIN = 16,       /* one in so many ns at least, or pages are filled */
    PATIENCE = 2,    /* periods without a lap like it */
    AGAIN = 64,      /* laps, until both ways are tried once more */
    RARER = 4        /* so many times as many until the next time */
};

static void lap_void(struct trial *t) {
    t->first = t->last = t->begun = 0;
}

void trial_issued(struct ulms_engine *e, uint64_t now, bool surprise) {
    struct trial *t = &e->trial;
    uint64_t p = e->track.position;
    if (!e->in_place)
        return;
    if (surprise || !e->track.on)
        lap_void(t);
    else if (!t->first) {
        t->first = now;
        t->length = now - p;
        t->late = e->stats.late_operations;
    } else if (!t->last && p >= t->first)
        t->last = now;
}

static bool is_other(uint64_t length, uint64_t period) {
    return (length > period ? length - period : period - length) > period / PART;
}

static void try_both(struct trial *t) {
    t->step = FILLS;
    t->laps = 0;
    t->leave_streamed = false;
}

static void decide(struct trial *t) {
    uint64_t less = t->shortest < t->filled ? t->shortest : t->filled;
    t->leave_streamed = t->shortest < t->filled - t->filled / GAIN;
    t->close = t->shortest + t->filled - less <= less + less / 2;
    t->step = DECIDED;
}

/* Other programs of the machine may have made one way longer just then. Where one takes much longer that is not why,
 * and trying it would show. */
static void doubt(struct trial *t) {
    if (!t->close || ++t->laps < t->again)
        return;
    try_both(t);
    t->again *= RARER;
}

/* A step that is a little longer, and the layers that repeat within a step, make no other program.
 * Nothing is tried while no operation waits: then moves cost nothing. */
static void judge(struct trial *t, uint64_t elapsed, bool late) {
    bool other = is_other(t->length, t->period);
    if (other && t->last - t->seen <= PATIENCE * t->period)
        return;
    t->seen = t->last;
    if (other) {
        try_both(t);
        t->period = t->length;
        t->again = AGAIN;
    }
    if (t->step == DECIDED) {
        doubt(t);
        return;
    }
    if ((t->step == FILLS && !late) || t->laps++ < SETTLE_LAPS)
        return;
    bool first = t->laps == SETTLE_LAPS + 1;
    t->shortest = first || elapsed < t->shortest ? elapsed : t->shortest;
    if (t->laps < SETTLE_LAPS + TIMED_LAPS)
        return;
    t->laps = 0;
    if (t->step == LEAVES) {
        decide(t);
        return;
    }
    t->filled = t->shortest;
    t->leave_streamed = true;
    t->step = LEAVES;
}

void trial_retired(struct ulms_engine *e, uint64_t serial, uint64_t now) {
    struct trial *t = &e->trial;
    bool was = t->leave_streamed;
    if (!t->first || serial < t->first || now == 0)
        return;
    if (!t->begun)
        t->begun = now;
    if (!t->last || serial < t->last)
        return;
    judge(t, now - t->begun, e->stats.late_operations > t->late);
    lap_void(t);
    if (t->leave_streamed != was)
        sequence_renew(e);
}
