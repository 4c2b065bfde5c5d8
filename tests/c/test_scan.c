/* What a launch touches, by the addresses among its arguments. */
#include "launch/scan.h"

#include "test.h"

static struct ledger *l;
static struct touch touches[TOUCH_MAX];
static struct op op;

static uint32_t scan(addr_t a, addr_t b) {
    addr_t words[] = {a, b};
    void *parameters[] = {words};
    static struct function f = {.known = true, .parameters = 1, .runs = 1, .run = {{.parameter = 0, .words = 2}}};
    op = (struct op){.touches = touches};
    scan_parameters(&op, l, &f, (struct grid){1, 1}, parameters);
    return op.count;
}

static void begin(void) {
    struct allocation a = {.start = 0x100000, .bytes = 0x10000};
    l = ledger_new();
    CHECK(ledger_add(l, &a));
}

TEST(an_address_is_a_touch_and_a_number_is_none) {
    begin();
    CHECK_EQ(scan(0x100000, 42), 1);
    CHECK_EQ(op.touches[0].start, 0x100000);
    CHECK_EQ(op.touches[0].bytes, 0x10000);
    CHECK_EQ(scan(1, 42), 0);
    CHECK(op.flags & OP_UNMATCHED);
}

/* Arrays in arguments are often longer than what is used of them: the rest is what the stack held before. */
TEST(what_the_framework_took_back_is_not_touched) {
    begin();
    ledger_block_add(l, 0x101000, 0x1000);
    ledger_block_add(l, 0x102000, 0x1000);
    CHECK_EQ(scan(0x101000, 0x102000), 2);
    CHECK(ledger_block_remove(l, 0x102000));
    CHECK_EQ(scan(0x101000, 0x102000), 1);
    CHECK_EQ(op.touches[0].start, 0x101000);
    CHECK_EQ(scan(0x103000, 0x102100), 0);
    ledger_block_add(l, 0x102000, 0x800);
    CHECK_EQ(scan(0x101000, 0x102100), 2);
}
