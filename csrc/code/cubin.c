#include "code/cubin.h"

#include <elf.h>

#include "code/attribute.h"

#define TEXT ".text."
#define INFO ".nv.info."

enum { ABI_LATER = 8, ENTRY_POINT = 0x10 }; /* in e_ident; in st_other */

static bool read_section(const struct cubin *c, uint32_t i, Elf64_Shdr *out) {
    return i < c->sections && view_read(&c->file, c->sections_at + i * sizeof *out, out, sizeof *out);
}

static struct view content(const struct cubin *c, const Elf64_Shdr *s) {
    return view_part(&c->file, s->sh_offset, s->sh_size);
}

bool cubin_open(struct cubin *c, struct view file) {
    Elf64_Ehdr h;
    Elf64_Shdr first, names;
    *c = (struct cubin){.file = file};
    if (!view_read(&file, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_CUDA ||
        h.e_shentsize != sizeof first || !view_read(&file, h.e_shoff, &first, sizeof first))
        return false;
    /* what is too large for the header stands in the first section */
    uint64_t count = h.e_shnum ? h.e_shnum : first.sh_size;
    if (count > file.bytes / sizeof first || !view_holds(&file, h.e_shoff, count * sizeof first))
        return false;
    c->sections = (uint32_t)count;
    c->sections_at = h.e_shoff;
    c->architecture = (h.e_ident[EI_ABIVERSION] >= ABI_LATER ? h.e_flags >> 8 : h.e_flags) & UINT8_MAX;
    if (!read_section(c, h.e_shstrndx == SHN_XINDEX ? first.sh_link : h.e_shstrndx, &names))
        return false;
    c->names = content(c, &names);
    while (c->names.bytes > 0 && c->names.at[c->names.bytes - 1])
        c->names.bytes--; /* every name that begins before it ends before it */
    return c->names.bytes > 0;
}

/* What follows the prefix in a section's name; NULL: it begins otherwise. */
static const char *name_after(const struct cubin *c, const Elf64_Shdr *s, const char *prefix) {
    const char *name = s->sh_name < c->names.bytes ? (const char *)c->names.at + s->sh_name : "";
    size_t bytes = strlen(prefix);
    return strncmp(name, prefix, bytes) == 0 ? name + bytes : NULL;
}

/* The one section of that name. False: there is none, or there are several. */
static bool find_section(const struct cubin *c, const char *prefix, const char *kernel, Elf64_Shdr *out) {
    Elf64_Shdr s;
    uint32_t found = 0;
    for (uint32_t i = 0; i < c->sections && read_section(c, i, &s); i++) {
        const char *name = name_after(c, &s, prefix);
        if (name && strcmp(name, kernel) == 0) {
            *out = s;
            found++;
        }
    }
    return found == 1;
}

/* The name of the kernel whose code is section i; NULL: it is none. */
static const char *cubin_kernel_name(const struct cubin *c, uint32_t i) {
    Elf64_Shdr s;
    return read_section(c, i, &s) && s.sh_type == SHT_PROGBITS ? name_after(c, &s, TEXT) : NULL;
}

/* --- attributes --- */

static bool read_bank(struct kernel *k, const struct view *v) {
    uint16_t place[2];
    if (k->parameter_bytes || v->bytes != 8 || !view_read(v, 4, place, sizeof place))
        return false;
    k->parameters = place[0];
    k->parameter_bytes = place[1];
    return place[1] <= KERNEL_WORDS * 8;
}

static bool read_parameter(struct kernel *k, const struct attribute *a) {
    struct parameter_attribute p;
    if (!attribute_parameter(a, &p) || p.offset > KERNEL_WORDS * 8 || p.size > KERNEL_WORDS * 8u - p.offset)
        return false;
    for (uint32_t word = p.offset / 8; p.size >= 8 && word < (p.offset + p.size + 7) / 8; word++)
        words_add(&k->pointer, word);
    return true;
}

/* Of each indirect branch: its offset, zero, the number of its targets, their offsets. */
static bool read_jumps(struct kernel *k, const struct view *v) {
    uint64_t at = 0;
    while (at < v->bytes) {
        uint32_t head[3], target;
        if (!view_read(v, at, head, sizeof head) || !view_holds(v, at + sizeof head, head[2] * UINT64_C(4)))
            return false;
        at += sizeof head;
        for (uint32_t n = 0; n < head[2]; n++, at += sizeof target) {
            if (k->jumps == KERNEL_JUMPS || !view_read(v, at, &target, sizeof target))
                return false;
            k->jump[k->jumps++] = (struct jump){head[0], target};
        }
    }
    return true;
}

static bool read_attributes(struct kernel *k, struct view info) {
    struct attribute a;
    for (uint64_t at = 0; at < info.bytes;)
        if (!attribute_read(&info, &at, &a) || (a.code == ATTRIBUTE_BANK && !read_bank(k, &a.payload)) ||
            (attribute_is_parameter(&a) && !read_parameter(k, &a)) ||
            (a.code == ATTRIBUTE_JUMPS && !read_jumps(k, &a.payload)))
            return false;
    return true;
}

const char *cubin_info(const struct cubin *c, uint32_t i, struct view *out) {
    Elf64_Shdr s;
    const char *kernel = read_section(c, i, &s) ? name_after(c, &s, INFO) : NULL;
    *out = kernel ? content(c, &s) : (struct view){NULL, 0};
    return kernel && out->bytes == s.sh_size ? kernel : NULL;
}

/* --- symbols --- */

struct symbols {
    struct view table, names;
};

static bool find_symbols(const struct cubin *c, struct symbols *out) {
    Elf64_Shdr table, names;
    if (!find_section(c, ".symtab", "", &table) || !read_section(c, table.sh_link, &names))
        return false;
    *out = (struct symbols){content(c, &table), content(c, &names)};
    return true;
}

/* The functions in section i. False: the kernel is not the first of them. */
static bool read_functions(const struct symbols *all, uint32_t i, struct kernel *k) {
    Elf64_Sym s;
    bool entry = false;
    for (uint64_t at = 0; view_read(&all->table, at, &s, sizeof s); at += sizeof s) {
        if (s.st_shndx != i || ELF64_ST_TYPE(s.st_info) != STT_FUNC)
            continue;
        const char *name = view_text(&all->names, s.st_name);
        if (name && strcmp(name, k->name) == 0)
            entry = s.st_other & ENTRY_POINT && s.st_value == 0;
        if (k->functions == KERNEL_FUNCTIONS || s.st_value >= k->text.bytes)
            return false;
        k->function[k->functions++] = (uint32_t)s.st_value;
    }
    return entry;
}

/* --- what the loader writes --- */

/* Whether the symbol is a function that ends the kernel. */
static bool never_returns(const struct symbols *all, uint32_t symbol) {
    Elf64_Sym s;
    const char *name =
        view_read(&all->table, symbol * sizeof s, &s, sizeof s) ? view_text(&all->names, s.st_name) : NULL;
    return name && strcmp(name, "__assertfail") == 0;
}

/* Addresses in bank 4. What is not found is only not known. */
static void read_ends(const struct cubin *c, const struct symbols *all, struct kernel *k) {
    static const char *const prefix[] = {".rel.nv.constant4", ".rela.nv.constant4"};
    static const uint64_t bytes[] = {sizeof(Elf64_Rel), sizeof(Elf64_Rela)};
    Elf64_Shdr s;
    Elf64_Rel r;
    for (int p = 0; p < 2; p++) {
        if (!find_section(c, prefix[p], "", &s))
            continue;
        struct view v = content(c, &s);
        for (uint64_t at = 0; view_read(&v, at, &r, sizeof r); at += bytes[p])
            if (k->ends < KERNEL_ENDS && r.r_offset % 8 == 0 && never_returns(all, (uint32_t)(r.r_info >> 32)))
                k->end[k->ends++] = (uint32_t)(r.r_offset / 8);
    }
}

enum { RELOCATION_LOW = 56, RELOCATION_HIGH = 57 };

static bool read_address(struct kernel *k, uint64_t at, uint64_t info, uint32_t *symbol) {
    uint32_t type = (uint32_t)info, n = k->addresses, ordinal = 0;
    if (n == KERNEL_ADDRESSES || at >= k->text.bytes || (type != RELOCATION_LOW && type != RELOCATION_HIGH))
        return false;
    symbol[n] = (uint32_t)(info >> 32);
    while (symbol[ordinal] != symbol[n])
        ordinal++;
    k->address[k->addresses++] = (struct address){(uint32_t)at, ordinal, type == RELOCATION_HIGH};
    return true;
}

/* False: the code has something else to be written. */
static bool read_relocations(const struct cubin *c, struct kernel *k) {
    static const char *const prefix[] = {".rel.text.", ".rela.text."};
    static const uint64_t bytes[] = {sizeof(Elf64_Rel), sizeof(Elf64_Rela)};
    uint32_t symbol[KERNEL_ADDRESSES];
    Elf64_Shdr s;
    Elf64_Rel r;
    for (uint32_t i = 0; i < c->sections && read_section(c, i, &s); i++)
        for (int p = 0; p < 2; p++) {
            const char *name = name_after(c, &s, prefix[p]);
            if (!name || strcmp(name, k->name) != 0)
                continue;
            struct view v = content(c, &s);
            if (v.bytes != s.sh_size)
                return false;
            for (uint64_t at = 0; at < v.bytes; at += bytes[p])
                if (!view_read(&v, at, &r, sizeof r) || !read_address(k, r.r_offset, r.r_info, symbol))
                    return false;
        }
    return true;
}

uint32_t cubin_find(const struct cubin *c, const char *kernel) {
    uint32_t found = 0;
    for (uint32_t i = 1; i < c->sections; i++) {
        const char *name = cubin_kernel_name(c, i);
        if (name && strcmp(name, kernel) == 0)
            found = found ? CUBIN_SEVERAL : i;
    }
    return found;
}

bool cubin_kernel(const struct cubin *c, uint32_t i, struct kernel *k) {
    Elf64_Shdr text, info;
    *k = (struct kernel){.name = cubin_kernel_name(c, i), .architecture = c->architecture};
    if (!k->name || !read_section(c, i, &text) || !find_section(c, INFO, k->name, &info))
        return false;
    k->text = content(c, &text);
    struct view attributes = content(c, &info);
    struct symbols symbols;
    if (!find_symbols(c, &symbols))
        return false;
    read_ends(c, &symbols, k);
    return k->text.bytes > 0 && k->text.bytes <= UINT32_MAX && attributes.bytes == info.sh_size &&
           read_functions(&symbols, i, k) && read_attributes(k, attributes) && read_relocations(c, k);
}
