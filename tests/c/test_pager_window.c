/* Operations that have not retired, of a pager, beside a list that keeps all that ever were. */
#include "backend/pager/window.c"

#include "test.h"

enum { MOST = 5000, STEPS = 40000 };

static struct {
    uint64_t serial; /* 0: the engine does not know it */
    bool marked, retired;
} model[MOST + 1];

static uint64_t seed = 1;

static uint64_t below(uint64_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % n;
}

static CUevent event_of(uint64_t ticket) {
    return (CUevent)(uintptr_t)(ticket * 64);
}

static void check(const struct pager_window *w, uint64_t count) {
    uint64_t ticket = 1 + below(count), oldest = 1;
    struct pager_operation o = pager_window_find(w, model[ticket].serial);
    while (oldest <= count && model[oldest].retired)
        oldest++;
    CHECK_EQ(w->oldest, oldest);
    CHECK_EQ(w->next, count + 1);
    if (!model[ticket].serial)
        return;
    if (model[ticket].retired) { /* its event may be another's by now */
        CHECK_EQ(o.stage, PAGER_RETIRED);
        CHECK(!o.event);
    } else {
        CHECK_EQ(o.stage, model[ticket].marked ? PAGER_MARKED : PAGER_ISSUED);
        CHECK(o.event == (model[ticket].marked ? event_of(ticket) : NULL));
    }
}

TEST(tickets_are_given_marked_and_retired_in_any_order) {
    struct pager_window w = {0};
    uint64_t count = 0, serial = 0;
    CHECK_EQ(pager_window_find(&w, 1).stage, PAGER_RETIRED);
    for (int step = 0; step < STEPS; step++) {
        uint64_t ticket = count ? 1 + below(count) : 0;
        if (count < MOST && below(3) == 0) {
            serial += 1 + below(2); /* serials of other devices' operations lie between */
            model[++count].serial = below(4) ? serial : 0;
            CHECK_EQ(pager_window_issue(&w, model[count].serial), count);
        } else if (ticket && !model[ticket].retired && !model[ticket].marked) {
            pager_window_mark(&w, ticket, event_of(ticket));
            model[ticket].marked = true;
        } else if (ticket && !model[ticket].retired) {
            CHECK_EQ(pager_window_retire(&w, ticket), model[ticket].serial);
            model[ticket].retired = true;
        } else if (ticket) {
            CHECK_EQ(pager_window_retire(&w, ticket), 0); /* once is enough */
        }
        if (count)
            check(&w, count);
    }
    CHECK_EQ(count, MOST);
    free(w.ring);
}

TEST(too_many_are_refused) {
    struct pager_window w = {0};
    for (uint64_t n = 1; n <= WINDOW_MAX; n++)
        CHECK_EQ(pager_window_issue(&w, n), n);
    CHECK_EQ(pager_window_issue(&w, WINDOW_MAX + 1), 0);
    pager_window_retire(&w, 1);
    CHECK_EQ(pager_window_issue(&w, WINDOW_MAX + 1), WINDOW_MAX + 1);
    free(w.ring);
}

TEST(one_that_is_shared_retires_with_the_last_of_its_shares) {
    struct pager_window w = {0};
    uint64_t ticket = pager_window_issue(&w, 7);
    CHECK(pager_window_share(&w, ticket, 1));
    CHECK(pager_window_share(&w, ticket, 1));
    CHECK_EQ(pager_window_retire(&w, ticket), 0);
    CHECK_EQ(pager_window_retire(&w, ticket), 0);
    CHECK_EQ(w.oldest, ticket);
    CHECK_EQ(pager_window_retire(&w, ticket), 7);
    CHECK_EQ(w.oldest, ticket + 1);
    CHECK(!pager_window_share(&w, ticket, 1));
    CHECK(!pager_window_share(&w, ticket + 1, 1));
    CHECK(!pager_window_share(&w, 0, 1));
    free(w.ring);
}

TEST(opaque_ones_count_until_they_have_retired) {
    struct pager_window w = {0};
    uint64_t before = pager_window_issue(&w, 1), opaque = pager_window_issue(&w, 2), lost = w.next;
    pager_window_set_opaque(&w, opaque);
    pager_window_set_opaque(&w, opaque);
    pager_window_set_opaque(&w, lost);
    CHECK_EQ(w.opaque, 1);
    CHECK_EQ(pager_window_retire(&w, opaque), 2);
    CHECK_EQ(w.opaque, 0);
    CHECK_EQ(w.oldest, before);
    CHECK_EQ(pager_window_issue(&w, 3), lost);
    CHECK_EQ(pager_window_retire(&w, lost), 3);
    CHECK_EQ(w.opaque, 0);
    free(w.ring);
}
