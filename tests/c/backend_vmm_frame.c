/* Frames and new memory of the remapping backend, on the emulated device. */
#include "vmm_device.h"

TEST(frames_are_made_once) {
    uint32_t a[4], b[4];
    open_device(BYTES);
    CHECK(frames_take(&v.pool[VMM_DEVICE].frames, a, 4, false));
    CHECK_EQ(used_on_device(), 4 * PAGE_LEAST);
    for (int i = 1; i < 4; i++)
        CHECK_EQ(a[i], a[0] + (uint32_t)i);
    ulms_frames_give(&v.pool[VMM_DEVICE].frames, a, 4);
    uint64_t made = emu_calls("cuMemCreate");
    CHECK(frames_take(&v.pool[VMM_DEVICE].frames, b, 4, false));
    CHECK_EQ(emu_calls("cuMemCreate"), made);
    ulms_frames_give(&v.pool[VMM_DEVICE].frames, b, 4);
    frames_trim(&v.pool[VMM_DEVICE].frames, PAGE_LEAST);
    CHECK_EQ(used_on_device(), PAGE_LEAST);
    CHECK_EQ(frames_bytes(&v.pool[VMM_DEVICE].frames), PAGE_LEAST);
    CHECK(frames_take(&v.pool[VMM_DEVICE].frames, a, 4, false));
    CHECK_EQ(used_on_device(), 4 * PAGE_LEAST);
}

TEST(there_are_so_many_frames_and_no_more) {
    uint32_t frames[PAGES + 1];
    open_device(BYTES);
    CHECK(!frames_take(&v.pool[VMM_HOST].frames, frames, PAGES + 1, false));
    CHECK_EQ(idle(VMM_HOST), PAGES); /* those that were made meanwhile */
    CHECK(frames_take(&v.pool[VMM_HOST].frames, frames, PAGES, false));
    CHECK(!frames_take(&v.pool[VMM_HOST].frames, frames, 1, false));
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
    struct ulms_frames *p = &v.pool[VMM_HOST].frames;
    open_device(BYTES);
    frames_keep(p, 3, BYTES, ask, NULL);
    while (frames_stock(p))
        ;
    CHECK_EQ(p->free, 3);
    uint64_t made = emu_calls("cuMemCreate");
    CHECK(frames_take(p, frames, 3, false));
    CHECK_EQ(emu_calls("cuMemCreate"), made);
    CHECK_EQ(asked, 1);
    while (frames_stock(p))
        ;
    CHECK(frames_take(p, frames + 3, PAGES - 3, false));
    CHECK(!frames_stock(p)); /* there are no more */
    CHECK_EQ(asked, 2);
    ulms_frames_give(p, frames, PAGES);
    CHECK(frames_take(p, frames, PAGES, false));
    CHECK_EQ(asked, 2);
}

TEST(pools_share_a_limit) {
    static struct vmm second;
    uint32_t here[PAGES], there[PAGES];
    setenv("EMU_DEVICES", "2", 1);
    open_device(BYTES);
    CHECK(vmm_open(&second, 1, host, &host_limit));
    uint64_t used, most;
    CHECK(frames_take(&v.pool[VMM_HOST].frames, here, PAGES, false));
    CHECK(!frames_take(&second.pool[VMM_HOST].frames, there, 1, false));
    ulms_frames_give(&v.pool[VMM_HOST].frames, here, PAGES - 2);
    CHECK(frames_take(&second.pool[VMM_HOST].frames, there, PAGES - 2, false)); /* what lies idle there is given back */
    CHECK(!frames_take(&second.pool[VMM_HOST].frames, there, 1, false));
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
            frames_trim(&v.pool[VMM_DEVICE].frames, 0);
            frames_trim(&v.pool[VMM_HOST].frames, 0);
            CHECK_EQ(used_on_device(), 0);
        }
    CHECK(range_new(6 * PAGE_LEAST, true, 0));
}
