/* Whether streamed pages are used where they lie: a lap of each way is timed. A lap is a period of the sequence without
 * a surprise, by the ends of its operations on the device. */
#include "engine/engine.h"

enum { SETTLES, FILLS, RESTS_SETTLE, RESTS, DECIDED };

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

/* Nothing is tried while no operation waits: then moves cost nothing. */
static void judge(struct trial *t, uint64_t elapsed, bool late) {
    if (t->length != t->period) {
        t->step = SETTLES;
        t->resting = false;
        t->period = t->length;
    }
    switch (t->step) {
    case SETTLES:
        t->step = late ? FILLS : SETTLES;
        break;
    case FILLS:
        t->filled = elapsed;
        t->resting = true;
        t->step = RESTS_SETTLE;
        break;
    case RESTS_SETTLE:
        t->step = RESTS;
        break;
    case RESTS:
        t->resting = elapsed < t->filled;
        t->step = DECIDED;
        break;
    default:
        break;
    }
}

void trial_retired(struct ulms_engine *e, uint64_t serial, uint64_t now) {
    struct trial *t = &e->trial;
    bool was = t->resting;
    if (!t->first || serial < t->first || now == 0)
        return;
    if (!t->begun)
        t->begun = now;
    if (!t->last || serial < t->last)
        return;
    judge(t, now - t->begun, e->stats.late_operations > t->late);
    lap_void(t);
    if (t->resting != was)
        sequence_renew(e);
}
