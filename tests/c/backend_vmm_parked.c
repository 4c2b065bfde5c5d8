/* Pages that leave the device for good: their frames go back to the driver, and they are mapped at the placeholder. */
#include "vmm_moves.h"

#include <pthread.h>

static bool has_placeholder(void) {
    return v.placeholder.there;
}

static struct vmm_move parting(const struct vmm_range *r) {
    struct vmm_move m = whole(r, VMM_HOST);
    m.parks = true;
    return m;
}

static void all_lie(const struct vmm_range *r, uint8_t at) {
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, at);
}

static void number_pages(const struct vmm_range *r, unsigned first) {
    for (size_t i = 0; i < PAGES; i++)
        write_page(r, i, first + (unsigned)i);
}

static void holds_numbers(const struct vmm_range *r, unsigned first) {
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), first + i);
}

/* One frame stays: that of the first which left. */
TEST(what_leaves_for_good_gives_its_frames_to_the_driver) {
    open_device(BYTES);
    uint64_t before = used_on_device();
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    for (unsigned round = 0; round < 2; round++) {
        number_pages(r, 20 * round);
        CHECK(move(&out));
        all_lie(r, VMM_PLACEHOLDER);
        CHECK_EQ(v.placeholder.pages, PAGES);
        CHECK_EQ(idle(VMM_DEVICE), PAGES - 1);
        frames_trim(&v.pool[VMM_DEVICE].frames, 0);
        CHECK_EQ(used_on_device() - before, PAGE_LEAST);
        CHECK(move(&out)); /* again: nothing more to give */
        CHECK(move(&in));
        all_lie(r, VMM_DEVICE);
        holds_numbers(r, 20 * round);
        CHECK(!has_placeholder());
    }
    range_delete(r);
    frames_trim(&v.pool[VMM_DEVICE].frames, 0);
    CHECK_EQ(used_on_device(), before);
}

/* The driver takes the address in any call. */
TEST(somebody_may_use_them_after_all) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    number_pages(r, 40);
    CHECK(move(&out));
    write_page(r, 0, 1); /* there is memory, though not its own */
    vmm_range_map_stale(&v, r, 2, 3);
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(r->page[i].at, i >= 2 && i < 5 ? VMM_HOST : VMM_PLACEHOLDER);
    CHECK_EQ(first_word(r, 3), 43);
    write_page(r, 3, 99);
    CHECK(move(&in));
    for (size_t i = 0; i < PAGES; i++)
        CHECK_EQ(first_word(r, i), i == 3 ? 99 : 40 + i);
    CHECK(move(&out));
    range_delete(r); /* while it is away */
    CHECK(!has_placeholder());
    CHECK_EQ(idle(VMM_DEVICE), v.pool[VMM_DEVICE].frames.made);
    CHECK_EQ(idle(VMM_HOST), PAGES);
}

TEST(what_nobody_wants_is_not_copied) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    number_pages(r, 1);
    uint64_t before = copied();
    out.copy = false;
    CHECK(move(&out) && move(&in));
    CHECK_EQ(copied(), before);
    number_pages(r, 60);
    out.copy = in.keep = true;
    CHECK(move(&out) && move(&in));
    before = copied();
    out.clean = true;
    CHECK(move(&out)); /* what came is still there */
    CHECK_EQ(copied(), before);
    CHECK(move(&in));
    holds_numbers(r, 60);
}

/* Each of the driver's calls that map is refused once. */
TEST(where_it_cannot_be_mapped_the_page_is_mapped_on_the_host) {
    static const char *const calls[] = {"cuMemMap", "cuMemSetAccess", "cuMemUnmap"};
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    CHECK(move(&out) && move(&in)); /* the host's frames are made */
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        number_pages(r, 100 * (unsigned)i);
        CHECK(emu_fail(calls[i]) == 0);
        bool left = move(&out);
        emu_fail(NULL);
        for (size_t p = 0; p < PAGES; p++)
            CHECK_EQ(r->page[p].at, left ? VMM_HOST : VMM_DEVICE);
        CHECK_EQ(left, i < 2);
        CHECK(!has_placeholder() || v.placeholder.pages == 0);
        CHECK(move(&in));
        holds_numbers(r, 100 * (unsigned)i);
    }
}

/* A claim is on a frame that was idle; it is nobody's any more. */
TEST(a_parked_page_has_no_claim) {
    open_device(2 * BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move stale = whole(r, VMM_HOST), out = parting(r), in = whole(r, VMM_DEVICE);
    stale.stale = true;
    number_pages(r, 7);
    CHECK(move(&stale) && move(&out)); /* stale pages are mapped elsewhere, too, where there is a placeholder */
    for (size_t i = 0; i < PAGES; i++)
        for (int c = 0; c < FRAMES_CLAIMS; c++)
            CHECK_EQ(v.pool[VMM_DEVICE].frames.frame[i].claims[c], 0);
    CHECK(move(&in));
    holds_numbers(r, 7);
    frames_check(&v.pool[VMM_DEVICE].frames);
}

/* There the placeholder would stay for good, and its page would be missing from the budget. */
TEST(where_pages_go_to_the_file_by_themselves_none_is_adopted) {
    open_device(BYTES);
    v.beyond_host = true;
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r);
    number_pages(r, 5);
    CHECK(move(&out));
    all_lie(r, VMM_HOST);
    CHECK(!has_placeholder());
    holds_numbers(r, 5);
}

/* All frames of the host were let go while pages were in the file. */
TEST(where_pages_go_to_the_file_by_themselves_it_is_on_the_host_again_once_all_are_back) {
    open_device(BYTES / 2); /* too few frames for the pages */
    v.beyond_host = true;
    CHECK(page_file_begin(v.file, 0, "", 2 * PAGES));
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    uint32_t on_host, none;
    out.file = true;
    number_pages(r, 30);
    CHECK(move(&out));
    all_lie(r, VMM_PLACEHOLDER);
    CHECK(vmm_placeholder_to_device(&v, &on_host) && on_host != NO_FRAME);
    for (size_t i = 0; i < PAGES; i++) {
        CHECK(vmm_range_unmap(&v, r, i, 1, VMM_UNMAPPED));
        vmm_hold_vacant(&v, r, i, 1);
    }
    vmm_placeholder_left(&v, 1);
    ulms_frames_give(&v.pool[VMM_HOST].frames, &on_host, 1);
    frames_trim(&v.pool[VMM_HOST].frames, 0);
    CHECK(vmm_placeholder_is_here(&v, false));
    CHECK(move(&in));
    holds_numbers(r, 30);
    CHECK(has_placeholder() && !vmm_placeholder_is_here(&v, true));
    CHECK_EQ(v.pool[VMM_DEVICE].frames.made - idle(VMM_DEVICE), PAGES);
    CHECK(vmm_placeholder_to_device(&v, &none) && none == NO_FRAME); /* nothing is mapped there */
    CHECK(!has_placeholder());
}

/* Another would get its frame. */
TEST(a_placeholder_that_cannot_be_unmapped_stays) {
    open_device(BYTES);
    struct vmm_range *r = range_new(BYTES, true, 0);
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    CHECK(move(&out) && move(&in)); /* the host's frames are made */
    CHECK(emu_fail("cuMemSetAccess:sticky,cuMemUnmap:sticky:after=1") == 0);
    move(&out); /* with an error */
    emu_fail(NULL);
    CHECK(has_placeholder());
    CHECK(v.placeholder.pages > 0);
}

/* As movers do, beside one that gives frames back. */
enum { MOVERS = 3, ROUNDS = 10 };

static CUcontext context;

static void *move_often(void *data) {
    struct vmm_range *r = data;
    OK(cuCtxSetCurrent(context));
    struct vmm_move out = parting(r), in = whole(r, VMM_DEVICE);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < PAGES; i++)
            OK(cuMemsetD32_v2(r->start + i * PAGE_LEAST, PAGES * round + (unsigned)i, WORDS));
        CHECK(move(&out));
        if (round % 4 == 3)
            vmm_range_map_stale(&v, r, 0, PAGES / 2);
        CHECK(move(&in));
        holds_numbers(r, PAGES * round);
    }
    return NULL;
}

TEST(threads_park_pages_at_the_same_time) {
    pthread_t thread[MOVERS];
    struct vmm_range *r[MOVERS];
    open_device(MOVERS * BYTES);
    OK(cuCtxGetCurrent(&context));
    for (int i = 0; i < MOVERS; i++) {
        CHECK((r[i] = range_new(BYTES, true, 0)));
        CHECK(pthread_create(&thread[i], NULL, move_often, r[i]) == 0);
    }
    for (int i = 0; i < MOVERS; i++) {
        frames_trim(&v.pool[VMM_DEVICE].frames, 0);
        pthread_join(thread[i], NULL);
    }
    CHECK(!has_placeholder());
    CHECK_EQ(v.placeholder.pages, 0);
    CHECK_EQ(v.pool[VMM_DEVICE].frames.made - idle(VMM_DEVICE), MOVERS * PAGES);
    frames_check(&v.pool[VMM_DEVICE].frames);
}
