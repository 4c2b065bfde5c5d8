/* Look-ups beside changes: nothing that a reader is told was never true. */
#include "ledger/ledger.h"

#include <pthread.h>
#include <stdatomic.h>

#include "test.h"

/* Every writer has a part of the addresses to itself: SLOTS allocations of SLOT bytes. What its allocations look like
 * follows from their start, so that any reader can judge any answer. */
enum { READERS = 3, WRITERS = 2, SLOTS = 300, SLOT = 0x10000, ROUNDS = 20000, FOUND_MIN = 1000 };

static struct ledger *l;
static atomic_int writing;
static atomic_ulong found; /* look-ups that found something */

static const addr_t base = 0x7f0000000000;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static struct allocation expected(addr_t start) {
    return (struct allocation){.start = start,
                               .bytes = SLOT,
                               .charged = start >> 16 & 0xff,
                               .context = start ^ 0x5555,
                               .device = (int32_t)(start >> 16 & 3),
                               .kind = MEMORY_ASYNC};
}

/* In slot k the framework has blocks of (k % 7 + 1) * 256 bytes, one after the other. */
static uint64_t block_bytes(addr_t start) {
    return ((start - base) / SLOT % 7 + 1) * 256;
}

static void *change(void *number) {
    uint64_t state = (uintptr_t)number;
    addr_t mine = base + (uintptr_t)number * SLOTS * SLOT;
    bool live[SLOTS] = {false};
    /* on a busy machine the readers may hardly have had a turn by the last round */
    for (int round = 0; round < ROUNDS || atomic_load(&found) <= FOUND_MIN; round++) {
        uint64_t k = next(&state) % SLOTS;
        addr_t start = mine + k * SLOT;
        struct allocation a = expected(start), gone;
        addr_t pointers[40] = {[0 ... 39] = start};
        switch (live[k] ? next(&state) % 7 : 7) {
        case 0:
            CHECK(ledger_remove(l, start, &gone));
            CHECK_EQ(gone.start, start);
            ledger_freed(l, &gone);
            live[k] = false;
            break;
        case 1:
            CHECK(ledger_remove(l, start, &gone));
            ledger_restore(l, &gone);
            break;
        case 2:
            ledger_block_remove(l, start + next(&state) % 30 * block_bytes(start));
            break;
        case 3:
            ledger_table_set(l, start + next(&state) % 64 * 8, 8 + next(&state) % 512, pointers, next(&state) % 40);
            break;
        case 4:
            ledger_tables_touched(l, &(struct touch){.start = start, .bytes = SLOT, .mode = 1 + next(&state) % 4}, 1);
            if (next(&state) % 8 == 0)
                ledger_tables_doubt(l);
            break;
        case 7:
            ledger_charge(l, a.device, a.charged);
            CHECK(ledger_add(l, &a));
            live[k] = true;
            break;
        default:
            ledger_block_add(l, start + next(&state) % 30 * block_bytes(start), block_bytes(start));
        }
        if (round % 1000 == 0)
            ledger_check(l);
    }
    for (size_t k = 0; k < SLOTS; k++) {
        struct allocation gone;
        if (!live[k])
            continue;
        CHECK(ledger_remove(l, mine + k * SLOT, &gone));
        ledger_freed(l, &gone);
    }
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

static void judge(addr_t p) {
    struct allocation a, e = expected(base + (p - base) / SLOT * SLOT);
    struct touch t;
    addr_t pointers[64];
    if (ledger_find(l, p, &a)) {
        e.id = a.id;
        CHECK(a.id > 0 && memcmp(&a, &e, sizeof a) == 0);
        CHECK(ledger_may_hold(l, p));
        atomic_fetch_add(&found, 1);
    }
    if (ledger_extent(l, p, &t)) {
        CHECK(t.start <= p && p < t.start + t.bytes);
        CHECK(t.start >= e.start && t.start + t.bytes <= e.start + e.bytes && t.allocation > 0);
        if (t.source == SOURCE_FRAMEWORK) {
            CHECK_EQ(t.bytes, block_bytes(e.start));
            CHECK_EQ((t.start - e.start) % t.bytes, 0);
        } else if (t.source == SOURCE_ALLOCATION) {
            CHECK_EQ(t.bytes, SLOT);
        } else {
            CHECK_EQ(t.source, SOURCE_OBSERVED);
        }
    }
    size_t n = ledger_table_find(l, e.start, SLOT, pointers, 64);
    for (size_t i = 0; i < n && i < 64; i++)
        CHECK_EQ(pointers[i], e.start);
    CHECK(!ledger_table_sure(l, e.start, SLOT)); /* no copy is as large */
}

static void *look(void *number) {
    uint64_t state = ~(uintptr_t)number;
    struct allocation list[16];
    while (atomic_load(&writing) > 0) {
        for (int i = 0; i < 100; i++)
            judge(base + next(&state) % (WRITERS * SLOTS) * SLOT + next(&state) % SLOT / 16 * 16);
        addr_t from = base + next(&state) % ((uint64_t)WRITERS * SLOTS * SLOT), before = from;
        size_t n = ledger_list(l, from, list, 16);
        for (size_t i = 0; i < n; i++) {
            CHECK(list[i].start >= before && list[i].bytes == SLOT);
            before = list[i].start + SLOT;
        }
        CHECK(ledger_allocations(l) <= WRITERS * SLOTS);
        CHECK(ledger_blocks(l) <= WRITERS * SLOTS * 30);
    }
    return NULL;
}

static void start(pthread_t *threads) {
    l = ledger_new();
    atomic_store(&writing, WRITERS);
    for (uintptr_t i = 0; i < WRITERS + READERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, i < WRITERS ? change : look, (void *)i), 0);
}

TEST(readers_see_only_what_was_true) {
    pthread_t threads[WRITERS + READERS];
    start(threads);
    for (size_t i = 0; i < WRITERS + READERS; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_load(&found) > FOUND_MIN);
    ledger_check(l);
    CHECK_EQ(ledger_allocations(l) + ledger_blocks(l), 0);
    for (int device = 0; device < 4; device++)
        CHECK_EQ(ledger_used(l, device), 0);
    ledger_delete(l);
}
