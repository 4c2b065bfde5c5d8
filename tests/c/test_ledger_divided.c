/* Blocks as a caching allocator has them: it divides what was given back in other places each time. */
#include "ledger/ledger.h"

#include "test.h"

enum { SLOTS = 2048, LARGEST = 24, STEPS = 40 * 1000, CHECKED = 97 /* every so many steps */ };
#define BASE 0x7f0000000000u
#define SLOT 0x200u

static struct ledger *l;
static unsigned first[SLOTS]; /* by slot, of the block that holds it, from 1; 0: none does */
static unsigned slots[SLOTS]; /* by first slot: how many the block has */
static uint64_t dice = 7;

static unsigned next(unsigned below) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(dice >> 33) % below;
}

static addr_t address(unsigned slot) {
    return BASE + (addr_t)slot * SLOT;
}

static bool are_unused(unsigned at, unsigned n) {
    for (unsigned i = at; i < at + n; i++)
        if (first[i])
            return false;
    return true;
}

static void hold(unsigned at, unsigned n, unsigned by) {
    for (unsigned i = at; i < at + n; i++)
        first[i] = by;
    slots[at] = n;
}

/* Small ones mostly, so that chunks of the map come and go, too. */
static void add(void) {
    unsigned n = 1 + next(next(2) ? LARGEST : 2), at = next(SLOTS - n);
    if (!are_unused(at, n))
        return;
    ledger_block_add(l, address(at), (uint64_t)n * SLOT);
    hold(at, n, at + 1);
}

static void give_back(unsigned slot) {
    if (!first[slot])
        return;
    unsigned at = first[slot] - 1;
    CHECK(ledger_block_remove(l, address(at)));
    hold(at, slots[at], 0);
}

static void check_slot(unsigned slot) {
    struct touch t;
    unsigned at = first[slot] - 1;
    bool known = ledger_extent(l, address(slot) + next(SLOT), &t);
    CHECK_EQ(known, first[slot] != 0);
    if (!known)
        return;
    CHECK_EQ(t.start, address(at));
    CHECK_EQ(t.bytes, (uint64_t)slots[at] * SLOT);
    CHECK_EQ(t.source, SOURCE_FRAMEWORK);
}

static void step(void) {
    if (next(5) < 3)
        add();
    else
        give_back(next(SLOTS));
}

static void give_all_back(void) {
    for (unsigned i = 0; i < SLOTS; i++)
        give_back(i);
}

TEST(memory_divided_anew) {
    struct allocation a = {.start = BASE, .bytes = (uint64_t)SLOTS * SLOT};
    uint64_t live = 0;
    l = ledger_new();
    CHECK(ledger_add(l, &a));
    ledger_block_add(l, BASE, SLOT); /* from now on, what is in no block is unused */
    hold(0, 1, 1);
    for (unsigned i = 1; i <= STEPS; i++) {
        step();
        check_slot(next(SLOTS));
        if (i % (STEPS / 4) == 0)
            give_all_back();
        if (i % CHECKED == 0)
            ledger_check(l);
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        check_slot(i);
        live += first[i] == i + 1;
    }
    CHECK_EQ(ledger_blocks(l), live);
    ledger_delete(l);
}
