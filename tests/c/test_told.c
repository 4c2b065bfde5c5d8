/* What launches take over from the library call they are part of. */
#include "launch/told.h"

#include "test.h"

static struct thread *self;
static struct touch touches[TOUCH_MAX];
static struct op op;

static struct touch touch(addr_t start, uint64_t bytes, enum touch_mode mode) {
    return (struct touch){
        .start = start, .bytes = bytes, .allocation = 1, .mode = (uint8_t)mode, .source = SOURCE_LIBRARY};
}

static bool find(struct call *call, addr_t p, struct touch *out) {
    uint32_t at = told_find(call, p);
    if (at != TOLD_NONE)
        *out = call->touches[at];
    return at != TOLD_NONE;
}

static struct call *begin(void) {
    self = thread_self();
    CHECK(self);
    CHECK(!told_call());
    self->call.open = true;
    op = (struct op){.touches = touches, .flags = OP_UNMATCHED};
    return &self->call;
}

static void tell(struct call *call, addr_t start, uint64_t bytes, enum touch_mode mode) {
    call->touches[call->front++] = touch(start, bytes, mode);
}

TEST(only_an_open_call_is_one) {
    struct call *call = begin();
    CHECK(told_call() == call);
    call->open = false;
    CHECK(!told_call());
}

TEST(any_address_inside_finds_the_extent) {
    struct call *call = begin();
    struct touch t;
    tell(call, 0x1000, 0x100, TOUCH_READ);
    tell(call, 0x2000, 0x10, TOUCH_WRITE);
    CHECK(find(call, 0x1000, &t) && t.start == 0x1000 && t.bytes == 0x100 && t.mode == TOUCH_READ);
    CHECK(find(call, 0x10ff, &t) && t.start == 0x1000);
    CHECK(find(call, 0x200f, &t) && t.mode == TOUCH_WRITE && t.source == SOURCE_LIBRARY);
    CHECK(!find(call, 0x1100, &t) && !find(call, 0xfff, &t) && !find(call, 0x2010, &t));
}

TEST(of_extents_in_each_other_the_one_that_starts_there_is_meant) {
    struct call *call = begin();
    struct touch t;
    tell(call, 0x1000, 0x1000, TOUCH_READ);
    tell(call, 0x1100, 0x1000, TOUCH_WRITE);
    CHECK(find(call, 0x1100, &t) && t.start == 0x1100);
    CHECK(find(call, 0x1000, &t) && t.start == 0x1000);
    CHECK(find(call, 0x1200, &t) && t.start == 0x1000);
    CHECK(find(call, 0x2080, &t) && t.start == 0x1100);
}

TEST(an_extent_behind_the_address_that_was_given_is_found_by_it) {
    struct call *call = begin();
    struct touch t;
    tell(call, 0x0ff0, 0x100, TOUCH_WRITE);
    tell(call, 0x1010, 0x100, TOUCH_READ);
    call->touches[1].before = 0x10;
    CHECK(find(call, 0x1000, &t) && t.start == 0x1010 && t.bytes == 0x100 && t.mode == TOUCH_READ);
    CHECK(find(call, 0x110f, &t) && t.start == 0x1010);
    CHECK(!find(call, 0x1110, &t));
    call->touches[0].bytes = 0x10;
    call->listed = 0;
    CHECK(find(call, 0x0fff, &t) && t.start == 0x0ff0);
}

TEST(of_many_extents_each_is_found) {
    struct call *call = begin();
    struct touch t;
    for (uint32_t i = 0; i < 2 * LISTED_MAX; i++) {
        tell(call, 0x1000 + 0x100 * i, 0x200, TOUCH_READ);
        for (uint32_t k = 0; k <= i; k++) {
            CHECK(find(call, 0x1000 + 0x100 * k, &t) && t.start == 0x1000 + 0x100 * k);
            CHECK(find(call, 0x1080 + 0x100 * k, &t) && t.start == 0x1000 + 0x100 * (k ? k - 1 : 0));
        }
        CHECK(!find(call, 0x1200 + 0x100 * i, &t) && !find(call, 0xfff, &t));
    }
}

TEST(the_first_launch_takes_all_and_no_other_does) {
    struct call *call = begin();
    tell(call, 0x1000, 0x100, TOUCH_READ);
    tell(call, 0x2000, 0x100, TOUCH_WRITE);
    call->touches[TOUCH_MAX - ++call->back] = touch(0x3000, 8, TOUCH_READ);
    touches[op.count++] = touch(0x2000, 0x100, TOUCH_WRITE); /* the scan found it */
    told_carry(call, &op);
    CHECK_EQ(op.count, 3);
    CHECK_EQ(touches[1].start, 0x1000);
    CHECK_EQ(touches[2].start, 0x3000);
    CHECK(!(op.flags & OP_UNMATCHED));
    op.count = 0;
    told_carry(call, &op);
    CHECK_EQ(op.count, 0);
}

TEST(what_adds_nothing_leaves_the_launch_unmatched) {
    struct call *call = begin();
    told_carry(call, &op);
    CHECK_EQ(op.count, 0);
    CHECK(op.flags & OP_UNMATCHED);
    CHECK(op.flags & OP_HIDES); /* nobody knows what it uses */
    tell(call, 0x1000, 0x100, TOUCH_READ);
    op.flags = 0;
    told_carry(call, &op);
    CHECK(!(op.flags & OP_HIDES));
}

TEST(there_is_room_for_so_many) {
    struct call *call = begin();
    for (uint32_t i = 0; i < TOUCH_MAX; i++)
        tell(call, 0x1000 + 0x10 * i, 0x10, TOUCH_READ);
    touches[op.count++] = touch(0x10, 0x10, TOUCH_UPDATE);
    told_carry(call, &op);
    CHECK_EQ(op.count, TOUCH_MAX);
    CHECK_EQ(touches[0].start, 0x10);
}
