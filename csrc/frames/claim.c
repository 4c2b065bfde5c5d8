/* Claims: a page that left remembers the frame that it had, where it is mapped still, and gets it back if it can. */
#include <stdlib.h>

#include "base/bits.h"
#include "frames/frames.h"

void ulms_frames_hold(struct ulms_frames *f, uint32_t frame, addr_t page, struct ulms_claim *c) {
    lock_take(&f->lock);
    f->frame[frame].holder = page;
    *c = (struct ulms_claim){++f->arrivals, NO_FRAME};
    lock_drop(&f->lock);
}

/* Under the lock. NULL: there is none. */
static uint64_t *claim_find(struct ulms_frames *f, uint32_t frame, uint64_t came) {
    for (int i = 0; i < FRAMES_CLAIMS; i++)
        if (f->frame[frame].claims[i] == came)
            return &f->frame[frame].claims[i];
    return NULL;
}

/* Likewise; nor where it is not remembered. */
static uint64_t *remembered(struct ulms_frames *f, const struct ulms_claim *c) {
    return c->came == 0 || c->frame == NO_FRAME ? NULL : claim_find(f, c->frame, c->came);
}

void ulms_frames_give_stale(struct ulms_frames *f, uint32_t frame, struct ulms_claim *c) {
    lock_take(&f->lock);
    uint64_t *none = claim_find(f, frame, 0);
    if (none)
        *none = c->came;
    c->frame = frame;
    bits_set(f->idle, frame, true);
    f->free++;
    lock_drop(&f->lock);
}

bool frames_reclaim(struct ulms_frames *f, struct ulms_claim *c, bool take) {
    lock_take(&f->lock);
    uint64_t *own = remembered(f, c);
    bool taken = take && own && bits_has(f->idle, c->frame);
    if (own)
        *own = 0;
    if (taken) {
        bits_set(f->idle, c->frame, false);
        f->free--;
    } else
        c->frame = NO_FRAME;
    lock_drop(&f->lock);
    return taken;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int ulms_frames_come(struct ulms_frames *f, struct ulms_claim *const *claims, uint32_t *out, size_t n, int together) {
    uint32_t taken[ULMS_FRAMES_COME];
    size_t others = 0, next = 0;
    for (size_t i = 0; i < n; i++) {
        out[i] = claims[i] && frames_reclaim(f, claims[i], true) ? claims[i]->frame : NO_FRAME;
        others += out[i] == NO_FRAME;
    }
    if (others == 0)
        return 1;
    if (!frames_take(f, taken, others, together))
        return 0;
    qsort(taken, others, sizeof *taken, by_number);
    for (size_t i = 0; i < n; i++)
        if (out[i] == NO_FRAME)
            out[i] = taken[next++];
    return 1;
}

addr_t ulms_frames_holder(struct ulms_frames *f, const struct ulms_claim *c) {
    lock_take(&f->lock);
    addr_t page = remembered(f, c) && !bits_has(f->idle, c->frame) ? f->frame[c->frame].holder : 0;
    lock_drop(&f->lock);
    return page;
}

bool frames_claim_is_void(struct ulms_frames *f, const struct ulms_claim *c) {
    lock_take(&f->lock);
    bool is_void = c->frame == NO_FRAME || c->came <= f->frame[c->frame].made_at;
    lock_drop(&f->lock);
    return is_void;
}
