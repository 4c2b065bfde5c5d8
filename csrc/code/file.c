#define _GNU_SOURCE
#include "code/file.h"

#include "code/cubin.h"

enum { HEADER_BYTES = 16, BYTES_AT = 8 };

bool code_file_next(const struct view *file, uint64_t *at, struct view *image) {
    static const uint8_t magic[] = {0x50, 0xed, 0x55, 0xba, 1, 0, HEADER_BYTES, 0};
    struct cubin c;
    uint64_t bytes;
    if (*at == 0 && cubin_open(&c, *file)) {
        *at = file->bytes;
        *image = *file;
        return true;
    }
    while (*at < file->bytes) {
        const uint8_t *found = memmem(file->at + *at, file->bytes - *at, magic, sizeof magic);
        uint64_t start = found ? (uint64_t)(found - file->at) : file->bytes;
        *at = start + sizeof magic;
        if (!view_read(file, start + BYTES_AT, &bytes, sizeof bytes) || bytes > file->bytes)
            continue;
        *image = view_part(file, start, HEADER_BYTES + bytes);
        if (image->bytes)
            return true;
    }
    return false;
}
