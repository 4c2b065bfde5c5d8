#define _GNU_SOURCE
#include "interpose/elf.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

struct search {
    const char *name;
    void *found;
    bool past_us; /* objects before this library are passed over */
};

struct object {
    const char *base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint16_t *versions;
    const void *definitions; /* of versions */
    size_t definition_count;
};

static bool holds(const struct dl_phdr_info *info, const void *address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (uintptr_t)address - start < p->p_memsz)
            return true;
    }
    return false;
}

/* glibc relocates the pointers of the dynamic section in place, except in the vdso. */
static const void *pointer(const struct dl_phdr_info *info, uintptr_t value) {
    return (const void *)(value < info->dlpi_addr ? value + info->dlpi_addr : value);
}

static bool read_object(const struct dl_phdr_info *info, struct object *o) {
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    memset(o, 0, sizeof *o);
    o->base = (const char *)info->dlpi_addr;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *at = pointer(info, dynamic->d_un.d_ptr);
        if (dynamic->d_tag == DT_SYMTAB)
            o->symbols = at;
        else if (dynamic->d_tag == DT_STRTAB)
            o->strings = at;
        else if (dynamic->d_tag == DT_GNU_HASH)
            o->gnu_hash = at;
        else if (dynamic->d_tag == DT_VERSYM)
            o->versions = at;
        else if (dynamic->d_tag == DT_VERDEF)
            o->definitions = at;
        else if (dynamic->d_tag == DT_VERDEFNUM)
            o->definition_count = dynamic->d_un.d_val;
    }
    return o->symbols && o->strings && o->gnu_hash;
}

static uint32_t gnu_hash(const char *name) {
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

/* An old version of a symbol is hidden (top bit of its version); any version serves when there is no other. */
static void *look_up(const struct object *o, const char *name) {
    uint32_t buckets = o->gnu_hash[0], first = o->gnu_hash[1], blooms = o->gnu_hash[2];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)&o->gnu_hash[4];
    const uint32_t *bucket = (const uint32_t *)&bloom[blooms];
    const uint32_t *chain = &bucket[buckets];
    uint32_t hash = gnu_hash(name);
    void *hidden = NULL;
    uint32_t i = buckets ? bucket[hash % buckets] : 0;
    if (i < first)
        return NULL;
    for (;; i++) {
        uint32_t entry = chain[i - first];
        const ElfW(Sym) *s = &o->symbols[i];
        if ((entry | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF && strcmp(o->strings + s->st_name, name) == 0) {
            hidden = (void *)(o->base + s->st_value);
            if (!o->versions || !(o->versions[i] & 0x8000))
                return hidden;
        }
        if (entry & 1)
            return hidden;
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    struct object object;
    bool us = holds(info, (const void *)(uintptr_t)elf_next);
    if (!us && search->past_us && read_object(info, &object))
        search->found = look_up(&object, search->name);
    search->past_us |= us;
    return search->found != NULL;
}

void *elf_next(const char *name) {
    struct search search = {.name = name};
    dl_iterate_phdr(visit, &search);
    if (!search.found) {
        search.past_us = true; /* opened late by the program: libc comes first */
        dl_iterate_phdr(visit, &search);
    }
    return search.found;
}

struct provider {
    const char *version;
    char *path;
    size_t size;
};

/* An object's first version names the object itself, not its symbols. */
static bool defines(const struct object *o, const char *version) {
    const char *at = (const char *)o->definitions;
    for (size_t i = 0; at && i < o->definition_count; i++) {
        const ElfW(Verdef) *d = (const ElfW(Verdef) *)at;
        const ElfW(Verdaux) *name = (const ElfW(Verdaux) *)(at + d->vd_aux);
        if (!(d->vd_flags & VER_FLG_BASE) && strcmp(o->strings + name->vda_name, version) == 0)
            return true;
        at += d->vd_next;
    }
    return false;
}

static int visit_provider(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    struct provider *p = data;
    struct object object;
    size_t length = strlen(info->dlpi_name);
    if (length == 0 || length >= p->size || holds(info, (const void *)(uintptr_t)elf_next) ||
        !read_object(info, &object) || !defines(&object, p->version))
        return 0;
    memcpy(p->path, info->dlpi_name, length + 1);
    return 1;
}

bool elf_defines(const char *version, char *path, size_t size) {
    struct provider p = {version, path, size};
    return dl_iterate_phdr(visit_provider, &p) == 1;
}

static int visit_ours(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    const void **asked = data;
    if (!holds(info, (const void *)(uintptr_t)elf_next))
        return 0;
    return holds(info, *asked) ? 1 : 2;
}

bool elf_is_ours(const void *address) {
    return dl_iterate_phdr(visit_ours, &address) == 1;
}
