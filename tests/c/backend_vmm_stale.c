/* Pages of the remapping backend that leave without a call, and who has their frames then, on the emulated device. */
#include "vmm_moves.h"

/* Mapped as before, at frames that are others' by then. */
TEST(what_nobody_wants_leaves_without_a_call) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0), *other;
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    uint32_t frames[PAGES];
    CHECK(frames_take(&v.pool[VMM_HOST].frames, frames, PAGES, false)); /* making them maps, too */
    ulms_frames_give(&v.pool[VMM_HOST].frames, frames, PAGES);
    uint64_t before, calls = mapping_calls();
    out.copy = false;
    out.stale = true;
    CHECK(move(&out));
    CHECK_EQ(mapping_calls(), calls);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, VMM_STALE);
    CHECK_EQ(idle(VMM_DEVICE), PAGES);
    other = range_new(BYTES, true, 0);
    for (size_t i = 0; i < PAGES; i++)
        write_page(other, i, 5);
    CHECK_EQ(first_word(r, 0), 5);
    vmm_range_map_stale(&v, r, 2, 3);
    for (size_t i = 2; i < 5; i++)
        write_page(r, i, 10 + (unsigned)i);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, i >= 2 && i < 5 ? VMM_HOST : VMM_STALE);
    range_delete(other);
    before = copied();
    CHECK(move(&in));
    CHECK_EQ(copied() - before, 3 * PAGE_LEAST);
    for (size_t i = 2; i < 5; i++)
        CHECK_EQ(first_word(r, i), 10 + i);
    CHECK(move(&out));
    CHECK(move(&out)); /* again: nothing more to give */
    CHECK_EQ(idle(VMM_DEVICE), PAGES);
    range_delete(r);
    CHECK_EQ(idle(VMM_HOST), PAGES);
    CHECK_EQ(idle(VMM_DEVICE), PAGES);
}

/* Its content comes again, or is mapped on the host for whoever may use it after all. */
TEST(what_nobody_uses_while_it_is_away_leaves_without_a_call) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0), *other;
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    out.stale = true;
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < PAGES; i++)
            write_page(r, i, 20 + (unsigned)i + round);
        uint64_t calls = mapping_calls();
        CHECK(move(&out));
        CHECK(round == 0 || mapping_calls() == calls); /* frames are made in the first */
        CHECK_EQ(idle(VMM_DEVICE), PAGES);
        other = range_new(BYTES, true, 0);
        for (size_t i = 0; i < PAGES; i++)
            write_page(other, i, 1);
        range_delete(other);
        vmm_range_map_stale(&v, r, 1, 2);
        CHECK_EQ(first_word(r, 2), 22 + round);
        write_page(r, 2, 99);
        CHECK(move(&in));
        for (size_t i = 0; i < PAGES; i++)
            CHECK_EQ(first_word(r, i), i == 2 ? 99 : 20 + i + round);
        CHECK_EQ(idle(VMM_HOST), PAGES);
    }
    in.keep = out.clean = true;
    CHECK(move(&out) && move(&in));
    uint64_t before = copied();
    CHECK(move(&out)); /* what came is still there */
    CHECK_EQ(copied(), before);
    CHECK(move(&in));
    CHECK_EQ(first_word(r, 3), 24);
}

TEST(a_page_gets_its_frame_back) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    out.stale = true;
    CHECK(move(&out) && move(&in)); /* the host's frames are made */
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 50 + (unsigned)i);
    uint64_t calls = mapping_calls();
    CHECK(move(&out));
    CHECK_EQ(idle(VMM_DEVICE), PAGES);
    CHECK(move(&in));
    CHECK_EQ(mapping_calls(), calls);
    CHECK_EQ(idle(VMM_DEVICE), 0);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, VMM_DEVICE);
        CHECK_EQ(first_word(r, i), 50 + i);
    }
}

TEST(what_is_mapped_on_the_host_has_no_claim) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = whole(r, VMM_HOST);
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 80 + (unsigned)i);
    out.stale = true;
    CHECK(move(&out));
    out.stale = false;
    CHECK(move(&out));
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, VMM_HOST);
        CHECK_EQ(first_word(r, i), 80 + i);
        for (int c = 0; c < FRAMES_CLAIMS; c++)
            CHECK_EQ(v.pool[VMM_DEVICE].frames.frame[i].claims[c], 0);
    }
}

TEST(a_page_whose_frame_is_anothers_is_mapped_anew) {
    enum { OTHERS = 3 };
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0), *other;
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    out.stale = true;
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 50 + (unsigned)i);
    CHECK(move(&out));
    other = range_new(OTHERS * PAGE_LEAST, true, 0);
    for (size_t i = 0; i < OTHERS; i++)
        write_page(other, i, 90 + (unsigned)i);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(ulms_frames_holder(&v.pool[VMM_DEVICE].frames, &r->page[i].claim),
                 i < PAGES - OTHERS ? 0 : other->start + (PAGES - 1 - i) * PAGE_LEAST);
    uint64_t maps = emu_calls("cuMemMap"), made = emu_calls("cuMemCreate");
    CHECK(move(&in));
    made = emu_calls("cuMemCreate") - made; /* each is mapped at its alias, too */
    CHECK_EQ(emu_calls("cuMemMap") - maps - made, OTHERS);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), 50 + i);
    for (size_t i = 0; i < OTHERS; i++)
        CHECK_EQ(first_word(other, i), 90 + i);
    range_delete(other);
    range_delete(r);
    CHECK_EQ(idle(VMM_DEVICE), v.pool[VMM_DEVICE].frames.made);
}

TEST(what_is_stale_comes_back_once_it_can_be_unmapped) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = whole(r, VMM_HOST);
    out.stale = true;
    write_page(r, 1, 5);
    CHECK(move(&out));
    CHECK(emu_fail("cuMemUnmap:sticky") == 0);
    vmm_range_map_stale(&v, r, 0, 2); /* with an error */
    CHECK_EQ(r->page[1].at, VMM_STALE);
    emu_fail(NULL);
    vmm_range_map_stale(&v, r, 0, 2);
    CHECK_EQ(r->page[1].at, VMM_HOST);
    CHECK_EQ(first_word(r, 1), 5);
}

/* For the engine they are still there, and what they hold is nobody's else. */
TEST(none_becomes_stale_if_not_all_can) {
    open_device(BYTES / 2);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move half[2] = {part(r, 0), part(r, 1)};
    half[0].stale = half[1].stale = true;
    CHECK_EQ(vmm_move(&v, half, 2, NULL, NULL, NULL), VMM_STAYED); /* there are frames of the host for one of them */
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, VMM_DEVICE);
    CHECK_EQ(idle(VMM_DEVICE), 0);
    CHECK_EQ(idle(VMM_HOST), PAGES / 2);
}
