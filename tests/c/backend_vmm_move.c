/* Moves of the remapping backend, on the emulated device. */
#include "vmm_moves.h"

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

/* The number of no frame is the one before frame 0. */
TEST(a_page_in_the_file_is_no_neighbour_of_one_on_the_host) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = whole(r, VMM_HOST), in = whole(r, VMM_DEVICE);
    write_page(r, 0, 100);
    out.start += PAGE_LEAST;
    out.bytes -= PAGE_LEAST;
    CHECK(move(&out));
    CHECK_EQ(r->page[1].frame[VMM_HOST], 0);
    for (size_t i = 1; i < PAGES; i++)
        write_page(r, i, 100 + (unsigned)i);
    CHECK(page_file_begin(v.file, 0, "/tmp", PAGES));
    uint32_t slot = page_file_take(v.file);
    CHECK(vmm_file_write(&v, slot, vmm_page_alias(&v, &r->page[0], VMM_DEVICE), NULL));
    CHECK(vmm_range_unmap(&v, r, 0, 1, VMM_UNMAPPED));
    vmm_page_drop(&v, &r->page[0], VMM_DEVICE);
    vmm_page_file(&v, &r->page[0], slot);
    CHECK(move(&in));
    CHECK_EQ(r->page[1].frame[VMM_DEVICE], r->page[0].frame[VMM_DEVICE] + 1);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), 100 + i);
    page_file_end(v.file, 0);
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
    CHECK_EQ(v.pool[VMM_DEVICE].frames.made, PAGES);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK_EQ(r->page[i].at, VMM_HOST);
        CHECK_EQ(first_word(r, i), 60 + i);
    }
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
