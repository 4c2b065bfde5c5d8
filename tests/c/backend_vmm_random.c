/* Random moves of the remapping backend, with calls of the driver that fail, on the emulated device: whatever is mapped
 * at a page, its content is found where the page says that it lies, and no frame is at two pages that may be used. */
#include "base/bits.h"
#include "vmm_moves.h"

enum { RANGES = 3, STEPS = 1500 };

static struct vmm_range *ranges[RANGES];
static unsigned content[RANGES][PAGES]; /* 0: nobody wants it */
static bool dirty[RANGES][PAGES];       /* written since it came */
static unsigned written;
static uint64_t chance;

static unsigned draw(unsigned n) {
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(chance >> 33) % n;
}

static void write_at(addr_t page, unsigned value) {
    OK(cuMemsetD32_v2(page, value, 1));
    OK(cuMemsetD32_v2(page + PAGE_LEAST - 4, value, 1));
    OK(cuCtxSynchronize());
}

static unsigned read_at(addr_t page) {
    unsigned first, last;
    OK(cuMemcpyDtoH_v2(&first, page, 4));
    OK(cuMemcpyDtoH_v2(&last, page + PAGE_LEAST - 4, 4));
    CHECK_EQ(first, last);
    return first;
}

static bool is_usable(const struct vmm_page *p) {
    return p->at == VMM_DEVICE || p->at == VMM_HOST;
}

static void is_where_it_lies(int range, size_t i) {
    const struct vmm_page *p = &ranges[range]->page[i];
    addr_t page = ranges[range]->start + i * PAGE_LEAST;
    CHECK(p->at != VMM_UNMAPPED);
    if (is_usable(p)) {
        CHECK(p->frame[p->at] != NO_FRAME);
        if (content[range][i]) {
            CHECK_EQ(read_at(page), content[range][i]);
            CHECK_EQ(read_at(vmm_page_alias(&v, p, (enum vmm_place)p->at)), content[range][i]);
        }
        return;
    }
    CHECK(vmm_page_is_vacant(p));
    CHECK_EQ(p->frame[VMM_DEVICE], NO_FRAME);
    CHECK(p->frame[VMM_HOST] != NO_FRAME);
    if (content[range][i]) {
        CHECK(p->filled);
        CHECK_EQ(read_at(vmm_page_alias(&v, p, VMM_HOST)), content[range][i]);
    }
}

/* Each frame is idle, a page's, or the placeholder. */
static void frames_add_up(void) {
    for (int place = 0; place < VMM_PLACES; place++) {
        const struct ulms_frames *f = &v.pool[place].frames;
        uint8_t users[64] = {0};
        size_t used = 0;
        for (int range = 0; range < RANGES; range++)
            for (size_t i = 0; i < PAGES; i++) {
                uint32_t frame = ranges[range]->page[i].frame[place];
                used += frame != NO_FRAME;
                if (frame != NO_FRAME)
                    CHECK_EQ(users[frame]++, 0);
            }
        if (v.placeholder.there && v.placeholder.place == (enum vmm_place)place) {
            used++;
            CHECK_EQ(users[v.placeholder.frame]++, 0);
        }
        for (uint32_t i = 0; i < f->capacity; i++)
            CHECK(!users[i] || !bits_has(f->idle, i));
        CHECK_EQ(used + f->free, f->made);
        frames_check(&v.pool[place].frames);
    }
}

static void all_is_right(void) {
    size_t parked = 0;
    for (int range = 0; range < RANGES; range++)
        for (size_t i = 0; i < PAGES; i++) {
            is_where_it_lies(range, i);
            parked += ranges[range]->page[i].at == VMM_PLACEHOLDER;
        }
    CHECK_EQ(v.placeholder.pages, parked);
    CHECK_EQ(v.placeholder.there, parked > 0);
    frames_add_up();
}

static struct vmm_move drawn(int range) {
    size_t first = draw(PAGES), n = 1 + draw((unsigned)(PAGES - first));
    bool out = draw(2), clean = true;
    for (size_t i = first; i < first + n; i++)
        clean = clean && !dirty[range][i];
    struct vmm_move m = {.start = ranges[range]->start + first * PAGE_LEAST,
                         .bytes = n * PAGE_LEAST,
                         .to = out ? VMM_HOST : VMM_DEVICE,
                         .copy = !out || draw(4),
                         .clean = clean && draw(2),
                         .keep = !out && draw(2)};
    unsigned way = out ? draw(4) : 0;
    m.stale = way == 1;
    m.parks = way > 1;
    return m;
}

/* Some moves of different ranges, in one. */
static void move_some(void) {
    struct vmm_move m[RANGES];
    size_t n = 1 + draw(RANGES);
    for (size_t i = 0; i < n; i++)
        do
            m[i] = drawn((int)i);
        while (m[i].to != m[0].to || m[i].stale != m[0].stale || m[i].parks != m[0].parks);
    for (size_t k = 0; k < n; k++)
        for (size_t i = (m[k].start - ranges[k]->start) / PAGE_LEAST, end = i + m[k].bytes / PAGE_LEAST; i < end; i++)
            if (ranges[k]->page[i].at == VMM_DEVICE && !m[k].copy)
                content[k][i] = 0;
    vmm_move(&v, m, n, NULL, NULL, NULL);
    for (size_t k = 0; k < n; k++)
        for (size_t i = (m[k].start - ranges[k]->start) / PAGE_LEAST, end = i + m[k].bytes / PAGE_LEAST; i < end; i++)
            dirty[k][i] = dirty[k][i] && ranges[k]->page[i].at == VMM_DEVICE && m[k].to == VMM_HOST;
}

static void write_some(void) {
    int range = (int)draw(RANGES);
    size_t i = draw(PAGES);
    if (!is_usable(&ranges[range]->page[i]))
        vmm_range_map_stale(&v, ranges[range], i, 1);
    write_at(ranges[range]->start + i * PAGE_LEAST, ++written);
    content[range][i] = written;
    dirty[range][i] = true;
}

static void make_usable(void) {
    size_t first = draw(PAGES), n = 1 + draw((unsigned)(PAGES - first));
    vmm_range_map_stale(&v, ranges[draw(RANGES)], first, n);
}

static void renew(void) {
    unsigned range = draw(RANGES);
    range_delete(ranges[range]);
    emu_fail(NULL);
    CHECK((ranges[range] = range_new(BYTES, draw(2), 0)));
    memset(content[range], 0, sizeof content[range]);
    memset(dirty[range], 1, sizeof dirty[range]);
}

/* Two calls: what takes back a refused one may be refused, too. */
static void fail_some(void) {
    static const char *const calls[] = {"cuMemCreate",  "cuMemMap",      "cuMemSetAccess",     "cuMemUnmap",
                                        "cuMemRelease", "cuMemcpyAsync", "cuStreamSynchronize"};
    enum { CALLS = sizeof calls / sizeof *calls };
    char text[96];
    snprintf(text, sizeof text, "%s:after=%u,%s:after=%u", calls[draw(CALLS)], draw(8), calls[draw(CALLS)], draw(8));
    CHECK(emu_fail(text) == 0);
}

static void run(uint64_t seed, bool fails) {
    chance = seed;
    setenv("EMU_MEMORY", "96MiB", 1);
    open_device(2 * RANGES * BYTES);
    for (int range = 0; range < RANGES; range++) {
        CHECK((ranges[range] = range_new(BYTES, true, 0)));
        memset(dirty[range], 1, sizeof dirty[range]);
    }
    for (int step = 0; step < STEPS; step++) {
        unsigned what = draw(16);
        if (fails && draw(2) && what != 15)
            fail_some();
        if (what < 8)
            move_some();
        else if (what < 12)
            emu_fail(NULL), write_some();
        else if (what < 13)
            make_usable();
        else if (what < 15)
            frames_trim(&v.pool[VMM_DEVICE].frames, draw(2) ? 0 : BYTES);
        else
            renew();
        emu_fail(NULL);
        all_is_right();
    }
}

TEST(what_moves_is_found) {
    run(1, false);
}

TEST(what_moves_is_found_whatever_fails) {
    run(12, true);
}
