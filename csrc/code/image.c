#include "code/image.h"

#include <stdlib.h>

#include "code/cubin.h"
#include "code/unpack.h"

#define FAT_BINARY 0xba55ed50u

struct fat_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries */
};

enum { ENTRY_CUBIN = 2 };
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

/* May be loaded on the device, as the same major number has the same instructions. */
static bool suits(uint32_t architecture, uint32_t device) {
    return architecture / 10 == device / 10 && architecture <= device;
}

static void add(struct code_image *i, struct view cubin, uint8_t *unpacked, uint32_t device) {
    struct cubin c;
    bool readable = cubin_open(&c, cubin);
    if (readable && suits(c.architecture, device) && i->cubins < CODE_CUBINS) {
        i->cubin[i->cubins] = cubin;
        i->unpacked[i->cubins++] = unpacked;
        return;
    }
    i->whole &= readable && !suits(c.architecture, device);
    free(unpacked);
}

static void add_packed(struct code_image *i, const struct fat_entry *e, struct view payload, uint32_t device,
                       code_zstd *zstd) {
    struct view packed = view_part(&payload, 0, e->packed_bytes);
    bool bounded = e->unpacked_bytes > 0 && e->unpacked_bytes <= CODE_CUBIN_MAX;
    uint8_t *to = packed.bytes && bounded ? malloc(e->unpacked_bytes) : NULL;
    bool lz4 = e->flags & ENTRY_LZ4;
    if (to && lz4 && unpack_lz4(to, e->unpacked_bytes, packed)) {
        add(i, (struct view){to, e->unpacked_bytes}, to, device);
    } else if (to && !lz4 && zstd && zstd(to, e->unpacked_bytes, packed.at, packed.bytes) == e->unpacked_bytes) {
        add(i, (struct view){to, e->unpacked_bytes}, to, device);
    } else {
        i->whole = false;
        free(to);
    }
}

static void add_entry(struct code_image *i, const struct fat_entry *e, struct view payload, uint32_t device,
                      code_zstd *zstd) {
    if (e->kind != ENTRY_CUBIN || !suits(e->architecture, device))
        return;
    if (e->flags & (ENTRY_LZ4 | ENTRY_ZSTD))
        add_packed(i, e, payload, device, zstd);
    else
        add(i, payload, NULL, device);
}

static void add_entries(struct code_image *i, struct view v, uint32_t device, code_zstd *zstd) {
    struct fat_header h;
    struct fat_entry e;
    if (!view_read(&v, 0, &h, sizeof h) || h.header_bytes < sizeof h || !view_holds(&v, h.header_bytes, h.bytes)) {
        i->whole = false;
        return;
    }
    v = view_part(&v, h.header_bytes, h.bytes);
    for (uint64_t at = 0; at < v.bytes;) {
        if (!view_read(&v, at, &e, sizeof e) || e.header_bytes < sizeof e ||
            !view_holds(&v, at + e.header_bytes, e.bytes)) {
            i->whole = false;
            return;
        }
        add_entry(i, &e, view_part(&v, at + e.header_bytes, e.bytes), device, zstd);
        at += e.header_bytes + e.bytes;
    }
}

bool code_image_open(struct code_image *i, struct view bytes, uint32_t architecture, code_zstd *zstd) {
    uint32_t magic = 0;
    *i = (struct code_image){.whole = true};
    view_read(&bytes, 0, &magic, sizeof magic);
    if (magic == FAT_BINARY)
        add_entries(i, bytes, architecture, zstd);
    else
        add(i, bytes, NULL, architecture);
    return i->cubins > 0;
}

void code_image_close(struct code_image *i) {
    for (uint32_t c = 0; c < i->cubins; c++)
        free(i->unpacked[c]);
    i->cubins = 0;
}
