#include "test.h"

#include "code/cubin.h"
#include "code/image.h"
#include "code/unpack.h"
#include "cubin.h"

enum { SM = 90, TEXT = 3 }; /* the section with the code */

static const uint32_t parameters[] = {8, 4, 40, 0};

static uint64_t random_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* A cubin with kernel k, whose code has a function at 256. */
static struct bytes cubin_for(uint32_t architecture) {
    Elf64_Sym symbols[] = {
        {0},
        {.st_name = 1, .st_info = STT_FUNC, .st_other = 0x10, .st_shndx = TEXT, .st_size = 512},
        {.st_name = 3, .st_info = STT_FUNC, .st_shndx = TEXT, .st_value = 256, .st_size = 256},
        {.st_name = 5, .st_info = STT_FUNC},
    };
    static const Elf64_Rela addresses[] = {{.r_offset = 8, .r_info = ELF64_R_INFO(2, 2)},
                                           {.r_offset = 24, .r_info = ELF64_R_INFO(3, 2)}};
    struct cubin_parts c = cubin_begin();
    struct bytes info = info_of(parameters);
    static const uint16_t bank[4] = {7, 0, 0x210, 56};
    static const uint32_t jumps[] = {0x20, 0, 2, 0x40, 0x80};
    info_value(&info, 4, 0x0a, sizeof bank);
    bytes_add(&info, bank, sizeof bank, false);
    info_value(&info, 4, 0x34, sizeof jumps);
    bytes_add(&info, jumps, sizeof jumps, false);
    cubin_section(&c, ".symtab", symbols, sizeof symbols);
    cubin_section(&c, ".strtab", "\0k\0f\0__assertfail", 18);
    cubin_section(&c, ".text.k", NULL, 512);
    cubin_section(&c, ".rela.text.k", NULL, 0);
    cubin_section(&c, ".rela.nv.constant4", addresses, sizeof addresses);
    ((Elf64_Shdr *)(void *)c.table.at)[1].sh_link = 2;
    cubin_attributes(&c, "k", info);
    struct bytes b = cubin_end(&c, true);
    ((Elf64_Ehdr *)(void *)b.at)->e_flags = architecture << 8;
    b.at[EI_ABIVERSION] = 8;
    return b;
}

static struct view view_of(const struct bytes *b) {
    return (struct view){b->at, b->count};
}

TEST(kernel_of_a_cubin) {
    struct bytes b = cubin_for(SM);
    struct cubin c;
    static struct kernel k;
    CHECK(cubin_open(&c, view_of(&b)));
    CHECK_EQ(c.architecture, SM);
    for (uint32_t i = 0; i < c.sections + 2; i++)
        CHECK_EQ(cubin_kernel(&c, i, &k), i == TEXT);
    CHECK(cubin_kernel(&c, TEXT, &k));
    CHECK_STR(k.name, "k");
    CHECK_EQ(k.text.bytes, 512);
    CHECK_EQ(k.parameters, 0x210);
    CHECK_EQ(k.parameter_bytes, 56);
    CHECK_EQ(k.pointer.bit[0], 0x7d); /* all but the word with the parameter of 4 bytes */
    CHECK_EQ(k.functions, 2);
    CHECK_EQ(k.function[1], 256);
    CHECK_EQ(k.ends, 1);
    CHECK_EQ(k.end[0], 3);
    CHECK_EQ(k.jumps, 2);
    CHECK_EQ(k.jump[1].at, 0x20);
    CHECK_EQ(k.jump[1].target, 0x80);
    free(b.at);
}

TEST(kernel_that_the_loader_changes_is_refused) {
    struct bytes b = cubin_for(SM);
    struct cubin c;
    static struct kernel k;
    Elf64_Shdr *table = (Elf64_Shdr *)(void *)(b.at + ((Elf64_Ehdr *)(void *)b.at)->e_shoff);
    table[TEXT + 1].sh_size = 24;
    CHECK(cubin_open(&c, view_of(&b)) && !cubin_kernel(&c, TEXT, &k));
    free(b.at);
}

/* --- LZ4 --- */

static void add_length(struct bytes *b, size_t length) {
    for (; length >= 255; length -= 255)
        bytes_add(b, "\xff", 1, false);
    bytes_add(b, &(uint8_t){(uint8_t)length}, 1, false);
}

/* A random block, and what it unpacks to. */
static struct bytes random_block(uint64_t *seed, struct bytes *plain) {
    struct bytes block = {0};
    for (int n = (int)(random_number(seed) % 12); n >= 0; n--) {
        size_t literals = random_number(seed) % (random_number(seed) % 4 ? 12 : 600), match = 0, distance = 0;
        if (n && plain->count + literals > 0) {
            match = 4 + random_number(seed) % (random_number(seed) % 4 ? 10 : 700);
            distance = 1 + random_number(seed) % (plain->count + literals);
        }
        size_t coded = match ? match - 4 : 0;
        uint8_t token = (uint8_t)((literals < 15 ? literals : 15) << 4 | (coded < 15 ? coded : 15));
        bytes_add(&block, &token, 1, false);
        if (literals >= 15)
            add_length(&block, literals - 15);
        for (size_t i = 0; i < literals; i++) {
            uint8_t byte = (uint8_t)random_number(seed);
            bytes_add(&block, &byte, 1, false);
            bytes_add(plain, &byte, 1, false);
        }
        if (!match)
            break;
        bytes_add(&block, &(uint16_t){(uint16_t)distance}, 2, false);
        if (coded >= 15)
            add_length(&block, coded - 15);
        for (size_t i = 0; i < match; i++)
            bytes_add(plain, &(uint8_t){plain->at[plain->count - distance]}, 1, false);
    }
    return block;
}

TEST(lz4_unpacks_random_blocks_and_refuses_damaged_ones) {
    uint64_t seed = 1;
    for (int round = 0; round < 300; round++) {
        struct bytes plain = {0};
        bytes_add(&plain, NULL, 0, false);
        struct bytes block = random_block(&seed, &plain);
        uint8_t *to = malloc(plain.count + 1);
        CHECK(unpack_lz4(to, plain.count, view_of(&block)));
        CHECK_EQ(memcmp(to, plain.at, plain.count), 0);
        CHECK(!unpack_lz4(to, plain.count + 1, view_of(&block)));
        CHECK(!plain.count || !unpack_lz4(to, plain.count - 1, view_of(&block)));
        CHECK(!unpack_lz4(to, plain.count, (struct view){block.at, block.count - 1}));
        block.at[random_number(&seed) % block.count] = (uint8_t)random_number(&seed);
        unpack_lz4(to, plain.count, view_of(&block));
        free(to);
        free(plain.at);
        free(block.at);
    }
}

/* --- fat binaries --- */

enum { PLAIN, LZ4, ZSTD };

static void add_entry(struct bytes *fat, uint32_t architecture, int how) {
    struct bytes cubin = cubin_for(architecture), packed = {0};
    size_t at = fat->count;
    if (how == LZ4) {
        bytes_add(&packed, "\xf0", 1, false);
        add_length(&packed, cubin.count - 15);
    } else if (how == ZSTD) { /* one block that is not packed */
        bytes_add(&packed, "\x28\xb5\x2f\xfd\xa0", 5, false);
        bytes_add(&packed, &(uint32_t){(uint32_t)cubin.count}, 4, false);
        bytes_add(&packed, &(uint32_t){(uint32_t)cubin.count << 3 | 1}, 3, false);
    }
    bytes_add(&packed, cubin.at, cubin.count, false);
    fat_add(fat, ENTRY_CUBIN, packed.at, packed.count);
    memcpy(fat->at + at + 16, &(uint32_t){(uint32_t)packed.count}, 4);
    memcpy(fat->at + at + 28, &architecture, 4);
    memcpy(fat->at + at + 40, &(uint64_t){how == LZ4 ? 0x2000 : how == ZSTD ? 0x8000 : 0}, 8);
    memcpy(fat->at + at + 56, &(uint64_t){cubin.count}, 8);
    free(packed.at);
    free(cubin.at);
}

static uint32_t opens(const struct bytes *b, uint32_t architecture, bool unpacks, bool whole) {
    struct code_image i;
    struct cubin c;
    CHECK_EQ(code_image_open(&i, b->at, b->count, architecture, unpacks), i.cubins > 0);
    CHECK_EQ(i.whole, whole);
    uint32_t sum = 0;
    for (uint32_t n = 0; n < i.cubins; n++) {
        CHECK(cubin_open(&c, i.cubin[n]));
        sum = sum * 1000 + c.architecture;
    }
    code_image_close(&i);
    return sum;
}

TEST(entries_that_the_driver_might_load) {
    struct bytes fat = fat_begin();
    add_entry(&fat, 80, PLAIN);
    add_entry(&fat, 89, LZ4);
    fat_add(&fat, ENTRY_PTX, ".version 8.0", 12);
    add_entry(&fat, 90, ZSTD);
    CHECK_EQ(opens(&fat, 80, true, true), 80);
    CHECK_EQ(opens(&fat, 86, true, false), 80); /* it may compile instead */
    CHECK_EQ(opens(&fat, 89, true, true), 80089);
    CHECK_EQ(opens(&fat, 89, false, false), 80);
    CHECK_EQ(opens(&fat, 90, false, false), 0);
    CHECK_EQ(opens(&fat, 90, true, true), 90);
    CHECK_EQ(opens(&fat, 100, true, false), 0);
    CHECK_EQ(opens(&fat, 0, true, false), 80089090);
    struct {
        uint32_t magic, version;
        const void *fat;
        void *more;
    } wrapper = {0x466243b1, 1, fat.at, NULL};
    const void *start = &wrapper;
    CHECK_EQ(code_image_bytes(&start), fat.count);
    CHECK_EQ(start, fat.at);
    wrapper.version = 2;
    start = &wrapper;
    CHECK_EQ(code_image_bytes(&start), 0);
    fat.count -= 8;
    CHECK_EQ(opens(&fat, 89, true, false), 0);
    free(fat.at);
}

TEST(a_cubin_says_its_size) {
    struct bytes b = cubin_for(SM);
    const void *start = b.at;
    uint64_t bytes = code_image_bytes(&start);
    CHECK(bytes > b.count - 8 && bytes <= b.count);
    CHECK_EQ(cubin_find(&(struct cubin){0}, "k"), 0);
    struct cubin c;
    CHECK(cubin_open(&c, view_of(&b)));
    CHECK_EQ(cubin_find(&c, "k"), TEXT);
    CHECK_EQ(cubin_find(&c, "kk"), 0);
    free(b.at);
}

TEST(damaged_images) {
    struct bytes whole = fat_begin();
    add_entry(&whole, 89, PLAIN);
    add_entry(&whole, 89, LZ4);
    add_entry(&whole, 89, ZSTD);
    uint64_t seed = 7;
    static struct kernel k;
    for (int round = 0; round < 20000; round++) {
        size_t count = round % 4 ? whole.count : random_number(&seed) % whole.count;
        uint8_t *at = memcpy(malloc(count + 1), whole.at, count);
        for (uint64_t n = random_number(&seed) % 6; n > 0 && count > 0; n--)
            at[random_number(&seed) % count] = (uint8_t)random_number(&seed);
        struct code_image i;
        struct cubin c;
        code_image_open(&i, at, round % 2 ? count : CODE_UNSIZED, 89, true);
        for (uint32_t n = 0; n < i.cubins; n++)
            for (uint32_t s = 0; cubin_open(&c, i.cubin[n]) && s < c.sections && s < 20; s++)
                cubin_kernel(&c, s, &k);
        code_image_close(&i);
        free(at);
    }
    free(whole.at);
}
