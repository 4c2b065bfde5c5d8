/* Cubins for sm_90 with the code of kernels in tests/reference/kernels.txt. */
#ifndef CODE_CUBIN_H
#define CODE_CUBIN_H

#include <inttypes.h>
#include <stdio.h>

#include "cubin.h"

enum { CODE_SM = 90, CODE_ATTRIBUTE_BANK = 0x0a, CODE_TEXT_SECTION = 3 };

/* A line of the file. */
struct code_line {
    uint32_t architecture, parameters, bytes;
    uint64_t pointers;
    struct bytes text;
};

static struct code_line code_line_of(const char *file, const char *kernel) {
    static char name[256], hex[1 << 16];
    struct code_line l;
    FILE *lines = fopen(file, "r");
    while (lines && fscanf(lines, "%255s %" SCNu32 " %" SCNx32 " %" SCNu32 " %" SCNx64 " %65535s", name,
                           &l.architecture, &l.parameters, &l.bytes, &l.pointers, hex) == 6) {
        if (l.architecture != CODE_SM || strcmp(name, kernel) != 0)
            continue;
        l.text = (struct bytes){0};
        unsigned value;
        for (const char *at = hex; sscanf(at, "%2x", &value) == 1; at += 2)
            bytes_add(&l.text, &(uint8_t){(uint8_t)value}, 1, false);
        fclose(lines);
        return l;
    }
    abort();
}

/* Words that may be pointers are one parameter each, what is between them has parameters of 4 bytes. */
static struct bytes code_attributes(const struct code_line *l) {
    struct bytes info = {0};
    uint16_t bank[4] = {0, 0, (uint16_t)l->parameters, (uint16_t)l->bytes};
    uint16_t size, ordinal = 0;
    info_value(&info, 4, CODE_ATTRIBUTE_BANK, sizeof bank);
    bytes_add(&info, bank, sizeof bank, false);
    for (uint16_t at = 0; at < l->bytes; at = (uint16_t)(at + size), ordinal++) {
        size = at % 8 == 0 && l->pointers >> at / 8 & 1 ? 8 : 4;
        info_parameter(&info, ATTRIBUTE_PARAMETER, ordinal, at, size);
    }
    return info;
}

/* One kernel of that name, with the code of the line that begins with `like`. */
static struct bytes code_cubin(const char *file, const char *name, const char *like) {
    struct code_line l = code_line_of(file, like);
    Elf64_Sym symbols[] = {
        {0},
        {.st_name = 1, .st_info = STT_FUNC, .st_other = 0x10, .st_shndx = CODE_TEXT_SECTION, .st_size = l.text.count}};
    char strings[256], section[256];
    struct cubin_parts c = cubin_begin();
    int length = snprintf(strings, sizeof strings, "%c%s", 0, name);
    snprintf(section, sizeof section, ".text.%s", name);
    cubin_section(&c, ".symtab", symbols, sizeof symbols);
    cubin_section(&c, ".strtab", strings, (size_t)length + 1);
    cubin_section(&c, section, l.text.at, l.text.count);
    ((Elf64_Shdr *)(void *)c.table.at)[1].sh_link = 2;
    cubin_attributes(&c, name, code_attributes(&l));
    struct bytes b = cubin_end(&c, true);
    ((Elf64_Ehdr *)(void *)b.at)->e_flags = CODE_SM << 8;
    b.at[EI_ABIVERSION] = 8;
    free(l.text.at);
    return b;
}

#endif
