/* Finds a function in the objects loaded after this library, without dlsym: this library exports dlsym itself. */
#ifndef ULMS_ELF_H
#define ULMS_ELF_H

#include <stdbool.h>
#include <stddef.h>

/* The address of `name` in the first object after this library that defines it, else in the first of all others; or
 * NULL. */
void *elf_next(const char *name);
/* The path of the first object but this library that defines symbols of the version. False when none does. */
bool elf_defines(const char *version, char *path, size_t size);
/* True when the address lies in this library. */
bool elf_is_ours(const void *address);

#endif
