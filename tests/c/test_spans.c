#include "base/spans.h"
#include "test.h"

TEST(covers) {
    struct spans r = {0};
    CHECK_EQ(spans_cover(&r, 10, 20), 10);
    CHECK_EQ(spans_cover(&r, 30, 40), 10);
    CHECK_EQ(spans_cover(&r, 12, 18), 0);
    CHECK_EQ(spans_cover(&r, 20, 25), 5); /* meets one */
    CHECK_EQ(r.count, 2);
    CHECK_EQ(spans_cover(&r, 0, 50), 25);
    CHECK_EQ(r.count, 1);
    CHECK_EQ(spans_cover(&r, 0, 50), 0);
    free(r.at);
}
