/* Advice that memory keeps when it is freed, beside a table of what was freed last at each page. */
#include "backend/pager/pages.c"

#include "test.h"

enum { PAGES = 64, MOST = 6, STEPS = 200000 }; /* MOST: of one allocation */

/* Memory that was freed at [first, first + pages) and of which nobody has got anything since; 0: none. */
static struct {
    size_t pages;
    bool kept[MOST], in_place[MOST];
} freed[PAGES];

static size_t held[PAGES]; /* pages of the memory that begins there; 0: none */
static struct spans ranges, still_advised;
static uint64_t seed = 1;

static uint64_t below(uint64_t n) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (seed >> 33) % n;
}

static addr_t address(size_t page) {
    return (addr_t)(page + 1) * page_bytes;
}

static bool is_free(size_t first, size_t pages) {
    for (size_t i = 0; i < PAGES; i++)
        if (held[i] && i < first + pages && first < i + held[i])
            return false;
    return true;
}

static void allocate(size_t first, size_t pages) {
    struct pager_range *r = pager_range_add(&ranges, address(first), pages * page_bytes);
    CHECK((r != NULL) == is_free(first, pages));
    if (!r)
        return;
    pager_range_inherit_advice(&still_advised, r);
    for (size_t i = 0; i < pages; i++) {
        bool same = freed[first].pages == pages;
        CHECK_EQ(r->page[i].advice, same && freed[first].kept[i] ? ULMS_ADVICE_KEPT : 0);
        CHECK_EQ(r->page[i].in_place, same && freed[first].in_place[i]);
        CHECK(!r->page[i].died);
    }
    held[first] = pages;
    for (size_t i = 0; i < PAGES; i++)
        if (i < first + pages && first < i + freed[i].pages)
            freed[i].pages = 0;
}

static void give_back(size_t first) {
    struct pager_range *r = pager_range_take(&ranges, address(first));
    CHECK((r != NULL) == (held[first] > 0));
    if (!r)
        return;
    bool any = below(2);
    freed[first].pages = held[first];
    for (size_t i = 0; i < held[first]; i++) {
        freed[first].kept[i] = any && below(2);
        r->page[i].advice = freed[first].kept[i] ? ULMS_ADVICE_KEPT : ULMS_ADVICE_WRITTEN;
        freed[first].in_place[i] = r->page[i].in_place = any && below(3) == 0;
        r->page[i].died = true;
    }
    pager_range_remember_advice(&still_advised, r);
    held[first] = 0;
}

TEST(memory_given_out_as_it_was_has_the_advice_it_had) {
    for (int step = 0; step < STEPS; step++) {
        if (below(2))
            allocate(below(PAGES - MOST), 1 + below(MOST));
        else
            give_back(below(PAGES));
    }
    for (size_t i = 0; i < PAGES; i++)
        give_back(i);
    CHECK_EQ(ranges.count, 0);
    while (still_advised.count)
        free(pager_range_take(&still_advised, still_advised.at[0].start));
    free(ranges.at);
    free(still_advised.at);
}

TEST(a_page_lingers_until_it_is_used) {
    struct spans r = {0};
    CHECK(pager_range_add(&r, 8 * page_bytes, 4 * page_bytes) && pager_range_add(&r, 12 * page_bytes, page_bytes));
    for (addr_t p = 9; p < 13; p++)
        pager_page_at(&r, p * page_bytes)->lingers = true;
    CHECK_EQ(pager_pages_lingering(&r), 4 * page_bytes);
    pager_pages_used(&r, 11 * page_bytes + 1, 12 * page_bytes + 1);
    CHECK_EQ(pager_pages_lingering(&r), 2 * page_bytes);
    free(pager_range_take(&r, 8 * page_bytes));
    CHECK_EQ(pager_pages_lingering(&r), 0);
    free(pager_range_take(&r, 12 * page_bytes));
    free(r.at);
}
