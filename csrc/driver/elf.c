#define _GNU_SOURCE
#include "driver/elf.h"

#include <elf.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>

enum { HIDDEN = 0x8000, UNVERSIONED = 1 }; /* in the table of versions */

bool elf_holds(const struct elf_object *o, const void *address) {
    for (int i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *p = &o->headers[i];
        if (p->p_type == PT_LOAD && (uintptr_t)address - (o->base + p->p_vaddr) < p->p_memsz)
            return true;
    }
    return false;
}

/* glibc relocates the pointers of the dynamic section in place, except in the vdso. */
static const void *pointer(const struct elf_object *o, uintptr_t value) {
    return (const void *)(value < o->base ? value + o->base : value);
}

static void read_entry(struct elf_object *o, const ElfW(Dyn) * entry) {
    const void *at = pointer(o, entry->d_un.d_ptr);
    switch (entry->d_tag) {
    case DT_SYMTAB:
        o->symbols = at;
        break;
    case DT_STRTAB:
        o->strings = at;
        break;
    case DT_GNU_HASH:
        o->gnu_hash = at;
        break;
    case DT_HASH:
        o->hash = at;
        break;
    case DT_VERSYM:
        o->versions = at;
        break;
    case DT_VERDEF:
        o->definitions = at;
        break;
    case DT_VERDEFNUM:
        o->definition_count = entry->d_un.d_val;
        break;
    }
}

static bool read_object(const struct dl_phdr_info *info, struct elf_object *o) {
    const ElfW(Dyn) *dynamic = NULL;
    *o = (struct elf_object){.path = info->dlpi_name ? info->dlpi_name : "",
                             .base = info->dlpi_addr,
                             .headers = info->dlpi_phdr,
                             .header_count = info->dlpi_phnum};
    for (int i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(o->base + o->headers[i].p_vaddr);
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++)
        read_entry(o, d);
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_SONAME && o->strings)
            o->soname = o->strings + d->d_un.d_val;
    return o->symbols && o->strings && (o->gnu_hash || o->hash);
}

struct walk {
    bool (*visit)(const struct elf_object *o, void *data);
    void *data;
    bool past_us, past_libc;
};

static int step(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct walk *walk = data;
    struct elf_object o;
    if (!read_object(info, &o))
        return 0;
    if (elf_holds(&o, (const void *)(uintptr_t)elf_next)) {
        walk->past_us = true;
        return 0;
    }
    walk->past_libc |= elf_is_named(&o, "libc.so.6");
    o.place = !walk->past_us ? ELF_BEFORE : walk->past_libc ? ELF_LATER : ELF_LINKED;
    return walk->visit(&o, walk->data);
}

bool elf_walk(bool (*visit)(const struct elf_object *o, void *data), void *data) {
    struct walk walk = {.visit = visit, .data = data};
    return dl_iterate_phdr(step, &walk) != 0;
}

bool elf_is_named(const struct elf_object *o, const char *name) {
    const char *slash = strrchr(o->path, '/');
    return strcmp(o->soname ? o->soname : slash ? slash + 1 : o->path, name) == 0;
}

/* The name of a version that the object defines, by its number or, with number 0, for `wanted`; NULL: none. An object's
 * base version names the object itself, not its symbols. */
static const char *defined(const struct elf_object *o, unsigned number, const char *wanted) {
    const char *at = o->definitions;
    for (size_t i = 0; at && i < o->definition_count; i++) {
        const ElfW(Verdef) *d = (const ElfW(Verdef) *)at;
        const char *name = o->strings + ((const ElfW(Verdaux) *)(at + d->vd_aux))->vda_name;
        if (!(d->vd_flags & VER_FLG_BASE) && (number ? d->vd_ndx == number : strcmp(name, wanted) == 0))
            return name;
        at += d->vd_next;
    }
    return NULL;
}

bool elf_has_version(const struct elf_object *o, const char *version) {
    return defined(o, 0, version) != NULL;
}

/* A program that opens the driver by itself may keep what it finds in variables of the functions' names. */
static bool is_function(const ElfW(Sym) * s) {
    unsigned type = s->st_info & 0xf;
    return s->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE);
}

/* As the loader binds: a symbol without a version serves every reference. */
static bool serves(const struct elf_object *o, uint32_t i, const char *version) {
    if (!version || !o->versions)
        return true;
    unsigned number = o->versions[i] & ~HIDDEN;
    const char *name = number > UNVERSIONED ? defined(o, number, NULL) : NULL;
    return name ? strcmp(name, version) == 0 : o->versions[i] == UNVERSIONED;
}

struct symbol {
    const char *name, *version;
    const ElfW(Sym) * found;
};

/* An old version of a symbol is hidden; any version serves when there is no other. True: nothing better comes. */
static bool symbol_take(const struct elf_object *o, uint32_t i, struct symbol *wanted) {
    const ElfW(Sym) *s = &o->symbols[i];
    if (!is_function(s) || strcmp(o->strings + s->st_name, wanted->name) != 0 || !serves(o, i, wanted->version))
        return false;
    wanted->found = s;
    return wanted->version || !o->versions || !(o->versions[i] & HIDDEN);
}

static void by_gnu_hash(const struct elf_object *o, struct symbol *wanted) {
    enum { BITS = sizeof(ElfW(Addr)) * 8 };
    uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], blooms = o->gnu_hash[2], shift = o->gnu_hash[3];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)&o->gnu_hash[4];
    const uint32_t *bucket = (const uint32_t *)&bloom[blooms], *chain = &bucket[buckets];
    uint32_t hash = 5381;
    for (const char *c = wanted->name; *c; c++)
        hash = hash * 33 + (unsigned char)*c;
    ElfW(Addr) word = blooms ? bloom[hash / BITS % blooms] : 0;
    if (!buckets || !(word >> hash % BITS & word >> (hash >> shift) % BITS & 1) || bucket[hash % buckets] < first)
        return;
    for (uint32_t i = bucket[hash % buckets];; i++) {
        uint32_t entry = chain[i - first];
        if (((entry | 1) == (hash | 1) && symbol_take(o, i, wanted)) || entry & 1)
            return;
    }
}

static void by_old_hash(const struct elf_object *o, struct symbol *wanted) {
    const uint32_t *bucket = o->hash + 2, *chain = bucket + o->hash[0];
    uint32_t hash = 0;
    for (const char *c = wanted->name; *c; c++) {
        hash = (hash << 4) + (unsigned char)*c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    for (uint32_t i = o->hash[0] ? bucket[hash % o->hash[0]] : 0; i; i = chain[i])
        if (symbol_take(o, i, wanted))
            return;
}

void *elf_function(const struct elf_object *o, const char *name, const char *version) {
    struct symbol wanted = {name, version, NULL};
    if (o->gnu_hash)
        by_gnu_hash(o, &wanted);
    else
        by_old_hash(o, &wanted);
    if (!wanted.found)
        return NULL;
    uintptr_t at = o->base + wanted.found->st_value;
    bool chooses = (wanted.found->st_info & 0xf) == STT_GNU_IFUNC;
    return chooses ? ((void *(*)(unsigned long))at)(getauxval(AT_HWCAP)) : (void *)at;
}

struct search {
    const char *name;
    void *found;
    bool anywhere;
};

static bool search_one(const struct elf_object *o, void *data) {
    struct search *search = data;
    if (search->anywhere || o->place != ELF_BEFORE)
        search->found = elf_function(o, search->name, NULL);
    return search->found != NULL;
}

void *elf_next(const char *name) {
    struct search search = {.name = name};
    if (!elf_walk(search_one, &search)) { /* this library was opened late by the program: libc comes first */
        search.anywhere = true;
        elf_walk(search_one, &search);
    }
    return search.found;
}

void *elf_next_once(void *_Atomic *known, const char *name) {
    void *f = atomic_load_explicit(known, memory_order_relaxed);
    if (!f) {
        f = elf_next(name);
        atomic_store_explicit(known, f, memory_order_relaxed);
    }
    return f;
}

static int visit_ours(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    const void **asked = data;
    struct elf_object o;
    if (!read_object(info, &o) || !elf_holds(&o, (const void *)(uintptr_t)elf_next))
        return 0;
    return elf_holds(&o, *asked) ? 1 : 2;
}

bool elf_is_ours(const void *address) {
    return dl_iterate_phdr(visit_ours, &address) == 1;
}
