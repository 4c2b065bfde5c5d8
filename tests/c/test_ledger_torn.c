/* Look-ups in torn states: between any two stores of a change, and with a whole change between any two of their loads.
 * What they answer then is thrown away by the seqlock; but no value they act on may be one that was never put in. */
#include "ledger/word.h"

static void put_seen(word *w, uint64_t value);
static uint64_t get_seen(const word *w);

#define put(w, value)         put_seen(w, value)
#define put_pointer(w, value) put_seen(w, (uintptr_t)(value))
#define get(w)                get_seen(w)
#define get_pointer(w)        ((void *)(uintptr_t)get_seen(w))
#include "ledger/addrmap.c"
#include "ledger/addrmap_change.c"
#include "ledger/table.c"
#undef put
#undef put_pointer
#undef get
#undef get_pointer

#include "test.h"

enum { STEPS = 500, SLOTS = 400, SLOT = 0x100, POINTERS = 40, LOOKS = 2 };

static const addr_t base = 0x10000;

static struct tables tables;
static void (*torn)(void);          /* a change has stored a word */
static void (*load)(void);          /* a look-up is about to load one */
static uint64_t dice = 1, unbroken; /* unbroken: look-ups that found something in a torn state */

static uint64_t next(uint64_t below) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (dice >> 33) % below;
}

static void run(void (**hook)(void)) {
    void (*once)(void) = *hook;
    *hook = NULL; /* what it does itself is not looked at */
    if (once)
        once();
    *hook = once;
}

static void put_seen(word *w, uint64_t value) {
    put(w, value);
    run(&torn);
}

static uint64_t get_seen(const word *w) {
    if (load)
        run(&load);
    return get(w);
}

/* --- changes --- */

static addr_t any_start(void) {
    return base + next(SLOTS) * SLOT;
}

static void set_at(addr_t start, size_t slots) {
    addr_t pointers[POINTERS];
    for (size_t i = 0; i < POINTERS; i++)
        pointers[i] = start + i;
    tables_set(&tables, start, start + slots * SLOT - next(2) * 8, pointers, 1 + next(POINTERS));
}

static void change(void) {
    addr_t start = any_start();
    switch (next(8)) {
    case 0:
        tables_forget(&tables, start, start + (1 + next(100)) * SLOT);
        break;
    case 1:
        tables_forget(&tables, start + SLOT / 4, start + SLOT / 2);
        break;
    default:
        set_at(start, 1 + next(2));
    }
}

/* --- look-ups --- */

static void judge(bool found, const struct range *r) {
    if (!found)
        return;
    unbroken++;
    CHECK(r->value != 0);
}

static void look_up(void) {
    struct range r = {0};
    addr_t pointers[64] = {0}, p = any_start() + next(SLOT);
    bool sure;
    judge(addrmap_find(&tables.ranges, p, &r), &r);
    judge(addrmap_before(&tables.ranges, p, &r), &r);
    judge(addrmap_after(&tables.ranges, p, &r), &r);
    judge(addrmap_after(&tables.ranges, p / SLOT * SLOT, &r), &r);
    judge(addrmap_after(&tables.ranges, 1, &r), &r);
    addrmap_foresee(&tables.ranges, &p, 1);
    tables_any(&tables, p, p + SLOT);
    tables_any_sure(&tables, p, p + SLOT);
    tables_cover(&tables, p, p + (1 + next(20)) * SLOT);
    size_t room = next(64);
    pointers[room] = p;
    tables_find(&tables, p, p + (1 + next(20)) * SLOT, pointers, room);
    CHECK_EQ(pointers[room], p);
    tables_read(&tables, p / SLOT * SLOT, 1 + next(32), pointers, &sure);
}

static void look_up_some(void) {
    for (int i = 0; i < LOOKS; i++)
        look_up();
}

TEST(look_ups_between_the_stores_of_a_change) {
    torn = look_up_some;
    for (int step = 0; step < STEPS; step++)
        change();
    CHECK(unbroken > STEPS);
    tables_check(&tables);
}

TEST(look_ups_between_the_stores_that_fill_a_map_in_order) {
    torn = look_up_some;
    for (int slot = 0; slot < SLOTS; slot++)
        set_at(base + (addr_t)slot * SLOT, 1);
    CHECK(unbroken > SLOTS);
    tables_check(&tables);
}

static void change_now_and_then(void) {
    if (next(4) == 0)
        change();
}

TEST(changes_between_the_loads_of_a_look_up) {
    for (int step = 0; step < STEPS; step++) {
        change();
        load = change_now_and_then;
        look_up();
        load = NULL;
    }
    CHECK(unbroken > 0);
    tables_check(&tables);
}
