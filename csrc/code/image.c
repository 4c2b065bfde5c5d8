#include "code/image.h"

#include <elf.h>
#include <stdlib.h>

#include "base/larger.h"
#include "base/process.h"
#include "code/cubin.h"
#include "code/unpack.h"

#define FAT_BINARY  0xba55ed50u
#define FAT_WRAPPER 0x466243b1u

/* Part of the program's memory, as an image declares it: nothing says that it is there. */
struct range {
    uintptr_t start;
    uint64_t bytes;
};

static bool peek(const struct range *r, uint64_t offset, void *to, uint64_t bytes) {
    if (offset > r->bytes || bytes > r->bytes - offset)
        return false;
    return process_read(to, (const void *)(r->start + offset), bytes) == bytes;
}

/* NULL when it is not all there, or too large. */
static uint8_t *copy(const struct range *r, uint64_t offset, uint64_t bytes) {
    uint8_t *to = bytes > 0 && bytes <= CODE_CUBIN_MAX && bytes <= r->bytes ? malloc(bytes) : NULL;
    if (to && peek(r, offset, to, bytes))
        return to;
    free(to);
    return NULL;
}

/* --- cubins --- */

/* Bytes up to the end of the last section. */
static uint64_t cubin_bytes(const struct range *r) {
    Elf64_Ehdr h;
    Elf64_Shdr first;
    if (!peek(r, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_machine != EM_CUDA ||
        h.e_shoff > CODE_CUBIN_MAX || !peek(r, h.e_shoff, &first, sizeof first))
        return 0;
    uint64_t count = h.e_shnum ? h.e_shnum : first.sh_size;
    uint64_t table = count <= CODE_CUBIN_MAX / sizeof first ? count * sizeof first : 0, end = h.e_shoff + table;
    Elf64_Shdr *s = (Elf64_Shdr *)(void *)copy(r, h.e_shoff, table);
    for (uint64_t i = 1; s && i < count; i++)
        if (s[i].sh_type != SHT_NOBITS && s[i].sh_size <= CODE_CUBIN_MAX)
            end = larger(end, smaller(s[i].sh_offset, CODE_CUBIN_MAX) + s[i].sh_size);
    free(s);
    return s ? end : 0;
}

/* May be loaded on the device, as the same major number has the same instructions. */
static bool suits(uint32_t architecture, uint32_t device) {
    return device == 0 || (architecture / 10 == device / 10 && architecture <= device);
}

/* Takes the content. */
static void add(struct code_image *i, uint8_t *content, uint64_t bytes, uint32_t device) {
    struct view v = {content, content ? bytes : 0};
    struct cubin c;
    bool readable = content && cubin_open(&c, v);
    if (readable && suits(c.architecture, device) && i->cubins < CODE_CUBINS) {
        i->cubin[i->cubins] = v;
        i->content[i->cubins++] = content;
        return;
    }
    i->whole &= readable && !suits(c.architecture, device);
    free(content);
}

/* --- fat binaries --- */

struct fat_wrapper {
    uint32_t magic, version;
    uint64_t fat_binary; /* its address */
};

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};

enum { VERSION = 1, ENTRY_VERSION = 0x101, ENTRY_CUBIN = 2 };
#define ENTRY_LZ4  UINT64_C(0x2000)
#define ENTRY_ZSTD UINT64_C(0x8000)

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;        /* behind the header */
    uint32_t packed_bytes; /* of a compressed payload, which is padded */
    uint32_t unused;
    uint16_t minor, major; /* of the format */
    uint32_t architecture;
    uint32_t name[2];
    uint64_t flags;
    uint64_t zero;
    uint64_t unpacked_bytes;
};

static uint8_t *unpacked(const struct fat_entry *e, const struct range *payload) {
    bool bounded = e->unpacked_bytes > 0 && e->unpacked_bytes <= CODE_CUBIN_MAX;
    uint8_t *packed = bounded ? copy(payload, 0, e->packed_bytes) : NULL;
    uint8_t *to = packed ? malloc(e->unpacked_bytes) : NULL;
    struct view from = {packed, e->packed_bytes};
    bool lz4 = e->flags & ENTRY_LZ4;
    if (to && !(lz4 ? unpack_lz4(to, e->unpacked_bytes, from) : unpack_zstd(to, e->unpacked_bytes, from))) {
        free(to);
        to = NULL;
    }
    free(packed);
    return to;
}

static void add_entry(struct code_image *i, const struct fat_entry *e, const struct range *payload, uint32_t device,
                      bool unpacks) {
    if (!suits(e->architecture, device))
        return;
    if (e->flags & (ENTRY_LZ4 | ENTRY_ZSTD))
        add(i, unpacks ? unpacked(e, payload) : NULL, e->unpacked_bytes, device);
    else
        add(i, copy(payload, 0, payload->bytes), payload->bytes, device);
}

/* False: what it says of itself is odd. Tells whether it holds something to compile. */
static bool add_entries(struct code_image *i, const struct range *r, uint32_t device, bool unpacks, bool *compiles) {
    struct fat_header h;
    struct fat_entry e;
    if (!peek(r, 0, &h, sizeof h) || h.version != VERSION || h.header_bytes < sizeof h || h.header_bytes > r->bytes ||
        h.bytes > r->bytes - h.header_bytes)
        return false;
    struct range all = {r->start + h.header_bytes, h.bytes};
    for (uint64_t at = 0; at < all.bytes; at += e.header_bytes + e.bytes) {
        if (!peek(&all, at, &e, sizeof e) || e.version != ENTRY_VERSION || e.header_bytes < sizeof e ||
            e.header_bytes > all.bytes - at || e.bytes > all.bytes - at - e.header_bytes)
            return false;
        struct range payload = {all.start + at + e.header_bytes, e.bytes};
        if (e.kind == ENTRY_CUBIN)
            add_entry(i, &e, &payload, device, unpacks);
        else
            *compiles = true;
    }
    return true;
}

/* One for the very device, which the driver takes before it compiles. */
static bool has_exact(const struct code_image *i, uint32_t device) {
    struct cubin c;
    for (uint32_t n = 0; n < i->cubins; n++)
        if (cubin_open(&c, i->cubin[n]) && c.architecture == device)
            return true;
    return false;
}

/* A wrapper of another version may name more fat binaries, which are linked: then nothing is there. */
static struct range range_of(const void *start, uint64_t bytes) {
    struct range r = {(uintptr_t)start, bytes};
    struct fat_wrapper w;
    if (peek(&r, 0, &w, sizeof w) && w.magic == FAT_WRAPPER)
        r = (struct range){w.fat_binary, w.version == VERSION ? CODE_UNSIZED : 0};
    return r;
}

static bool is_fat(const struct range *r, struct fat_header *h) {
    return peek(r, 0, h, sizeof *h) && h->magic == FAT_BINARY;
}

bool code_image_open(struct code_image *i, const void *start, uint64_t bytes, uint32_t architecture, bool unpacks) {
    struct range r = range_of(start, bytes);
    struct fat_header h;
    bool compiles = false;
    *i = (struct code_image){.whole = true};
    if (is_fat(&r, &h)) {
        i->whole &= add_entries(i, &r, architecture, unpacks, &compiles);
    } else {
        uint64_t all = r.bytes == CODE_UNSIZED ? cubin_bytes(&r) : r.bytes;
        add(i, copy(&r, 0, all), all, architecture);
    }
    i->whole &= !compiles || has_exact(i, architecture);
    return i->cubins > 0;
}

void code_image_close(struct code_image *i) {
    for (uint32_t c = 0; c < i->cubins; c++)
        free(i->content[c]);
    i->cubins = 0;
}

uint64_t code_image_bytes(const void **start) {
    struct range r = range_of(*start, CODE_UNSIZED);
    struct fat_header h;
    *start = (const void *)r.start;
    if (is_fat(&r, &h))
        return h.bytes <= CODE_UNSIZED - h.header_bytes ? h.header_bytes + h.bytes : 0;
    return cubin_bytes(&r);
}
