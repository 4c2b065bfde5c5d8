/* Frames and new memory of the remapping backend, on the emulated device. */
#include "vmm_device.h"

TEST(frames_are_made_once) {
    uint32_t a[4], b[4];
    open_device(BYTES);
    CHECK(vmm_frames_take(&v.pool[VMM_DEVICE], a, 4, false));
    CHECK_EQ(used_on_device(), 4 * PAGE_LEAST);
    for (int i = 1; i < 4; i++)
        CHECK_EQ(a[i], a[0] + (uint32_t)i);
    vmm_frames_give(&v.pool[VMM_DEVICE], a, 4);
    uint64_t made = emu_calls("cuMemCreate");
    CHECK(vmm_frames_take(&v.pool[VMM_DEVICE], b, 4, false));
    CHECK_EQ(emu_calls("cuMemCreate"), made);
    vmm_frames_give(&v.pool[VMM_DEVICE], b, 4);
    vmm_pool_trim(&v.pool[VMM_DEVICE], PAGE_LEAST);
    CHECK_EQ(used_on_device(), PAGE_LEAST);
    CHECK_EQ(vmm_pool_bytes(&v.pool[VMM_DEVICE]), PAGE_LEAST);
    CHECK(vmm_frames_take(&v.pool[VMM_DEVICE], a, 4, false));
    CHECK_EQ(used_on_device(), 4 * PAGE_LEAST);
}

TEST(there_are_so_many_frames_and_no_more) {
    uint32_t frames[PAGES + 1];
    open_device(BYTES);
    CHECK(!vmm_frames_take(&v.pool[VMM_HOST], frames, PAGES + 1, false));
    CHECK_EQ(idle(VMM_HOST), PAGES); /* those that were made meanwhile */
    CHECK(vmm_frames_take(&v.pool[VMM_HOST], frames, PAGES, false));
    CHECK(!vmm_frames_take(&v.pool[VMM_HOST], frames, 1, false));
}

TEST(memory_lies_on_the_device_while_there_is_room) {
    setenv("EMU_MEMORY", "10MiB", 1);
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    CHECK(r && r->bytes == BYTES);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, i < 5 ? VMM_DEVICE : VMM_HOST);
        write_page(r, i, (unsigned)i + 1);
    }
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), i + 1);
    CHECK(vmm_range_find(&v, r->start + BYTES - 1) == r);
    CHECK(!vmm_range_find(&v, r->start + BYTES));
    CHECK(!range_new(BYTES, true, 0)); /* three pages are left on the host */
    range_delete(r);
    CHECK_EQ(idle(VMM_DEVICE), 5);
    CHECK_EQ(idle(VMM_HOST), PAGES);
    CHECK(range_new(BYTES, true, 0));
}

static int asked;

static void ask(void *data) {
    (void)data;
    asked++;
}

TEST(a_stock_is_made_ahead) {
    uint32_t frames[PAGES];
    struct vmm_pool *p = &v.pool[VMM_HOST];
    open_device(BYTES);
    vmm_pool_keep(p, 3, BYTES, ask, NULL);
    while (vmm_pool_stock(p))
        ;
    CHECK_EQ(p->free, 3);
    uint64_t made = emu_calls("cuMemCreate");
    CHECK(vmm_frames_take(p, frames, 3, false));
    CHECK_EQ(emu_calls("cuMemCreate"), made);
    CHECK_EQ(asked, 1);
    while (vmm_pool_stock(p))
        ;
    CHECK(vmm_frames_take(p, frames + 3, PAGES - 3, false));
    CHECK(!vmm_pool_stock(p)); /* there are no more */
    CHECK_EQ(asked, 2);
    vmm_frames_give(p, frames, PAGES);
    CHECK(vmm_frames_take(p, frames, PAGES, false));
    CHECK_EQ(asked, 2);
}

TEST(pools_share_a_limit) {
    static struct vmm second;
    uint32_t here[PAGES], there[PAGES];
    setenv("EMU_DEVICES", "2", 1);
    open_device(BYTES);
    CHECK(vmm_open(&second, 1, host, &host_limit));
    uint64_t used, most;
    CHECK(vmm_frames_take(&v.pool[VMM_HOST], here, PAGES, false));
    CHECK(!vmm_frames_take(&second.pool[VMM_HOST], there, 1, false));
    vmm_frames_give(&v.pool[VMM_HOST], here, PAGES - 2);
    CHECK(vmm_frames_take(&second.pool[VMM_HOST], there, PAGES - 2, false)); /* what lies idle there is given back */
    CHECK(!vmm_frames_take(&second.pool[VMM_HOST], there, 1, false));
    emu_host_memory(&used, &most);
    CHECK_EQ(used, BYTES);
    CHECK_EQ(most, BYTES);
}

TEST(new_memory_leaves_room_for_what_leaves) {
    open_device(BYTES);
    CHECK(!range_new(BYTES, false, 1));
    CHECK(range_new(BYTES - PAGE_LEAST, false, 1));
    CHECK(range_new(BYTES, true, 1)); /* it needs no frame of the host */
    CHECK(!range_new(PAGE_LEAST, false, 1));
    CHECK_EQ(idle(VMM_HOST), 1);
}

/* A page comes to a new frame, and leaves it. Its claim. */
static struct vmm_claim come_and_go(uint32_t *frame) {
    struct vmm_claim c = {.frame = VMM_NO_FRAME};
    CHECK(vmm_frames_take(&v.pool[VMM_DEVICE], frame, 1, false));
    vmm_frame_hold(&v.pool[VMM_DEVICE], *frame, PAGE_LEAST, &c);
    vmm_frame_give_stale(&v.pool[VMM_DEVICE], *frame, &c);
    return c;
}

/* What is nobody's goes first, then what is wanted again last. */
TEST(frames_are_taken_in_the_order_of_their_claims) {
    uint32_t a[4], b[4];
    struct vmm_claim c[4];
    struct vmm_pool *p = &v.pool[VMM_DEVICE];
    open_device(BYTES);
    CHECK(vmm_frames_take(p, a, 4, false));
    for (int i = 0; i < 4; i++)
        vmm_frame_hold(p, a[i], (addr_t)i * PAGE_LEAST, &c[i]);
    vmm_frame_give_stale(p, a[0], &c[0]);
    vmm_frames_give(p, &a[1], 1);
    vmm_frame_give_stale(p, a[3], &c[3]);
    vmm_frame_give_stale(p, a[2], &c[2]);
    CHECK(vmm_frames_take(p, b, 4, false));
    CHECK_EQ(b[0], a[1]);
    CHECK_EQ(b[1], a[3]);
    CHECK_EQ(b[2], a[2]);
    CHECK_EQ(b[3], a[0]);
}

/* Whatever their claims; no larger gap is broken for a smaller one. */
TEST(neighbours_go_together) {
    uint32_t a[8], b[3];
    struct vmm_claim c;
    struct vmm_pool *p = &v.pool[VMM_DEVICE];
    open_device(BYTES);
    CHECK(vmm_frames_take(p, a, 8, true));
    for (int i = 1; i < 8; i++)
        CHECK_EQ(a[i], a[0] + i);
    vmm_frame_hold(p, a[1], PAGE_LEAST, &c);
    vmm_frame_give_stale(p, a[1], &c);
    vmm_frames_give(p, &a[2], 2); /* 1 to 3 */
    vmm_frames_give(p, &a[5], 1);
    vmm_frames_give(p, &a[7], 1);
    CHECK(vmm_frames_take(p, b, 1, true));
    CHECK_EQ(b[0], a[5]);
    CHECK(vmm_frames_take(p, b, 2, true));
    CHECK_EQ(b[0], a[1]);
    CHECK_EQ(b[1], a[2]);
    CHECK(vmm_frames_take(p, b, 2, true)); /* there are none */
    CHECK_EQ(b[0] + b[1], a[3] + a[7]);
    CHECK_EQ(p->free, 0);
}

TEST(a_claim_holds_while_the_frame_is_idle) {
    uint32_t a, b;
    struct vmm_pool *p = &v.pool[VMM_DEVICE];
    open_device(BYTES);
    struct vmm_claim c = come_and_go(&a), other = {.frame = VMM_NO_FRAME};
    CHECK_EQ(c.frame, a);
    CHECK_EQ(vmm_frame_holder(p, &c), 0);
    CHECK(vmm_frame_reclaim(p, &c, true));
    CHECK_EQ(c.frame, a);
    CHECK_EQ(p->free, 0);
    CHECK(!vmm_frame_reclaim(p, &c, true)); /* it has none any more */
    vmm_frame_hold(p, a, PAGE_LEAST, &c);
    vmm_frame_give_stale(p, a, &c);
    CHECK(vmm_frames_take(p, &b, 1, false) && b == a);
    vmm_frame_hold(p, b, 7 * PAGE_LEAST, &other);
    CHECK_EQ(vmm_frame_holder(p, &c), 7 * PAGE_LEAST);
    CHECK_EQ(vmm_frame_holder(p, &other), 0); /* who has a frame has no claim */
    CHECK(!vmm_frame_reclaim(p, &c, true));
    CHECK_EQ(c.frame, VMM_NO_FRAME);
    vmm_frame_give_stale(p, b, &other);
    CHECK(!vmm_frame_reclaim(p, &other, false));
    CHECK_EQ(p->free, 1);
    CHECK(!vmm_frame_reclaim(p, &other, true));
}

TEST(so_many_claims_are_remembered) {
    uint32_t a, b;
    struct vmm_claim c[VMM_CLAIMS + 1];
    struct vmm_pool *p = &v.pool[VMM_DEVICE];
    open_device(BYTES);
    for (int i = 0; i <= VMM_CLAIMS; i++)
        c[i] = come_and_go(&a);
    CHECK_EQ(p->made, 1);
    CHECK(!vmm_frame_reclaim(p, &c[VMM_CLAIMS], true));
    CHECK(vmm_frame_reclaim(p, &c[0], true));
    vmm_frames_give(p, &a, 1);
    vmm_pool_trim(p, 0);
    CHECK(vmm_frames_take(p, &b, 1, false) && a == b); /* other memory by the same number */
    vmm_frames_give(p, &b, 1);
    CHECK(!vmm_frame_reclaim(p, &c[1], true));
}

TEST(what_was_given_back_is_void_for_who_was_stale_there) {
    uint32_t a[3];
    struct vmm_claim c[3], more[VMM_CLAIMS];
    struct vmm_pool *p = &v.pool[VMM_DEVICE];
    open_device(BYTES);
    CHECK(vmm_frames_take(p, a, 3, true));
    for (int i = 0; i < 3; i++)
        vmm_frame_hold(p, a[i], (addr_t)i * PAGE_LEAST, &c[i]);
    vmm_frame_give_stale(p, a[0], &c[0]);
    vmm_frame_give_stale(p, a[2], &c[2]);
    for (int i = 0; i < VMM_CLAIMS; i++) { /* one more than are remembered */
        CHECK(vmm_frames_take(p, &a[2], 1, false));
        vmm_frame_hold(p, a[2], PAGE_LEAST, &more[i]);
        vmm_frame_give_stale(p, a[2], &more[i]);
    }
    CHECK(!vmm_pool_gave_back(p));
    vmm_pool_trim(p, 2 * PAGE_LEAST); /* one of two that are idle */
    CHECK(vmm_pool_gave_back(p));
    CHECK(!vmm_pool_gave_back(p));
    uint32_t gone = c[2].frame;
    CHECK(gone != c[0].frame);
    CHECK(vmm_claim_is_void(p, &c[2]));
    CHECK(!vmm_claim_is_void(p, &c[0]));
    for (int i = 0; i < VMM_CLAIMS; i++)
        CHECK_EQ(vmm_claim_is_void(p, &more[i]), more[i].frame == gone);
    CHECK(vmm_frames_take(p, a, 2, false)); /* the idle one, and other memory by the same number */
    struct vmm_claim again;
    vmm_frame_hold(p, gone, PAGE_LEAST, &again);
    vmm_frame_give_stale(p, gone, &again);
    CHECK(!vmm_claim_is_void(p, &again));
    CHECK(vmm_claim_is_void(p, &c[2]));
    CHECK(!vmm_claim_is_void(p, &c[0]));
}

TEST(making_memory_fails_at_every_step) {
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemAddressReserve"};
    char text[64];
    setenv("EMU_MEMORY", "12MiB", 1);
    open_device(BYTES);
    for (size_t i = 0; i < 4; i++)
        for (int after = 0; after < 20; after++) {
            snprintf(text, sizeof text, "%s:after=%d:sticky", calls[i], after);
            CHECK(emu_fail(text) == 0);
            struct vmm_range *r = range_new(6 * PAGE_LEAST, true, 0);
            emu_fail(NULL);
            if (r)
                range_delete(r);
            vmm_pool_trim(&v.pool[VMM_DEVICE], 0);
            vmm_pool_trim(&v.pool[VMM_HOST], 0);
            CHECK_EQ(used_on_device(), 0);
        }
    CHECK(range_new(6 * PAGE_LEAST, true, 0));
}
