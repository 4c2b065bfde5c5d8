/* Finds functions in the loaded objects themselves, without the loader. dlopen holds its lock while constructors run,
 * and dlsym, dlopen and dladdr wait for that lock. The list of objects has another, held only while it changes. */
#ifndef ULMS_ELF_H
#define ULMS_ELF_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Where an object stands in the order of loading. Preloaded objects, and what the program itself was linked with, come
 * before the C library: those behind this library are where a reference would have been bound to without it. */
enum elf_place { ELF_BEFORE, ELF_LINKED, ELF_LATER };

struct elf_object {
    const char *path;
    const char *soname; /* NULL: none */
    uintptr_t base;
    const ElfW(Phdr) * headers;
    int header_count;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash, *hash; /* either may be NULL */
    const uint16_t *versions;        /* NULL: symbols carry none */
    const void *definitions;         /* of versions */
    size_t definition_count;
    enum elf_place place;
};

/* Visits the loaded objects but this library, in the order in which they were loaded, until visit returns true, which
 * is then returned. Trap: visit may not call the loader, which waits for the list. */
bool elf_walk(bool (*visit)(const struct elf_object *o, void *data), void *data);
/* The object's function of that name, as a reference would find it that asks for the version (NULL: for none); or NULL.
 */
void *elf_function(const struct elf_object *o, const char *name, const char *version);
/* Whether the object defines symbols of the version. */
bool elf_has_version(const struct elf_object *o, const char *version);
/* Whether dlopen takes this name for the object: that which it calls itself or, if it has none, its file's. */
bool elf_is_named(const struct elf_object *o, const char *name);
bool elf_holds(const struct elf_object *o, const void *address);
/* The function in the first object after this library that defines it, else in the first of all others; or NULL. */
void *elf_next(const char *name);
/* The same, looked for once; known begins as NULL. */
void *elf_next_once(void *_Atomic *known, const char *name);
/* True when the address lies in this library. */
bool elf_is_ours(const void *address);

#endif
