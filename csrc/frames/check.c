/* The checker of a pool. */
#include "base/bits.h"
#include "base/invariant.h"
#include "frames/frames.h"

static void check_claims(const struct ulms_frames *f, uint32_t frame) {
    const struct frame *x = &f->frame[frame];
    bool bare = bits_has(f->bare, frame);
    INVARIANT(x->made_at <= f->arrivals, "frame %u", frame);
    for (int i = 0; i < FRAMES_CLAIMS; i++) {
        INVARIANT(!x->claims[i] || (!bare && x->claims[i] > x->made_at && x->claims[i] <= f->arrivals), "frame %u",
                  frame);
        for (int k = 0; k < i; k++)
            INVARIANT(!x->claims[i] || x->claims[i] != x->claims[k], "frame %u: one claim twice", frame);
    }
}

void frames_check(struct ulms_frames *f) {
    uint32_t idle = 0, bare = 0;
    lock_take(&f->lock);
    for (uint32_t i = 0; i < f->capacity; i++) {
        idle += bits_has(f->idle, i);
        bare += bits_has(f->bare, i);
        INVARIANT(!bits_has(f->idle, i) || !(bits_has(f->bare, i) || f->frame[i].once), "frame %u is idle", i);
        check_claims(f, i);
    }
    INVARIANT(idle == f->free, "%u idle, counted %u", idle, f->free);
    INVARIANT(f->made == f->capacity - bare, "%u made, counted %u", f->capacity - bare, f->made);
    INVARIANT(f->made <= f->limit->made && f->limit->made <= f->limit->most, "%u made of %u", f->made, f->limit->most);
    lock_drop(&f->lock);
}
