/* Moves of the remapping backend while the driver fails, on the emulated device. */
#include "vmm_moves.h"

/* Whatever call fails, and whenever: nothing is lost, and nothing is left behind. */
static void fail_in_moves(const char *what, bool stale, bool parks) {
    char text[64];
    setenv("EMU_MEMORY", "64MiB", 1);
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 40 + (unsigned)i);
    for (int after = 0; after < 12; after++) {
        snprintf(text, sizeof text, "%s:after=%d", what, after);
        CHECK(emu_fail(text) == 0);
        for (int way = 0; way < 4; way++) {
            struct vmm_move m = whole(r, way % 2 ? VMM_DEVICE : VMM_HOST);
            m.keep = m.clean = after % 2;
            m.stale = stale && m.to == VMM_HOST;
            m.parks = parks && m.to == VMM_HOST;
            move(&m);
        }
        emu_fail(NULL);
        vmm_range_map_stale(&v, r, 0, PAGES);
        for (size_t i = 0; i < PAGES; i++)
            CHECK_EQ(first_word(r, i), 40 + i);
        struct vmm_move back = whole(r, VMM_DEVICE);
        CHECK(move(&back));
    }
    range_delete(r);
    CHECK_EQ(idle(VMM_DEVICE), v.pool[VMM_DEVICE].frames.made);
    CHECK_EQ(idle(VMM_HOST), v.pool[VMM_HOST].frames.made);
    CHECK(range_new(BYTES, true, 0));
}

TEST(creating_fails_in_a_move) {
    fail_in_moves("cuMemCreate", false, false);
}

TEST(mapping_fails_in_a_move) {
    fail_in_moves("cuMemMap", false, false);
}

TEST(unmapping_fails_in_a_move) {
    fail_in_moves("cuMemUnmap", false, false);
}

TEST(access_fails_in_a_move) {
    fail_in_moves("cuMemSetAccess", false, false);
}

TEST(copying_fails_in_a_move) {
    fail_in_moves("cuMemcpyAsync", false, false);
}

TEST(creating_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemCreate", true, false);
}

TEST(mapping_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemMap", true, false);
}

TEST(unmapping_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemUnmap", true, false);
}

TEST(access_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemSetAccess", true, false);
}

TEST(copying_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemcpyAsync", true, false);
}

TEST(creating_fails_while_what_leaves_is_parked) {
    fail_in_moves("cuMemCreate", false, true);
}

TEST(mapping_fails_while_what_leaves_is_parked) {
    fail_in_moves("cuMemMap", false, true);
}

TEST(unmapping_fails_while_what_leaves_is_parked) {
    fail_in_moves("cuMemUnmap", false, true);
}

TEST(access_fails_while_what_leaves_is_parked) {
    fail_in_moves("cuMemSetAccess", false, true);
}

TEST(copying_fails_while_what_leaves_is_parked) {
    fail_in_moves("cuMemcpyAsync", false, true);
}

/* For the engine they are still there: what operations write is not nobody's. */
TEST(what_could_not_leave_as_a_whole_is_not_lost) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move half[2] = {part(r, 0), part(r, 1)};
    half[0].copy = half[1].copy = false;
    CHECK(emu_fail("cuMemUnmap:after=1") == 0);
    CHECK_EQ(vmm_move(&v, half, 2, NULL, NULL, NULL), VMM_STAYED);
    emu_fail(NULL);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, i < PAGES / 2 ? VMM_HOST : VMM_DEVICE);
        write_page(r, i, 70 + (unsigned)i);
    }
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), 70 + i);
}

TEST(the_driver_does_not_tell_that_copies_are_done) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    write_page(r, 0, 5);
    struct vmm_move out = whole(r, VMM_HOST);
    CHECK(emu_fail("cuStreamSynchronize:sticky") == 0);
    CHECK_EQ(vmm_move(&v, &out, 1, NULL, NULL, NULL), VMM_STUCK);
    emu_fail(NULL);
    CHECK_EQ(first_word(r, 0), 5);
    CHECK_EQ(idle(VMM_HOST), 0); /* the frames are not given to anybody else */
    range_delete(r);
    CHECK(!range_new(BYTES, false, 0));
}
