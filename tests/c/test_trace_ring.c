#define _GNU_SOURCE
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "observe/crc.h"
#include "observe/ring.h"

TEST(crc_is_zlibs) {
    char text[100];
    CHECK_EQ(crc32_of("", 0), 0);
    CHECK_EQ(crc32_of("123456789", 9), 0xcbf43926); /* the check value of the CRC catalogues */
    memset(text, 'a', sizeof text);
    CHECK_EQ(crc32_of(text, sizeof text), 0xaf707a64);
}

/* Records of the test: first word their length in bytes, the others a running number. */
static bool put(struct ring *r, uint32_t bytes, uint64_t number, bool keep) {
    uint64_t *record = ring_fill(r, bytes, keep);
    if (!record)
        return false;
    CHECK_EQ((uintptr_t)record % 8, 0);
    record[0] = bytes;
    for (uint32_t i = 1; i < bytes / 8; i++)
        record[i] = number;
    ring_commit(r);
    return true;
}

/* Checks and takes what there is; returns the number of records. */
static uint64_t take_all(struct ring *r, uint64_t *number) {
    const unsigned char *data;
    uint64_t records = 0;
    for (size_t run, at = 0; (run = ring_peek(r, &data)); at = 0) {
        CHECK(data >= r->data && data + run <= r->data + RING_BYTES);
        while (at < run) {
            const uint64_t *record = (const uint64_t *)(data + at);
            CHECK(record[0] >= 16 && record[0] <= run - at);
            for (uint64_t i = 1; i < record[0] / 8; i++)
                CHECK_EQ(record[i], *number);
            at += record[0];
            ++*number;
            records++;
        }
        ring_drain(r, run);
    }
    return records;
}

static uint32_t some_bytes(unsigned *seed) {
    int kind = rand_r(seed) % 100;
    uint32_t most = kind == 0 ? RING_BYTES / 4 : kind < 10 ? 4096 : 128;
    return 16 + (uint32_t)rand_r(seed) % (most - 15) / 8 * 8;
}

TEST(records_of_all_sizes_through_many_laps) {
    unsigned seed = 1;
    struct ring *r = ring_take(1);
    uint64_t put_next = 0, take_next = 0, full = 0;
    while (r->head < 200ull * RING_BYTES) {
        if (!put(r, some_bytes(&seed), put_next, rand_r(&seed) % 2)) {
            full++;
            take_all(r, &take_next);
            CHECK_EQ(take_next, put_next);
        } else {
            put_next++;
            if (rand_r(&seed) % 50 == 0)
                take_all(r, &take_next);
        }
    }
    take_all(r, &take_next);
    CHECK_EQ(take_next, put_next);
    CHECK(full > 0);
    CHECK_EQ(r->lost, full);
}

/* The record that would end exactly at the end of the ring, and those around it. */
TEST(every_offset_near_the_end) {
    for (uint32_t left = 16; left <= 256; left += 8)
        for (uint32_t bytes = 16; bytes <= 256; bytes += 8) {
            uint64_t number = 0;
            struct ring *r = ring_take(1);
            r->head = r->tail = r->seen = (uint64_t)RING_BYTES - left;
            for (uint64_t i = 0; i < 20; i++)
                CHECK(put(r, bytes, i, true));
            CHECK_EQ(take_all(r, &number), 20);
            CHECK(put(r, bytes, 20, true));
            CHECK_EQ(take_all(r, &number), 1);
            CHECK_EQ(ring_peek(r, &(const unsigned char *){0}), 0);
            r->state = RING_FREE;
        }
}

TEST(a_full_ring_drops_and_keeps_its_reserve) {
    struct ring *r = ring_take(1);
    uint64_t n = 0, number = 0, kept = 0;
    while (put(r, 128, n, false))
        n++;
    CHECK(n * 128 > RING_BYTES - RING_RESERVE - 256);
    CHECK(n * 128 <= RING_BYTES - RING_RESERVE);
    CHECK_EQ(r->lost, 1);
    CHECK(!put(r, 128, n, false));
    CHECK_EQ(r->lost, 2);
    for (; put(r, 128, n, true); n++)
        kept++;
    CHECK(kept * 128 >= RING_RESERVE - 256);
    CHECK_EQ(r->lost, 3);
    take_all(r, &number);
    CHECK_EQ(number, n);
    CHECK(put(r, 128, n, false));
}

TEST(half_full_asks_for_the_writer) {
    struct ring *r = ring_take(1);
    for (uint32_t bytes = 0; bytes <= RING_BYTES / 2; bytes += 1024) {
        CHECK(ring_fill(r, 1024, false));
        CHECK_EQ(ring_commit(r), bytes + 1024 > RING_BYTES / 2);
    }
}

TEST(rings_pass_on_and_are_bounded) {
    struct ring *first = ring_take(7), *r;
    CHECK_EQ(first->thread, 7);
    for (int i = 1; i < RINGS_MAX; i++)
        CHECK(ring_take(8) != NULL);
    CHECK(ring_take(9) == NULL);
    ring_leave(first);
    CHECK(ring_take(9) == NULL); /* what is in it is not written yet */
    first->state = RING_FREE;
    CHECK(ring_take(10) == first);
    CHECK_EQ(first->thread, 10);
    int n = 0;
    for (r = ring_first(); r; r = r->next_ring)
        n++;
    CHECK_EQ(n, RINGS_MAX);
}

enum { RECORDS = 300000 };
static bool done;

static void *owner(void *ring) {
    unsigned seed = 2;
    uint64_t number = 0;
    while (number < RECORDS)
        if (put(ring, some_bytes(&seed) % 2048 + 16, number, false))
            number++;
        else
            sched_yield();
    __atomic_store_n(&done, true, __ATOMIC_RELEASE);
    return NULL;
}

TEST(one_thread_fills_while_another_drains) {
    struct ring *r = ring_take(1);
    uint64_t number = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, owner, r);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        if (take_all(r, &number) == 0)
            sched_yield();
    pthread_join(thread, NULL);
    take_all(r, &number);
    CHECK_EQ(number, RECORDS);
}
