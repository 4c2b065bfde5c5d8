/* Writes images such as compilers make: only as much of them as says what parameters a kernel has. */
#ifndef CUBIN_H
#define CUBIN_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_PARAMETER = 0x17, ATTRIBUTE_TOTAL = 0x19, ATTRIBUTE_LARGE_PARAMETER = 0x45 };

struct bytes {
    uint8_t *at;
    size_t count;
};

/* Returns the offset of what was added; zeros when content is NULL. Offsets stay multiples of 8 if `aligned`. */
static size_t bytes_add(struct bytes *b, const void *content, size_t count, bool aligned) {
    size_t at = b->count, end = aligned ? (at + count + 7) & ~(size_t)7 : at + count;
    b->at = realloc(b->at, end + 1);
    memset(b->at + at, 0, end - at);
    if (content)
        memcpy(b->at + at, content, count);
    b->count = end;
    return at;
}

/* --- one kernel's attributes --- */

static void info_value(struct bytes *info, uint8_t format, uint8_t code, uint16_t value) {
    uint8_t record[4] = {format, code, (uint8_t)value, (uint8_t)(value >> 8)};
    bytes_add(info, record, sizeof record, false);
}

static void info_parameter(struct bytes *info, uint8_t code, uint16_t ordinal, uint16_t offset, uint32_t size) {
    struct {
        uint32_t index;
        uint16_t ordinal, offset;
        uint32_t size;
    } data = {0, ordinal, offset, code == ATTRIBUTE_PARAMETER ? size << 18 | 0x1f000 : size};
    info_value(info, 4, code, sizeof data);
    bytes_add(info, &data, sizeof data, false);
}

/* Parameters of these sizes (0: the end), each at a multiple of its alignment, last first as compilers have it. */
static struct bytes info_of(const uint32_t *sizes) {
    struct bytes info = {0};
    uint32_t offset[64], total = 0, n = 0;
    for (; sizes[n]; n++) {
        uint32_t align = sizes[n] < 8 ? sizes[n] : 8;
        offset[n] = (total + align - 1) / align * align;
        total = offset[n] + sizes[n];
    }
    info_value(&info, 3, 0x1b, 255);
    for (uint32_t i = n; i-- > 0;)
        info_parameter(&info, sizes[i] < 16384 ? ATTRIBUTE_PARAMETER : ATTRIBUTE_LARGE_PARAMETER, (uint16_t)i,
                       (uint16_t)offset[i], sizes[i]);
    if (n)
        info_value(&info, 3, ATTRIBUTE_TOTAL, (uint16_t)total);
    return info;
}

/* --- a cubin: header, sections, their names, their table --- */

struct cubin_parts {
    struct bytes file, names, table;
};

static void cubin_section(struct cubin_parts *c, const char *name, const void *content, size_t count) {
    Elf64_Shdr s = {.sh_type = SHT_PROGBITS, .sh_size = count};
    s.sh_name = (Elf64_Word)bytes_add(&c->names, name, strlen(name) + 1, false);
    s.sh_offset = bytes_add(&c->file, content, count, true);
    bytes_add(&c->table, &s, sizeof s, false);
}

static struct cubin_parts cubin_begin(void) {
    struct cubin_parts c = {0};
    bytes_add(&c.file, NULL, sizeof(Elf64_Ehdr), true);
    bytes_add(&c.names, "", 1, false);
    bytes_add(&c.table, NULL, sizeof(Elf64_Shdr), false);
    return c;
}

/* Takes the attributes. */
static void cubin_attributes(struct cubin_parts *c, const char *name, struct bytes info) {
    char section[256] = ".nv.info.";
    strncat(section, name, sizeof section - 16);
    cubin_section(c, section, info.at, info.count);
    free(info.at);
}

/* The whole file. counted: the header counts the sections; else the first section does, as for 65 280 and more. */
static struct bytes cubin_end(struct cubin_parts *c, bool counted) {
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_EXEC,
                    .e_machine = EM_CUDA,
                    .e_shentsize = sizeof(Elf64_Shdr)};
    size_t sections = c->table.count / sizeof(Elf64_Shdr);
    Elf64_Shdr *table = (Elf64_Shdr *)(void *)c->table.at;
    cubin_section(c, ".shstrtab", NULL, 0);
    table = (Elf64_Shdr *)(void *)c->table.at;
    table[sections].sh_offset = bytes_add(&c->file, c->names.at, c->names.count, true);
    table[sections].sh_size = c->names.count;
    if (counted) {
        h.e_shnum = (Elf64_Half)(sections + 1);
        h.e_shstrndx = (Elf64_Half)sections;
    } else {
        h.e_shstrndx = SHN_XINDEX;
        table[0].sh_size = sections + 1;
        table[0].sh_link = (Elf64_Word)sections;
    }
    h.e_shoff = bytes_add(&c->file, c->table.at, c->table.count, true);
    memcpy(c->file.at, &h, sizeof h);
    free(c->names.at);
    free(c->table.at);
    return c->file;
}

/* One kernel a cubin. */
__attribute__((unused)) static struct bytes cubin_of(const char *name, const uint32_t *sizes) {
    struct cubin_parts c = cubin_begin();
    cubin_attributes(&c, name, info_of(sizes));
    return cubin_end(&c, true);
}

/* --- a fat binary --- */

enum { ENTRY_PTX = 1, ENTRY_CUBIN = 2 };

__attribute__((unused)) static struct bytes fat_begin(void) {
    static const struct {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t bytes;
    } header = {0xba55ed50, 1, 16, 0};
    struct bytes fat = {0};
    bytes_add(&fat, &header, sizeof header, true);
    return fat;
}

__attribute__((unused)) static void fat_add(struct bytes *fat, uint16_t kind, const void *content, size_t count) {
    struct {
        uint16_t kind, version;
        uint32_t header_bytes;
        uint64_t bytes;
        uint8_t rest[48];
    } entry = {.kind = kind, .version = 0x101, .header_bytes = 64, .bytes = (count + 7) & ~(size_t)7};
    bytes_add(fat, &entry, sizeof entry, true);
    bytes_add(fat, content, count, true);
    uint64_t all = fat->count - 16;
    memcpy(fat->at + 8, &all, sizeof all);
}

#endif
