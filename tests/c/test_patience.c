/* How long waits last, and what is owed for those in vain. */
#include "base/patience.h"

#include <time.h>

#include "test.h"

enum { MS = 1000000 };

static void pass(long ms) {
    nanosleep(&(struct timespec){0, ms * MS}, NULL);
}

/* So long would a wish last that begins now. */
static uint64_t allowed(void) {
    struct patience wish = {0};
    return patience_left(&wish, 0);
}

TEST(what_was_waited_in_vain_is_owed) {
    struct patience in_vain = {.most_ns = 100 * MS};
    while (patience_left(&in_vain, 0) > 0)
        pass(10);
    CHECK(allowed() >= PATIENCE_NS - 100 * MS);
    CHECK(allowed() < PATIENCE_NS - 50 * MS);
}

/* As on a machine with more to do than processors. */
TEST(a_look_owes_no_more_than_it_was_to_last) {
    struct patience look = {.most_ns = 1};
    CHECK(patience_left(&look, 0) > 0);
    pass(200);
    CHECK_EQ(patience_left(&look, 0), 0);
    CHECK(allowed() > PATIENCE_NS - 100 * MS);
}
