#define _GNU_SOURCE
#include "test.h"

#include <sys/mman.h>

#include "cubin.h"
#include "launch/image.h"

static struct layout layout; /* large */

static const uint32_t mixed[] = {1, 8, 2, 40, 4, 0}, large[] = {4, 17600, 8, 0}, none[] = {0}, two[] = {8, 8, 0};

static bool tells(const struct bytes *b, const char *kernel) {
    struct image *i = image_read(b->at, b->count);
    memset(&layout, 0, sizeof layout);
    bool told = i && image_layout(i, kernel, &layout);
    image_free(i);
    CHECK_EQ(layout.known, told);
    return told;
}

static void check_parameter(uint32_t i, uint16_t offset, uint16_t size) {
    CHECK_EQ(layout.offset[i], offset);
    CHECK_EQ(layout.size[i], size);
}

static void check_mixed(void) {
    CHECK_EQ(layout.parameters, 5);
    check_parameter(0, 0, 1);
    check_parameter(1, 8, 8);
    check_parameter(2, 16, 2);
    check_parameter(3, 24, 40);
    check_parameter(4, 64, 4);
}

static struct bytes three_kernels(bool counted) {
    struct cubin_parts c = cubin_begin();
    cubin_section(&c, ".nv.info", "whole", 5);
    cubin_attributes(&c, "mixed", info_of(mixed));
    cubin_section(&c, ".text.mixed", NULL, 640);
    cubin_attributes(&c, "large", info_of(large));
    cubin_attributes(&c, "none", info_of(none));
    return cubin_end(&c, counted);
}

TEST(cubin) {
    for (int counted = 0; counted < 2; counted++) {
        struct bytes b = three_kernels(counted);
        CHECK(tells(&b, "mixed"));
        check_mixed();
        CHECK(tells(&b, "large"));
        CHECK_EQ(layout.parameters, 3);
        check_parameter(1, 8, 17600);
        check_parameter(2, 17608, 8);
        CHECK(tells(&b, "none"));
        CHECK_EQ(layout.parameters, 0);
        CHECK(!tells(&b, "mixe"));
        CHECK(!tells(&b, "mixed2"));
        CHECK(!tells(&b, ""));
        free(b.at);
    }
}

TEST(cubin_of_unknown_size) {
    struct bytes b = three_kernels(true);
    struct image *i = image_read(b.at, CODE_UNSIZED);
    CHECK(i && image_layout(i, "mixed", &layout));
    check_mixed();
    image_free(i);
    free(b.at);
}

/* A kernel whose attributes are not as they should be is not known; its neighbour is. */
static bool tells_with(struct bytes info) {
    struct cubin_parts c = cubin_begin();
    cubin_attributes(&c, "before", info_of(two));
    cubin_attributes(&c, "k", info);
    cubin_attributes(&c, "behind", info_of(two));
    struct bytes b = cubin_end(&c, true);
    CHECK(tells(&b, "before") && tells(&b, "behind"));
    bool told = tells(&b, "k");
    free(b.at);
    return told;
}

struct told {
    uint8_t code;
    uint16_t ordinal, offset;
    uint32_t size;
};

static struct bytes info_told(const struct told *t, size_t n, int total) {
    struct bytes info = {0};
    for (size_t i = 0; i < n; i++)
        info_parameter(&info, t[i].code, t[i].ordinal, t[i].offset, t[i].size);
    if (total >= 0)
        info_value(&info, 3, ATTRIBUTE_TOTAL, (uint16_t)total);
    return info;
}

#define TELLS(total, ...)                                                                                              \
    tells_with(info_told((const struct told[]){__VA_ARGS__},                                                           \
                         sizeof((const struct told[]){__VA_ARGS__}) / sizeof(struct told), total))

TEST(layouts_must_be_complete) {
    enum { P = ATTRIBUTE_PARAMETER, L = ATTRIBUTE_LARGE_PARAMETER };
    CHECK(TELLS(16, {P, 1, 8, 8}, {P, 0, 0, 8}));
    CHECK(TELLS(16, {P, 0, 0, 8}, {L, 1, 8, 8}));
    CHECK(!TELLS(24, {P, 1, 8, 8}, {P, 0, 0, 8}));  /* the last is not told */
    CHECK(!TELLS(24, {P, 2, 16, 8}, {P, 0, 0, 8})); /* the middle is not */
    CHECK(!TELLS(16, {P, 1, 8, 8}));                /* the first is not */
    CHECK(!TELLS(-1, {P, 1, 8, 8}, {P, 0, 0, 8}));  /* nor the total */
    CHECK(!TELLS(16, {P, 1, 4, 12}, {P, 0, 0, 8})); /* they overlap */
    CHECK(!TELLS(16, {P, 0, 8, 8}, {P, 0, 0, 8}));  /* one told twice */
    CHECK(!TELLS(8, {P, 1, 8, 0}, {P, 0, 0, 8}));   /* one without bytes */
    CHECK(!TELLS(8, {P, 40000, 8, 8}, {P, 0, 0, 8}));
    CHECK(!TELLS(4, {L, 0, 0, 65540})); /* 65 536 more than the total can say */
    CHECK(!tells_with(info_told(NULL, 0, 8)));
}

TEST(attributes_must_make_sense) {
    struct bytes info = info_of(two);
    info_value(&info, 4, 0x1c, 8); /* with 8 bytes behind it that are not there */
    CHECK(!tells_with(info));
    info = info_of(two);
    info_value(&info, 5, 0x1c, 0);
    CHECK(!tells_with(info));
    info = info_of(two);
    info_value(&info, 4, ATTRIBUTE_PARAMETER, 0); /* too short for a parameter */
    CHECK(!tells_with(info));
    info = info_of(two);
    bytes_add(&info, "\3\33", 2, false);
    CHECK(!tells_with(info));
}

TEST(fat_binary) {
    struct bytes a = cubin_of("a", mixed), b = cubin_of("b", two), fat = fat_begin();
    fat_add(&fat, ENTRY_PTX, "//\n.version 8.0\n", 16);
    fat_add(&fat, ENTRY_CUBIN, a.at, a.count);
    fat_add(&fat, ENTRY_CUBIN, "\x28\xb5\x2f\xfd compressed", 15);
    fat_add(&fat, ENTRY_CUBIN, b.at, b.count);
    CHECK(tells(&fat, "a"));
    check_mixed();
    CHECK(tells(&fat, "b"));
    CHECK_EQ(layout.parameters, 2);

    struct {
        uint32_t magic, version;
        const void *fat;
        void *more;
    } wrapper = {0x466243b1, 1, fat.at, NULL};
    struct image *i = image_read(&wrapper, CODE_UNSIZED);
    CHECK(i && image_layout(i, "b", &layout));
    image_free(i);
    wrapper.fat = &wrapper;
    CHECK_EQ(image_read(&wrapper, CODE_UNSIZED), NULL);
    wrapper.fat = NULL;
    CHECK_EQ(image_read(&wrapper, CODE_UNSIZED), NULL);
    free(a.at);
    free(b.at);
    free(fat.at);
}

/* Code for several devices: of a kernel they should tell the same. */
TEST(cubins_that_disagree) {
    struct bytes a = cubin_of("k", two), b = cubin_of("k", mixed), c = cubin_of("other", mixed), fat = fat_begin();
    fat_add(&fat, ENTRY_CUBIN, a.at, a.count);
    fat_add(&fat, ENTRY_CUBIN, c.at, c.count);
    fat_add(&fat, ENTRY_CUBIN, a.at, a.count);
    CHECK(tells(&fat, "k"));
    CHECK_EQ(layout.parameters, 2);
    fat_add(&fat, ENTRY_CUBIN, b.at, b.count);
    fat_add(&fat, ENTRY_CUBIN, b.at, b.count);
    CHECK(!tells(&fat, "k"));
    CHECK(tells(&fat, "other"));
    free(a.at);
    free(b.at);
    free(c.at);
    free(fat.at);
}

TEST(nothing_is_read_past_the_size) {
    struct bytes b = three_kernels(true), fat = fat_begin();
    fat_add(&fat, ENTRY_CUBIN, b.at, b.count);
    struct bytes shorter = {b.at, b.count - 1}, shorter_fat = {fat.at, fat.count - 1};
    CHECK(tells(&b, "mixed") && tells(&fat, "mixed"));
    CHECK(!tells(&shorter, "mixed") && !tells(&shorter_fat, "mixed"));
    free(b.at);
    free(fat.at);
}

TEST(what_is_no_image) {
    static const char ptx[] = "//\n.version 8.0\n.target sm_90\n", elf[4] = "\177ELF";
    char zeros[4096] = {0};
    CHECK_EQ(image_read(ptx, CODE_UNSIZED), NULL);
    CHECK_EQ(image_read(ptx, sizeof ptx), NULL);
    CHECK_EQ(image_read(elf, sizeof elf), NULL);
    CHECK_EQ(image_read(zeros, sizeof zeros), NULL);
    CHECK_EQ(image_read(NULL, CODE_UNSIZED), NULL);
    CHECK_EQ(image_read((void *)-64l, CODE_UNSIZED), NULL);
    CHECK_EQ(image_read(zeros, 0), NULL);
}

TEST(entries_end_where_the_fat_binary_does) {
    struct bytes b = three_kernels(true), fat = fat_begin();
    fat_add(&fat, ENTRY_CUBIN, b.at, b.count);
    uint64_t all = fat.count - 16, sizes[] = {all - 1, 63, 15, 0};
    for (size_t i = 0; i < 4; i++) {
        memcpy(fat.at + 8, &sizes[i], sizeof sizes[i]);
        CHECK(!tells(&fat, "mixed"));
    }
    memcpy(fat.at + 8, &all, sizeof all);
    CHECK(tells(&fat, "mixed"));
    free(b.at);
    free(fat.at);
}

TEST(names_end_where_their_section_does) {
    struct bytes b = three_kernels(true);
    Elf64_Ehdr h;
    memcpy(&h, b.at, sizeof h);
    Elf64_Shdr *names = (Elf64_Shdr *)(void *)(b.at + h.e_shoff) + h.e_shstrndx;
    names->sh_size = names[-1].sh_name + strlen(".nv.info.non");
    CHECK(!tells(&b, "non") && !tells(&b, "none") && tells(&b, "large"));
    free(b.at);
}

/* --- damaged images, with an unmapped page behind them --- */

enum { PAGES = 16 << 12 };

/* Copies the image to the end of a mapping. */
static uint8_t *at_the_end(const struct bytes *b) {
    char *map = mmap(NULL, PAGES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && b->count <= PAGES && munmap(map + PAGES, 4096) == 0);
    return memcpy(map + PAGES - b->count, b->at, b->count);
}

/* Whatever is told must be what a driver could have been given. */
static void check_sense(const void *at, uint64_t count) {
    static const char *const names[] = {"mixed", "large", "none"};
    struct image *i = image_read(at, count);
    for (size_t k = 0; i && k < 3; k++) {
        uint32_t end = 0;
        if (!image_layout(i, names[k], &layout))
            continue;
        CHECK(layout.known && layout.parameters <= PARAMETERS_MAX);
        for (uint32_t p = 0; p < layout.parameters; p++) {
            CHECK(layout.size[p] > 0 && layout.offset[p] >= end);
            end = (uint32_t)layout.offset[p] + layout.size[p];
        }
        CHECK(end <= UINT16_MAX);
    }
    image_free(i);
}

static struct bytes fat_of_three(void) {
    struct bytes cubin = three_kernels(true), fat = fat_begin();
    fat_add(&fat, ENTRY_CUBIN, cubin.at, cubin.count);
    fat_add(&fat, ENTRY_CUBIN, cubin.at, cubin.count);
    free(cubin.at);
    return fat;
}

TEST(cut_short) {
    struct bytes whole = fat_of_three();
    for (size_t count = 0; count < whole.count; count++) {
        struct bytes part = {whole.at, count};
        uint8_t *at = at_the_end(&part);
        check_sense(at, count);
        check_sense(at, CODE_UNSIZED);
        munmap((void *)(((uintptr_t)at + count) - PAGES), PAGES);
    }
    free(whole.at);
}

static uint32_t random_state = 1;

static uint32_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static void damage(const struct bytes *whole, int times) {
    uint8_t *at = at_the_end(whole);
    for (int n = 0; n < times; n++) {
        for (uint32_t flips = 1 + next_random() % 4; flips > 0; flips--)
            at[next_random() % whole->count] ^= (uint8_t)(1u << next_random() % 8);
        if (n % 3 == 0) /* a large number somewhere */
            memset(at + next_random() % (whole->count - 8), 0xff, next_random() % 8);
        check_sense(at, whole->count);
        check_sense(at, CODE_UNSIZED);
        memcpy(at, whole->at, whole->count);
    }
    CHECK(tells(whole, "mixed"));
}

TEST(damaged_fat_binary) {
    struct bytes whole = fat_of_three();
    damage(&whole, 20000);
    free(whole.at);
}
