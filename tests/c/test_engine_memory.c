/* The engine when memory runs out: it stays consistent, and what it cannot follow may run. */
#include "test.h"

#include "engine/engine.h"

/* Under a sanitizer the allocator is not ours to replace. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL 1

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

static uint64_t allocations, fails_from, fails_until; /* numbers of allocations, from 1 */

static bool fails(void) {
    allocations++;
    return allocations >= fails_from && allocations < fails_until;
}

void *malloc(size_t bytes) {
    return fails() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    return fails() ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *p, size_t bytes) {
    return fails() ? NULL : __libc_realloc(p, bytes);
}
#endif

enum { PAGE = 4096, PAGES = 2000, OPS = 3000, PERIOD = 1400 };

#define BASE (0x7f0000000000ull)

static void moves(struct ulms_engine *e) {
    struct ulms_move m;
    for (bool any = true; any;) {
        any = false;
        for (int lane = 0; lane < 2; lane++)
            for (; ulms_engine_next(e, lane, &m); any = true)
                ulms_engine_moved(e, m.id, 1);
    }
}

/* Returns how many operations the engine followed. */
static uint64_t program(const char *policy, uint64_t *allocated) {
    struct ulms_engine_settings s = {
        .policy = policy, .page_bytes = PAGE, .budget = 300 * PAGE, .run_bytes = 8 * PAGE, .faults = 1};
    struct ulms_engine *e = ulms_engine_new(&s);
    if (!e)
        return 0;
    *allocated = 0;
    for (uint64_t i = 0; i < PAGES; i += 100)
        *allocated += ulms_engine_allocated(e, BASE + i * PAGE, 100 * PAGE) ? 100 : 0;
    engine_check(e);
    uint64_t followed = 0, serials[8] = {0}, wait;
    for (uint64_t i = 0; i < OPS; i++) {
        uint64_t n = i % PERIOD, first = n * 37 % (PAGES - 40);
        struct ulms_engine_touch t = {BASE + first * PAGE, (1 + n % 40) * PAGE, 1 + n % 3};
        uint64_t serial = ulms_engine_issued(e, n, &t, 1);
        followed += serial != 0;
        for (int tries = 0; ulms_engine_admit(e, serial, tries > 3, &wait) == ULMS_HOLD; tries++) {
            CHECK(tries < 10);
            moves(e);
        }
        ulms_engine_retired(e, serials[i % 8], 0);
        serials[i % 8] = serial;
        if (i % 500 == 0)
            engine_check(e);
    }
    engine_check(e);
    ulms_engine_free(e);
    return followed;
}

TEST(a_program_with_memory) {
    uint64_t pages = 0;
    for (size_t i = 0; i < ulms_policy_count(); i++)
        CHECK_EQ(program(ulms_policy(i)->name, &pages), OPS);
    CHECK_EQ(pages, PAGES);
}

#ifdef CAN_FAIL
TEST(any_one_allocation_fails) {
    for (size_t i = 0; i < ulms_policy_count(); i++) {
        uint64_t pages = 0, before = allocations;
        program(ulms_policy(i)->name, &pages);
        uint64_t n = allocations - before, lost = 0;
        CHECK(n > 20);
        for (uint64_t k = 1; k <= n; k += 1 + n / 60) {
            fails_from = allocations + k;
            fails_until = fails_from + 1;
            uint64_t followed = program(ulms_policy(i)->name, &pages);
            CHECK(allocations >= fails_from);
            lost += followed < OPS || pages < PAGES;
        }
        CHECK(lost > 0);
    }
}

TEST(all_later_allocations_fail) {
    for (size_t i = 0; i < ulms_policy_count(); i++)
        for (uint64_t k = 1; k <= 60; k++) {
            uint64_t pages = 0;
            fails_from = allocations + k;
            fails_until = UINT64_MAX;
            program(ulms_policy(i)->name, &pages);
            fails_until = 0;
        }
}
#endif
