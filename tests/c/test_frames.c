/* Frames: who gets which, and what claims are worth; then random calls, with a memory that refuses some. */
#include "frames/frames.h"

#include <pthread.h>
#include <sched.h>

#include "base/bits.h"
#include "base/page.h"
#include "test.h"

enum { FRAMES = 24, PAGES = 40, STEPS = 30000 };

static struct ulms_frames pool;
static struct frames_limit limit = FRAMES_LIMIT_NONE;
static bool has_memory[FRAMES], refuses;

static uint64_t below(uint64_t n) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}

static size_t make(void *own, uint32_t first, size_t n) {
    CHECK(own == &pool);
    size_t made = refuses && below(4) == 0 ? below(n + 1) : n;
    for (size_t i = first; i < first + made; i++) {
        CHECK(!has_memory[i]);
        has_memory[i] = true;
    }
    return made;
}

static bool unmake(void *own, uint32_t first, size_t n) {
    CHECK(own == &pool);
    if (refuses && below(4) == 0)
        return false;
    for (size_t i = first; i < first + n; i++) {
        CHECK(has_memory[i]);
        has_memory[i] = false;
    }
    return true;
}

static void open_pool(void) {
    static const struct frames_memory memory = {make, unmake};
    CHECK(frames_open(&pool, FRAMES, &memory, &pool, &limit));
}

/* A page comes to a new frame, and leaves it. Its claim. */
static struct ulms_claim come_and_go(uint32_t *frame) {
    struct ulms_claim c = {.frame = NO_FRAME};
    CHECK(frames_take(&pool, frame, 1, false));
    ulms_frames_hold(&pool, *frame, PAGE_LEAST, &c);
    ulms_frames_give_stale(&pool, *frame, &c);
    return c;
}

/* What is nobody's goes first, then what is wanted again last. */
TEST(frames_are_taken_in_the_order_of_their_claims) {
    uint32_t a[4], b[4];
    struct ulms_claim c[4];
    open_pool();
    CHECK(frames_take(&pool, a, 4, false));
    for (int i = 0; i < 4; i++)
        ulms_frames_hold(&pool, a[i], (addr_t)i * PAGE_LEAST, &c[i]);
    ulms_frames_give_stale(&pool, a[0], &c[0]);
    ulms_frames_give(&pool, &a[1], 1);
    ulms_frames_give_stale(&pool, a[3], &c[3]);
    ulms_frames_give_stale(&pool, a[2], &c[2]);
    CHECK(frames_take(&pool, b, 4, false));
    CHECK_EQ(b[0], a[1]);
    CHECK_EQ(b[1], a[3]);
    CHECK_EQ(b[2], a[2]);
    CHECK_EQ(b[3], a[0]);
}

/* Whatever their claims; no larger gap is broken for a smaller one. */
TEST(neighbours_go_together) {
    uint32_t a[8], b[3];
    struct ulms_claim c;
    open_pool();
    CHECK(frames_take(&pool, a, 8, true));
    for (int i = 1; i < 8; i++)
        CHECK_EQ(a[i], a[0] + i);
    ulms_frames_hold(&pool, a[1], PAGE_LEAST, &c);
    ulms_frames_give_stale(&pool, a[1], &c);
    ulms_frames_give(&pool, &a[2], 2); /* 1 to 3 */
    ulms_frames_give(&pool, &a[5], 1);
    ulms_frames_give(&pool, &a[7], 1);
    CHECK(frames_take(&pool, b, 1, true));
    CHECK_EQ(b[0], a[5]);
    CHECK(frames_take(&pool, b, 2, true));
    CHECK_EQ(b[0], a[1]);
    CHECK_EQ(b[1], a[2]);
    CHECK(frames_take(&pool, b, 2, true)); /* there are none */
    CHECK_EQ(b[0] + b[1], a[3] + a[7]);
    CHECK_EQ(pool.free, 0);
}

TEST(a_claim_holds_while_the_frame_is_idle) {
    uint32_t a, b;
    open_pool();
    struct ulms_claim c = come_and_go(&a), other = {.frame = NO_FRAME};
    CHECK_EQ(c.frame, a);
    CHECK_EQ(ulms_frames_holder(&pool, &c), 0);
    CHECK(frames_reclaim(&pool, &c, true));
    CHECK_EQ(c.frame, a);
    CHECK_EQ(pool.free, 0);
    CHECK(!frames_reclaim(&pool, &c, true)); /* it has none any more */
    ulms_frames_hold(&pool, a, PAGE_LEAST, &c);
    ulms_frames_give_stale(&pool, a, &c);
    CHECK(frames_take(&pool, &b, 1, false) && b == a);
    ulms_frames_hold(&pool, b, 7 * PAGE_LEAST, &other);
    CHECK_EQ(ulms_frames_holder(&pool, &c), 7 * PAGE_LEAST);
    CHECK_EQ(ulms_frames_holder(&pool, &other), 0); /* who has a frame has no claim */
    CHECK(!frames_reclaim(&pool, &c, true));
    CHECK_EQ(c.frame, NO_FRAME);
    ulms_frames_give_stale(&pool, b, &other);
    CHECK(!frames_reclaim(&pool, &other, false));
    CHECK_EQ(pool.free, 1);
    CHECK(!frames_reclaim(&pool, &other, true));
}

TEST(so_many_claims_are_remembered) {
    uint32_t a, b;
    struct ulms_claim c[FRAMES_CLAIMS + 1];
    open_pool();
    for (int i = 0; i <= FRAMES_CLAIMS; i++)
        c[i] = come_and_go(&a);
    CHECK_EQ(pool.made, 1);
    CHECK(!frames_reclaim(&pool, &c[FRAMES_CLAIMS], true));
    CHECK(frames_reclaim(&pool, &c[0], true));
    ulms_frames_give(&pool, &a, 1);
    frames_trim(&pool, 0);
    CHECK(frames_take(&pool, &b, 1, false) && a == b); /* other memory by the same number */
    ulms_frames_give(&pool, &b, 1);
    CHECK(!frames_reclaim(&pool, &c[1], true));
}

TEST(what_was_given_back_is_void_for_who_was_stale_there) {
    uint32_t a[3];
    struct ulms_claim c[3], more[FRAMES_CLAIMS];
    open_pool();
    CHECK(frames_take(&pool, a, 3, true));
    for (int i = 0; i < 3; i++)
        ulms_frames_hold(&pool, a[i], (addr_t)i * PAGE_LEAST, &c[i]);
    ulms_frames_give_stale(&pool, a[0], &c[0]);
    ulms_frames_give_stale(&pool, a[2], &c[2]);
    for (int i = 0; i < FRAMES_CLAIMS; i++) { /* one more than are remembered */
        CHECK(frames_take(&pool, &a[2], 1, false));
        ulms_frames_hold(&pool, a[2], PAGE_LEAST, &more[i]);
        ulms_frames_give_stale(&pool, a[2], &more[i]);
    }
    CHECK(frames_lingering(&pool) == 0);
    frames_trim(&pool, 2 * PAGE_LEAST); /* one of two that are idle */
    CHECK(frames_lingering(&pool) == 1);
    frames_left(&pool, 3);
    CHECK(frames_lingering(&pool) == 0);
    uint32_t gone = c[2].frame;
    CHECK(gone != c[0].frame);
    CHECK(frames_claim_is_void(&pool, &c[2]));
    CHECK(!frames_claim_is_void(&pool, &c[0]));
    for (int i = 0; i < FRAMES_CLAIMS; i++)
        CHECK_EQ(frames_claim_is_void(&pool, &more[i]), more[i].frame == gone);
    CHECK(frames_take(&pool, a, 2, false)); /* the idle one, and other memory by the same number */
    struct ulms_claim again;
    ulms_frames_hold(&pool, gone, PAGE_LEAST, &again);
    ulms_frames_give_stale(&pool, gone, &again);
    CHECK(!frames_claim_is_void(&pool, &again));
    CHECK(frames_claim_is_void(&pool, &c[2]));
    CHECK(!frames_claim_is_void(&pool, &c[0]));
}

/* By page: its frame while it is there, and its claim. */
static struct {
    uint32_t frame;
    struct ulms_claim claim;
} page[PAGES];

static void come(size_t first, size_t n) {
    struct ulms_claim *claims[PAGES] = {0};
    uint32_t out[PAGES];
    for (size_t i = 0; i < n; i++)
        claims[i] = &page[first + i].claim;
    bool enough = ulms_frames_come(&pool, claims, out, n, (int)below(2));
    for (size_t i = 0; i < n; i++) {
        CHECK(!enough || (out[i] != NO_FRAME && has_memory[out[i]]));
        if (!enough && out[i] != NO_FRAME) /* its own */
            ulms_frames_give(&pool, &out[i], 1);
        else if (enough)
            ulms_frames_hold(&pool, page[first + i].frame = out[i], first + i + 1, &page[first + i].claim);
    }
}

static void leave(size_t i, bool stale) {
    if (stale)
        ulms_frames_give_stale(&pool, page[i].frame, &page[i].claim);
    else
        ulms_frames_give(&pool, &page[i].frame, 1);
    page[i].frame = NO_FRAME;
}

static bool make_one(void *own, uint32_t frame, size_t n) {
    return make(own, frame, n) == n;
}

static void use_once(void) {
    uint32_t frame = frames_make_once(&pool, make_one, 1);
    if (frame == NO_FRAME)
        return;
    CHECK(has_memory[frame]);
    bool refused = refuses;
    refuses = false;
    ulms_frames_give(&pool, &frame, 1);
    refuses = refused;
    CHECK(!has_memory[frame]);
}

static void check(void) {
    bool used[FRAMES] = {0};
    frames_check(&pool);
    for (size_t i = 0; i < PAGES; i++) {
        uint32_t frame = page[i].frame;
        CHECK(frame == NO_FRAME || (!used[frame] && has_memory[frame] && !bits_has(pool.idle, frame)));
        used[frame == NO_FRAME ? 0 : frame] |= frame != NO_FRAME;
        addr_t holder = ulms_frames_holder(&pool, &page[i].claim);
        CHECK(!holder || (page[holder - 1].frame == page[i].claim.frame && holder != i + 1));
    }
}

TEST(no_two_pages_have_a_frame_whatever_is_refused) {
    open_pool();
    for (size_t i = 0; i < PAGES; i++)
        page[i].frame = NO_FRAME;
    for (int step = 0; step < STEPS; step++) {
        size_t first = below(PAGES), n = 0;
        refuses = step % 1000 < 500;
        if (below(10) == 0)
            use_once();
        else if (below(20) == 0)
            frames_trim(&pool, below(FRAMES) * page_bytes);
        else if (page[first].frame != NO_FRAME)
            leave(first, below(2));
        else {
            for (; n < 4 && first + n < PAGES && page[first + n].frame == NO_FRAME;)
                n++;
            come(first, n);
        }
        check();
    }
}

static _Atomic bool makes, goes_on;

static size_t make_slowly(void *own, uint32_t first, size_t n) {
    makes = true;
    while (!goes_on)
        sched_yield();
    return make(own, first, n);
}

static void *make_ahead(void *unused) {
    CHECK(frames_make_ahead(&pool, 2 * page_bytes));
    return unused;
}

/* Whoever finds none while another thread makes some, or gives one, may look again. */
TEST(none_now_is_told_from_none_at_all) {
    static const struct frames_memory slow = {make_slowly, unmake};
    uint32_t a[2];
    pthread_t maker;
    frames_limit_set(&limit, 2 * page_bytes);
    CHECK(frames_open(&pool, FRAMES, &slow, &pool, &limit));
    uint64_t given = frames_given(&pool);
    CHECK(pthread_create(&maker, NULL, make_ahead, NULL) == 0);
    while (!makes)
        sched_yield();
    CHECK(!frames_take(&pool, a, 1, false) && frames_may_come(&pool, given));
    goes_on = true;
    pthread_join(maker, NULL);
    CHECK(frames_may_come(&pool, given));
    CHECK(frames_take(&pool, a, 2, false));
    given = frames_given(&pool);
    CHECK(!frames_take(&pool, a, 1, false) && !frames_may_come(&pool, given));
    ulms_frames_give(&pool, a, 1);
    CHECK(frames_may_come(&pool, given));
    given = frames_given(&pool);
    frames_trim(&pool, 0);
    CHECK(frames_may_come(&pool, given));
}
