/* Allocations that share pages: where they lie, what they occupy, and that one's end leaves the other's pages. */
#include "vmm_device.h"

enum { LARGE = 4 * PAGE_LEAST, GRAIN = PAGE_LEAST };

static void open_large(void) {
    page_bytes = LARGE;
    open_device(4 * LARGE);
}

static struct vmm_part *filled_part_new(uint64_t bytes, bool apart, uint64_t *fresh) {
    struct vmm_part *p = vmm_part_new(&v, bytes, apart, fresh);
    CHECK(p && vmm_part_fill(&v, p, true, 0));
    struct vmm_pages s = vmm_part_pages(p);
    for (size_t i = s.first; i < s.end; i++) /* as the backend does once it is in the ledger */
        p->range->page[i].known = true;
    return p;
}

static struct vmm_part *part_new(uint64_t bytes, uint64_t *fresh) {
    return filled_part_new(bytes, false, fresh);
}

static void write_part(const struct vmm_part *p, unsigned value) {
    OK(cuMemsetD32_v2(p->start, value, p->bytes / 4));
    OK(cuCtxSynchronize());
}

static void check_part(const struct vmm_part *p, unsigned value) {
    unsigned first, last;
    OK(cuMemcpyDtoH_v2(&first, p->start, 4));
    OK(cuMemcpyDtoH_v2(&last, p->start + p->bytes - 4, 4));
    CHECK_EQ(first, value);
    CHECK_EQ(last, value);
}

TEST(neighbours_share_a_page) {
    open_large();
    uint64_t fresh, before = used_on_device();
    struct vmm_part *a = part_new(5 * GRAIN, &fresh); /* a page and a quarter */
    CHECK_EQ(fresh, 2 * LARGE);
    struct vmm_part *b = part_new(3 * GRAIN, &fresh); /* the rest of it */
    CHECK_EQ(fresh, 0);
    CHECK_EQ(b->start, a->start + a->bytes);
    struct vmm_part *c = part_new(6 * GRAIN, &fresh);
    CHECK_EQ(fresh, 2 * LARGE);
    CHECK_EQ(used_on_device() - before, 4 * LARGE);
    write_part(a, 1);
    write_part(b, 2);
    write_part(c, 3);
    vmm_part_delete(&v, a); /* its own page goes */
    CHECK_EQ(b->range->page[0].parts, 0);
    CHECK_EQ(b->range->page[1].parts, 1);
    check_part(b, 2);
    a = part_new(2 * GRAIN, &fresh); /* in its place */
    CHECK_EQ(a->start, b->range->start);
    CHECK_EQ(fresh, LARGE);
    write_part(a, 4);
    check_part(b, 2);
    check_part(c, 3);
    vmm_part_delete(&v, b);
    vmm_part_delete(&v, a);
    check_part(c, 3);
    CHECK_EQ(v.ranges.count, 1);
    vmm_part_delete(&v, c);
    CHECK_EQ(v.ranges.count, 0); /* with its addresses */
}

TEST(where_addresses_are_short_a_range_is_as_small_as_can_be) {
    open_large();
    uint64_t fresh;
    CHECK(emu_fail("cuMemAddressReserve") == 0);
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *b = part_new(3 * GRAIN, &fresh);
    CHECK_EQ(a->range->bytes, 2 * LARGE);
    CHECK(b->range == a->range);
    CHECK_EQ(fresh, 0);
    struct vmm_part *c = part_new(GRAIN, &fresh);
    CHECK(c->range != a->range && v.ranges.count == 2);
    vmm_part_delete(&v, a);
    vmm_part_delete(&v, b);
    CHECK_EQ(v.ranges.count, 1);
    vmm_part_delete(&v, c);
}

TEST(whole_pages_are_not_shared) {
    open_large();
    uint64_t fresh;
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *whole = part_new(2 * LARGE, &fresh);
    CHECK_EQ(fresh, 2 * LARGE);
    CHECK_EQ(whole->start % LARGE, 0);
    struct vmm_part *b = part_new(3 * GRAIN, &fresh);
    CHECK_EQ(b->start, a->start + a->bytes);
    CHECK(whole->range != a->range);
    vmm_part_delete(&v, whole);
    vmm_part_delete(&v, a);
    vmm_part_delete(&v, b);
    CHECK_EQ(v.ranges.count, 0);
}

/* 64 pages leave a page unused. */
TEST(what_is_to_lie_apart_does_while_little_is_lost) {
    open_large();
    uint64_t fresh;
    struct vmm_part *whole[64], *a, *b, *c;
    for (size_t i = 0; i < 64; i++)
        CHECK((whole[i] = vmm_part_new(&v, LARGE, true, &fresh)) != NULL);
    a = vmm_part_new(&v, 5 * GRAIN, true, &fresh); /* three grains stay unused */
    b = vmm_part_new(&v, 3 * GRAIN, true, &fresh); /* and one */
    CHECK(a->range->alone && b->range->alone);
    CHECK_EQ(a->start % LARGE + b->start % LARGE, 0);
    CHECK_EQ(fresh, LARGE);
    CHECK_EQ(b->start, a->start + 2 * LARGE);
    c = filled_part_new(3 * GRAIN, true, &fresh);
    CHECK(!c->range->alone);
    vmm_part_delete(&v, b);
    b = part_new(3 * GRAIN, &fresh);
    CHECK_EQ(b->start, c->start + c->bytes);
    vmm_part_delete(&v, c);
    vmm_part_delete(&v, b);
    b = vmm_part_new(&v, 3 * GRAIN, true, &fresh);
    CHECK(b->range->alone);
    vmm_part_delete(&v, whole[0]);
    vmm_part_delete(&v, b);
    b = vmm_part_new(&v, 3 * GRAIN, true, &fresh); /* there are 63 now */
    CHECK(!b->range->alone);
    vmm_part_delete(&v, a);
    vmm_part_delete(&v, b);
    for (size_t i = 1; i < 64; i++)
        vmm_part_delete(&v, whole[i]);
    CHECK_EQ(v.ranges.count, 0);
}

TEST(the_newest_of_a_size_is_found) {
    open_large();
    uint64_t fresh;
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *b = part_new(3 * GRAIN, &fresh),
                    *c = part_new(5 * GRAIN, &fresh);
    CHECK(vmm_part_alike(&v, 5 * GRAIN) == c);
    CHECK(vmm_part_alike(&v, 3 * GRAIN) == b);
    CHECK(vmm_part_alike(&v, 4 * GRAIN) == NULL);
    vmm_part_delete(&v, a);
    a = part_new(5 * GRAIN, &fresh); /* in the same place, below c */
    CHECK(a->start < c->start);
    CHECK(vmm_part_alike(&v, 5 * GRAIN) == a);
    a->deferred = true;
    CHECK(vmm_part_alike(&v, 5 * GRAIN) == c);
    vmm_part_delete(&v, a);
    vmm_part_delete(&v, b);
    vmm_part_delete(&v, c);
    CHECK(vmm_part_alike(&v, 5 * GRAIN) == NULL);
}

/* Nobody knows who still uses what left, or does not use yet what is to come. */
TEST(what_the_engine_does_not_know_is_not_shared) {
    open_large();
    uint64_t fresh;
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *b;
    a->range->page[1].known = false;
    b = part_new(GRAIN, &fresh);
    CHECK_EQ(fresh, LARGE);
    CHECK_EQ(b->start, a->range->start + 2 * LARGE);
    a->range->page[1].known = true;
    struct vmm_part *c = part_new(GRAIN, &fresh);
    CHECK_EQ(fresh, 0);
    CHECK(vmm_part_at(a->range, c->start + 1) == c && vmm_part_at(a->range, a->start) == a);
    CHECK(!vmm_part_at(a->range, c->start + c->bytes));
    vmm_part_delete(&v, c);
    vmm_part_delete(&v, b);
    vmm_part_delete(&v, a);
}

/* Its addresses are nobody's any more; its neighbour's page is as it was. */
TEST(what_cannot_be_unmapped_stays) {
    open_large();
    uint64_t fresh;
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *b = part_new(GRAIN, &fresh), *c;
    addr_t start = a->start;
    write_part(b, 7);
    CHECK(emu_fail("cuMemUnmap:sticky") == 0);
    vmm_part_delete(&v, a);
    emu_fail(NULL);
    check_part(b, 7);
    c = part_new(GRAIN, &fresh);
    CHECK_EQ(c->start, b->start + b->bytes);
    CHECK(vmm_part_at(b->range, start) == a && a->deferred);
    vmm_part_delete(&v, c);
    vmm_part_delete(&v, b);
    CHECK_EQ(v.ranges.count, 1);
}

TEST(nothing_is_left_where_there_are_no_frames) {
    open_large();
    uint64_t fresh, before = used_on_device();
    struct vmm_part *a = part_new(5 * GRAIN, &fresh), *b = vmm_part_new(&v, 2 * LARGE, false, &fresh);
    CHECK(emu_fail("cuMemCreate:sticky") == 0);
    CHECK(b && !vmm_part_fill(&v, b, true, 0));
    vmm_part_delete(&v, b);
    emu_fail(NULL);
    write_part(a, 1);
    check_part(a, 1);
    vmm_part_delete(&v, a);
    CHECK(used_on_device() >= before);
}
