/* Moves of the remapping backend, on the emulated device. */
#include "vmm_device.h"

static bool move(const struct vmm_move *m) {
    return vmm_move(&v, m, 1, NULL, NULL, NULL) == VMM_MOVED;
}

static struct vmm_move whole(const struct vmm_range *r, enum vmm_place to) {
    return (struct vmm_move){.start = r->start, .bytes = r->bytes, .to = to, .copy = true};
}

/* A half of it, to the host. */
static struct vmm_move part(const struct vmm_range *r, unsigned half) {
    struct vmm_move m = whole(r, VMM_HOST);
    m.bytes /= 2;
    m.start += half * m.bytes;
    return m;
}

TEST(content_moves_with_the_page) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 100 + (unsigned)i);
    for (int round = 0; round < 3; round++) {
        struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
        in.start += PAGE_LEAST;
        in.bytes -= 3 * PAGE_LEAST;
        CHECK(move(&out));
        CHECK_EQ(idle(VMM_DEVICE), PAGES);
        CHECK_EQ(r->page[3].at, VMM_HOST);
        for (size_t i = 0; i < PAGES; i++)
            CHECK_EQ(first_word(r, i), 100 + i + (unsigned)round);
        CHECK(move(&in));
        CHECK_EQ(r->page[0].at, VMM_HOST);
        CHECK_EQ(r->page[1].at, VMM_DEVICE);
        CHECK_EQ(idle(VMM_HOST), PAGES - 3);
        for (size_t i = 0; i < PAGES; i++) {
            CHECK_EQ(first_word(r, i), 100 + i + (unsigned)round);
            write_page(r, i, 101 + (unsigned)i + (unsigned)round);
        }
    }
}

static uint64_t copied(void) {
    struct emu_traffic t;
    emu_traffic(&t);
    return t.copied_in + t.copied_out;
}

TEST(only_what_matters_is_copied) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, false, 0);
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 7);
    struct vmm_move in = whole(r, VMM_DEVICE), out = whole(r, VMM_HOST);
    in.keep = out.clean = true;
    uint64_t before = copied();
    CHECK(move(&in));
    CHECK_EQ(copied() - before, BYTES);
    CHECK(move(&out)); /* what came is still there */
    CHECK_EQ(copied() - before, BYTES);
    CHECK_EQ(first_word(r, 5), 7);
    in.keep = false;
    CHECK(move(&in));
    before = copied();
    CHECK(move(&out)); /* nothing was kept: clean or not, it is copied */
    CHECK_EQ(copied() - before, BYTES);
    in.copy = out.copy = false;
    before = copied();
    CHECK(move(&in) && move(&out));
    CHECK_EQ(copied() - before, 0);
}

TEST(what_may_have_been_written_is_copied) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, false, 0);
    struct vmm_move in = whole(r, VMM_DEVICE), out = whole(r, VMM_HOST);
    in.keep = out.clean = true;
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 7);
    CHECK(move(&in));
    CHECK_EQ(idle(VMM_HOST), 0);
    write_page(r, 5, 8);
    vmm_range_written(&v, r, 0, PAGES);
    CHECK_EQ(idle(VMM_HOST), PAGES);
    CHECK(move(&out));
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), i == 5 ? 8 : 7);
    vmm_range_written(&v, r, 0, PAGES); /* on the host each has one frame only, and keeps it */
    CHECK_EQ(first_word(r, 5), 8);
}

static uint64_t mapping_calls(void) {
    return emu_calls("cuMemMap") + emu_calls("cuMemUnmap") + emu_calls("cuMemSetAccess");
}

/* Mapped as before, at frames that are others' by then. */
TEST(what_nobody_wants_leaves_without_a_call) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0), *other;
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    uint32_t frames[PAGES];
    CHECK(vmm_frames_take(&v.pool[VMM_HOST], frames, PAGES, false)); /* making them maps, too */
    vmm_frames_give(&v.pool[VMM_HOST], frames, PAGES);
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
        for (int c = 0; c < VMM_CLAIMS; c++)
            CHECK_EQ(v.pool[VMM_DEVICE].claims[i][c], 0);
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
        CHECK_EQ(vmm_frame_holder(&v.pool[VMM_DEVICE], &r->page[i].claim),
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
    CHECK_EQ(idle(VMM_DEVICE), v.pool[VMM_DEVICE].made);
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

static void when_vacated(void *data) {
    const struct vmm_range *r = data;
    CHECK_EQ(idle(VMM_DEVICE), PAGES);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, VMM_UNMAPPED);
    CHECK(emu_fail("cuMemSetAccess,cuMemMap:after=2") == 0);
}

TEST(frames_are_free_before_the_host_is_mapped) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0), *other = range_new(BYTES, false, 0);
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, 60 + (unsigned)i);
    struct vmm_move out[2] = {whole(r, VMM_HOST), whole(r, VMM_HOST)};
    out[0].bytes -= 3 * PAGE_LEAST;
    out[1].start += out[0].bytes;
    out[1].bytes -= out[0].bytes;
    CHECK_EQ(vmm_move(&v, out, 2, NULL, when_vacated, r), VMM_MOVED); /* though mapping failed at first */
    struct vmm_move in = whole(other, VMM_DEVICE);
    CHECK(move(&in));
    CHECK_EQ(v.pool[VMM_DEVICE].made, PAGES);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, VMM_HOST);
        CHECK_EQ(first_word(r, i), 60 + i);
    }
}

/* Whatever call fails, and whenever: nothing is lost, and nothing is left behind. */
static void fail_in_moves(const char *what, bool stale) {
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
    CHECK_EQ(idle(VMM_DEVICE), v.pool[VMM_DEVICE].made);
    CHECK_EQ(idle(VMM_HOST), v.pool[VMM_HOST].made);
    CHECK(range_new(BYTES, true, 0));
}

TEST(creating_fails_in_a_move) {
    fail_in_moves("cuMemCreate", false);
}

TEST(mapping_fails_in_a_move) {
    fail_in_moves("cuMemMap", false);
}

TEST(unmapping_fails_in_a_move) {
    fail_in_moves("cuMemUnmap", false);
}

TEST(access_fails_in_a_move) {
    fail_in_moves("cuMemSetAccess", false);
}

TEST(copying_fails_in_a_move) {
    fail_in_moves("cuMemcpyAsync", false);
}

TEST(creating_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemCreate", true);
}

TEST(mapping_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemMap", true);
}

TEST(unmapping_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemUnmap", true);
}

TEST(access_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemSetAccess", true);
}

TEST(copying_fails_while_what_leaves_is_stale) {
    fail_in_moves("cuMemcpyAsync", true);
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

TEST(a_move_without_copies_waits_for_none) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    out.copy = in.copy = false;
    CHECK(emu_fail("cuStreamSynchronize:sticky") == 0);
    CHECK(move(&out));
    CHECK(move(&in));
    out.stale = true;
    CHECK(move(&out));
    CHECK(move(&in));
    emu_fail(NULL);
    CHECK_EQ(r->page[0].at, VMM_DEVICE);
}
