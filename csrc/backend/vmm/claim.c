/* Claims: a page that left remembers the frame that it had, where it is mapped still, and gets it back if it can. */
#include "backend/vmm/vmm.h"
#include "base/bits.h"

void vmm_frame_hold(struct vmm_pool *p, uint32_t frame, addr_t page, struct vmm_claim *c) {
    lock_take(&p->lock);
    p->holders[frame] = page;
    *c = (struct vmm_claim){VMM_NO_FRAME, ++p->arrivals};
    lock_drop(&p->lock);
}

/* Under the lock. NULL: there is none, or it is not remembered. */
static uint64_t *find(struct vmm_pool *p, uint32_t frame, uint64_t came) {
    for (int i = 0; frame != VMM_NO_FRAME && i < VMM_CLAIMS; i++)
        if (p->claims[frame][i] == came)
            return &p->claims[frame][i];
    return NULL;
}

void vmm_frame_give_stale(struct vmm_pool *p, uint32_t frame, struct vmm_claim *c) {
    lock_take(&p->lock);
    uint64_t *none = find(p, frame, 0);
    if (none)
        *none = c->came;
    c->frame = frame;
    bits_set(p->idle, frame, true);
    p->free++;
    lock_drop(&p->lock);
}

bool vmm_frame_reclaim(struct vmm_pool *p, struct vmm_claim *c, bool take) {
    lock_take(&p->lock);
    uint64_t *own = find(p, c->frame, c->came);
    bool taken = take && own && bits_has(p->idle, c->frame);
    if (own)
        *own = 0;
    if (taken) {
        bits_set(p->idle, c->frame, false);
        p->free--;
    } else
        c->frame = VMM_NO_FRAME;
    lock_drop(&p->lock);
    return taken;
}

addr_t vmm_frame_holder(struct vmm_pool *p, const struct vmm_claim *c) {
    lock_take(&p->lock);
    addr_t page = find(p, c->frame, c->came) && !bits_has(p->idle, c->frame) ? p->holders[c->frame] : 0;
    lock_drop(&p->lock);
    return page;
}

bool vmm_claim_is_void(struct vmm_pool *p, const struct vmm_claim *c) {
    lock_take(&p->lock);
    bool is_void = c->frame == VMM_NO_FRAME || c->came <= p->made_at[c->frame];
    lock_drop(&p->lock);
    return is_void;
}
