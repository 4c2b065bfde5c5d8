/* What launches take over from the library call they are part of. */
#include "launch/call_extents.h"

#include "test.h"

static struct thread *self;
static struct touch touches[TOUCH_MAX];
static struct op op;

static struct touch touch(addr_t start, uint64_t bytes, enum touch_mode mode) {
    return (struct touch){
        .start = start, .bytes = bytes, .allocation = 1, .mode = (uint8_t)mode, .source = SOURCE_LIBRARY};
}

/* Of the first LISTED_MAX extents, those that a launch shows which holds p. */
static uint32_t around(struct call *call, addr_t p) {
    call->shown = 0;
    CHECK(call_extents_show(call, p) == (call->shown != 0));
    return call->shown;
}

static struct call *begin(void) {
    self = thread_self();
    CHECK(self);
    CHECK(!call_under_way());
    self->call.open = true;
    op = (struct op){.touches = touches, .flags = OP_UNMATCHED};
    return &self->call;
}

static void tell(struct call *call, addr_t start, uint64_t bytes, enum touch_mode mode) {
    call->touches[call->front++] = touch(start, bytes, mode);
}

TEST(only_an_open_call_is_one) {
    struct call *call = begin();
    CHECK(call_under_way() == call);
    call->open = false;
    CHECK(!call_under_way());
}

TEST(any_address_inside_shows_the_extent) {
    struct call *call = begin();
    tell(call, 0x1000, 0x100, TOUCH_READ);
    tell(call, 0x2000, 0x10, TOUCH_WRITE);
    CHECK_EQ(around(call, 0x1000), 1);
    CHECK_EQ(around(call, 0x10ff), 1);
    CHECK_EQ(around(call, 0x200f), 2);
    CHECK_EQ(around(call, 0x1100) | around(call, 0xfff) | around(call, 0x2010), 0);
}

TEST(of_extents_in_each_other_all_are_shown) {
    struct call *call = begin();
    tell(call, 0x1000, 0x1000, TOUCH_READ);
    tell(call, 0x1100, 0x1000, TOUCH_WRITE);
    CHECK_EQ(around(call, 0x1100), 3); /* of the first perhaps, from there on */
    CHECK_EQ(around(call, 0x1000), 1);
    CHECK_EQ(around(call, 0x1200), 3);
    CHECK_EQ(around(call, 0x2080), 2);
}

TEST(an_extent_behind_the_address_that_was_given_is_shown_by_it) {
    struct call *call = begin();
    tell(call, 0x0ff0, 0x100, TOUCH_WRITE);
    tell(call, 0x1010, 0x100, TOUCH_READ);
    call->touches[1].before = 0x10;
    CHECK_EQ(around(call, 0x1000), 3);
    CHECK_EQ(around(call, 0x110f), 2);
    CHECK_EQ(around(call, 0x1110), 0);
    call->touches[0].bytes = 0x10;
    call->listed = 0;
    CHECK_EQ(around(call, 0x1000), 2);
    CHECK_EQ(around(call, 0x0fff), 1);
}

TEST(of_many_extents_each_is_shown) {
    struct call *call = begin();
    for (uint32_t i = 0; i < 2 * LISTED_MAX; i++) {
        tell(call, 0x1000 + 0x100 * i, 0x100, TOUCH_READ);
        for (uint32_t k = 0; k <= i; k++) {
            call->shown = 0;
            CHECK(call_extents_show(call, 0x1080 + 0x100 * k));
            CHECK_EQ(call->shown, k < LISTED_MAX ? 1u << k : 0);
        }
        CHECK(!call_extents_show(call, 0x1100 + 0x100 * i) && !call_extents_show(call, 0xfff));
    }
}

static bool takes(const struct op *o, addr_t start) {
    bool found = false;
    for (uint32_t i = 0; i < o->count; i++)
        found = found || o->touches[i].start == start;
    return found;
}

/* Another launch of the call, of a kernel that holds p. */
static void launch(struct call *call, addr_t p) {
    op.count = 0;
    call_extents_show(call, p);
    call_extents_carry(call, &op);
}

TEST(only_what_is_read_and_not_shown_is_left_out_by_launches_that_follow) {
    struct call *call = begin();
    tell(call, 0x1000, 0x100, TOUCH_READ);
    tell(call, 0x2000, 0x100, TOUCH_READ);
    tell(call, 0x2080, 0x100, TOUCH_WRITE);
    call->touches[TOUCH_MAX - ++call->back] = touch(0x3000, 8, TOUCH_READ);
    launch(call, 0x2090);
    CHECK_EQ(op.count, 4);
    CHECK(!(op.flags & OP_UNMATCHED));
    launch(call, 0x2090); /* in both: it may mean either */
    CHECK(takes(&op, 0x2000) && takes(&op, 0x2080) && takes(&op, 0x3000) && !takes(&op, 0x1000));
    launch(call, 0x1000); /* what it holds may lie in it and mean what is written */
    CHECK(takes(&op, 0x1000) && takes(&op, 0x2080) && takes(&op, 0x3000) && !takes(&op, 0x2000));
    launch(call, 0x5000); /* it may hide what it uses, as the first one may */
    CHECK_EQ(op.count, 4);
}

TEST(other_flags_of_the_operation_stay) {
    struct call *call = begin();
    tell(call, 0x1000, 0x100, TOUCH_READ);
    op.flags |= OP_GATED | OP_CAPTURED;
    launch(call, 0x1000);
    CHECK_EQ(op.flags, OP_GATED | OP_CAPTURED);
}

TEST(what_is_behind_the_list_is_never_left_out) {
    struct call *call = begin();
    for (uint32_t i = 0; i < LISTED_MAX + 8; i++)
        tell(call, 0x1000 + 0x100 * i, 0x100, TOUCH_READ);
    launch(call, 0x1000);
    CHECK_EQ(op.count, LISTED_MAX + 8);
    launch(call, 0x1000);
    CHECK_EQ(op.count, 9);
}

TEST(what_adds_nothing_leaves_the_launch_unmatched) {
    struct call *call = begin();
    call_extents_carry(call, &op);
    CHECK_EQ(op.count, 0);
    CHECK(op.flags & OP_UNMATCHED);
    CHECK(op.flags & OP_HIDES); /* nobody knows what it uses */
    tell(call, 0x1000, 0x100, TOUCH_READ);
    op.flags = 0;
    call_extents_carry(call, &op);
    CHECK(!(op.flags & OP_HIDES));
}

TEST(there_is_room_for_so_many) {
    struct call *call = begin();
    for (uint32_t i = 0; i < TOUCH_MAX; i++)
        tell(call, 0x1000 + 0x10 * i, 0x10, TOUCH_READ);
    touches[op.count++] = touch(0x10, 0x10, TOUCH_UPDATE);
    call_extents_carry(call, &op);
    CHECK_EQ(op.count, TOUCH_MAX);
    CHECK_EQ(touches[0].start, 0x10);
}

TEST(what_a_whole_call_told_is_all_that_its_kernels_use) {
    struct call *call = begin();
    call->together = call->whole = true;
    CHECK(!call_extents_suffice(call)); /* it told nothing */
    tell(call, 0x1000, 0x100, TOUCH_READ);
    CHECK(call_extents_suffice(call));
    op.kernels = 1;
    op.touches[op.count++] = touch(0x9000, 1, TOUCH_WRITE);
    CHECK(call_extents_cover(&op));
    op.kernels = 0; /* a copy */
    CHECK(!call_extents_cover(&op));
    call->hides = true;
    CHECK(!call_extents_suffice(call));
}
