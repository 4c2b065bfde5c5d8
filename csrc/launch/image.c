#include "launch/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"

#define FAT_BINARY  0xba55ed50u
#define FAT_WRAPPER 0x466243b1u

enum { PIECE_MAX = 64 << 20 }; /* the most that is copied at once, in bytes */

/* Of kernels of the same name one stays. */
struct kernel {
    const char *name;
    bool known; /* false: two cubins disagree */
    uint32_t parameters;
    struct parameter {
        uint16_t offset, size; /* size 0: not told yet */
    } parameter[];
};

struct image {
    struct kernel **kernel; /* by name */
    size_t kernels, room;
};

/* Part of the program's memory, as an image declares it: nothing says that it is there. */
struct view {
    uintptr_t start;
    uint64_t bytes;
};

static bool peek(const struct view *v, uint64_t offset, void *to, size_t bytes) {
    if (offset > v->bytes || bytes > v->bytes - offset)
        return false;
    return process_read(to, (const void *)(v->start + offset), bytes) == bytes;
}

/* A copy with a zero behind it, to be freed; NULL when it is not all there. */
static void *copy(const struct view *v, uint64_t offset, uint64_t bytes) {
    char *to = bytes <= PIECE_MAX && bytes <= v->bytes ? malloc(bytes + 1) : NULL;
    if (!to || !peek(v, offset, to, bytes)) {
        free(to);
        return NULL;
    }
    to[bytes] = 0;
    return to;
}

/* --- attributes of a kernel: its section .nv.info.<name> --- */

enum { FORMAT_SIZED = 4 }; /* formats 1 to 3 hold their value in the head */
enum { CODE_PARAMETER = 0x17, CODE_TOTAL = 0x19, CODE_LARGE_PARAMETER = 0x45 };

struct attribute {
    uint8_t format, code;
    uint16_t value; /* of FORMAT_SIZED: the number of bytes that follow */
};

struct parameter_attribute {
    uint32_t index;
    uint16_t ordinal, offset;
    uint32_t size; /* in bytes; in its upper 14 bits unless the code is CODE_LARGE_PARAMETER */
};

enum { PARAMETER_RECORD = sizeof(struct attribute) + sizeof(struct parameter_attribute) };

static bool add_parameter(struct kernel *k, uint32_t room, uint8_t code, const char *data) {
    struct parameter_attribute p;
    memcpy(&p, data, sizeof p);
    uint32_t size = code == CODE_LARGE_PARAMETER ? p.size : p.size >> 18;
    if (p.ordinal >= room || size > UINT16_MAX)
        return false;
    k->parameter[p.ordinal] = (struct parameter){p.offset, (uint16_t)size};
    k->parameters++;
    return true;
}

static bool add_attributes(struct kernel *k, uint32_t room, const char *at, const char *end, uint32_t *total) {
    struct attribute a;
    while (at < end) {
        if (end - at < (ptrdiff_t)sizeof a)
            return false;
        memcpy(&a, at, sizeof a);
        at += sizeof a;
        size_t bytes = a.format == FORMAT_SIZED ? a.value : 0;
        if (a.format == 0 || a.format > FORMAT_SIZED || end - at < (ptrdiff_t)bytes)
            return false;
        if (a.code == CODE_TOTAL && a.format < FORMAT_SIZED)
            *total = a.value;
        else if ((a.code == CODE_PARAMETER || a.code == CODE_LARGE_PARAMETER) &&
                 (bytes != sizeof(struct parameter_attribute) || !add_parameter(k, room, a.code, at)))
            return false;
        at += bytes;
    }
    return true;
}

/* Every parameter was told, once, and they end where the kernel says: one left out would be a hidden pointer. */
static bool complete(const struct kernel *k, uint32_t total) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < k->parameters; i++) {
        const struct parameter *p = &k->parameter[i];
        if (p->size == 0 || p->offset < end)
            return false;
        end = (uint32_t)p->offset + p->size;
    }
    return end == total && k->parameters <= PARAMETERS_MAX;
}

static struct kernel *read_kernel(const char *name, const char *info, size_t bytes) {
    uint32_t room = (uint32_t)(bytes / PARAMETER_RECORD), total = 0;
    size_t parameters = room * sizeof(struct parameter), text = strlen(name) + 1;
    struct kernel *k = calloc(1, sizeof *k + parameters + text);
    if (!k)
        return NULL;
    k->name = memcpy((char *)k->parameter + parameters, name, text);
    k->known = add_attributes(k, room, info, info + bytes, &total) && complete(k, total);
    return k;
}

static void add_kernel(struct image *i, struct kernel *k) {
    if (k && i->kernels == i->room) {
        size_t room = i->room ? 2 * i->room : 16;
        struct kernel **larger = realloc(i->kernel, room * sizeof(struct kernel *));
        if (larger) {
            i->kernel = larger;
            i->room = room;
        }
    }
    if (k && i->kernels < i->room)
        i->kernel[i->kernels++] = k;
    else
        free(k);
}

/* --- containers --- */

static void read_sections(struct image *out, const struct view *v, const Elf64_Shdr *sections, uint64_t count,
                          const char *names, uint64_t names_bytes) {
    static const char prefix[] = ".nv.info.";
    for (uint64_t i = 0; i < count; i++) {
        const Elf64_Shdr *s = &sections[i];
        if (s->sh_name >= names_bytes || strncmp(names + s->sh_name, prefix, sizeof prefix - 1) != 0)
            continue;
        char *info = copy(v, s->sh_offset, s->sh_size);
        if (info)
            add_kernel(out, read_kernel(names + s->sh_name + sizeof prefix - 1, info, s->sh_size));
        free(info);
    }
}

static bool is_cubin(const Elf64_Ehdr *h) {
    return memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64 &&
           h->e_ident[EI_DATA] == ELFDATA2LSB && h->e_machine == EM_CUDA && h->e_shentsize == sizeof(Elf64_Shdr);
}

static void read_cubin(struct image *out, const struct view *v) {
    Elf64_Ehdr h;
    Elf64_Shdr first;
    if (!peek(v, 0, &h, sizeof h) || !is_cubin(&h) || !peek(v, h.e_shoff, &first, sizeof first))
        return;
    /* what is too large for the header stands in the first section */
    uint64_t count = h.e_shnum ? h.e_shnum : first.sh_size;
    uint32_t names_at = h.e_shstrndx == SHN_XINDEX ? first.sh_link : h.e_shstrndx;
    if (count > PIECE_MAX / sizeof first || names_at >= count)
        return;
    Elf64_Shdr *sections = copy(v, h.e_shoff, count * sizeof first);
    char *names = sections ? copy(v, sections[names_at].sh_offset, sections[names_at].sh_size) : NULL;
    if (names)
        read_sections(out, v, sections, count, names, sections[names_at].sh_size);
    free(names);
    free(sections);
}

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* behind the header */
};

/* Entries of another kind, and compressed ones, do not begin like a cubin. */
static void read_fat_binary(struct image *out, const struct view *v) {
    struct fat_header h;
    if (!peek(v, 0, &h, sizeof h) || h.magic != FAT_BINARY || h.header_bytes < sizeof h || h.header_bytes > v->bytes)
        return;
    uint64_t at = h.header_bytes, left = v->bytes - at < h.bytes ? v->bytes - at : h.bytes;
    struct fat_entry e;
    while (left >= sizeof e && peek(v, at, &e, sizeof e)) {
        if (e.header_bytes < sizeof e || e.header_bytes > left || e.bytes > left - e.header_bytes)
            return;
        struct view cubin = {v->start + at + e.header_bytes, e.bytes};
        read_cubin(out, &cubin);
        at += e.header_bytes + e.bytes;
        left -= e.header_bytes + e.bytes;
    }
}

struct fat_wrapper {
    uint32_t magic, version;
    uint64_t fat_binary; /* its address */
};

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct kernel *const *)a)->name, (*(struct kernel *const *)b)->name);
}

static bool same(const struct kernel *a, const struct kernel *b) {
    return a->known && b->known && a->parameters == b->parameters &&
           memcmp(a->parameter, b->parameter, a->parameters * sizeof a->parameter[0]) == 0;
}

static void fold(struct image *i) {
    size_t n = 0;
    qsort(i->kernel, i->kernels, sizeof(struct kernel *), by_name);
    for (size_t k = 0; k < i->kernels; k++) {
        struct kernel *last = n ? i->kernel[n - 1] : NULL, *next = i->kernel[k];
        if (last && strcmp(last->name, next->name) == 0) {
            last->known = same(last, next);
            free(next);
        } else {
            i->kernel[n++] = next;
        }
    }
    i->kernels = n;
}

struct image *image_read(const void *start, uint64_t bytes) {
    struct view v = {(uintptr_t)start, bytes};
    struct fat_wrapper w;
    struct image *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    if (peek(&v, 0, &w, sizeof w) && w.magic == FAT_WRAPPER)
        v = (struct view){w.fat_binary, IMAGE_UNSIZED};
    read_cubin(i, &v);
    read_fat_binary(i, &v);
    if (i->kernels == 0) {
        image_free(i);
        return NULL;
    }
    fold(i);
    return i;
}

bool image_layout(const struct image *i, const char *kernel, struct layout *out) {
    struct kernel wanted = {.name = kernel}, *key = &wanted;
    struct kernel *const *found = bsearch(&key, i->kernel, i->kernels, sizeof(struct kernel *), by_name);
    if (!found || !(*found)->known)
        return false;
    out->known = true;
    out->parameters = (*found)->parameters;
    for (uint32_t p = 0; p < out->parameters; p++) {
        out->offset[p] = (*found)->parameter[p].offset;
        out->size[p] = (*found)->parameter[p].size;
    }
    return true;
}

void image_free(struct image *i) {
    if (!i)
        return;
    for (size_t k = 0; k < i->kernels; k++)
        free(i->kernel[k]);
    free(i->kernel);
    free(i);
}
