/* A map from keys to pointers. */
#include "base/hash.h"

#include <stdlib.h>

#include "test.h"

enum { MANY = 1000 };
static struct hash h;
static int values[MANY];

static void fill(void) {
    for (uint64_t i = 0; i < MANY; i++)
        CHECK(!hash_put(&h, i + 1, &values[i], NULL));
}

TEST(what_is_put_is_got_until_it_is_taken) {
    fill();
    for (uint64_t i = 0; i < MANY; i += 2)
        CHECK(hash_take(&h, i + 1) == &values[i]);
    for (uint64_t i = 0; i < MANY; i++)
        CHECK(hash_get(&h, i + 1) == (i % 2 ? &values[i] : NULL));
    CHECK_EQ(h.count, MANY / 2);
}

TEST(what_replaces_another_gives_it_back_and_needs_no_room) {
    fill();
    size_t capacity = h.capacity;
    while (4 * (h.count + 1) <= 3 * h.capacity) /* one more key would make it larger */
        hash_put(&h, MANY + h.count + 1, values, NULL);
    bool stored = false;
    CHECK(hash_put(&h, 7, &values[0], &stored) == &values[6]);
    CHECK(stored);
    CHECK_EQ(h.capacity, capacity);
}

static bool is_behind(const void *value, const void *data) {
    return (const int *)value >= (const int *)data;
}

TEST(all_that_are_wanted_are_taken_and_no_other) {
    fill();
    for (int n = 0; n < 100; n++)
        CHECK((int *)hash_take_any(&h, is_behind, &values[MANY - 100]) >= &values[MANY - 100]);
    CHECK(!hash_take_any(&h, is_behind, &values[MANY - 100]));
    CHECK_EQ(h.count, MANY - 100);
    for (uint64_t i = 0; i < MANY - 100; i++)
        CHECK(hash_get(&h, i + 1) == &values[i]);
}
