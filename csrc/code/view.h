/* Bytes of an image, which may say anything: every read is checked against their count. */
#ifndef ULMS_VIEW_H
#define ULMS_VIEW_H

#include <string.h>

#include "types.h"

struct view {
    const uint8_t *at;
    uint64_t bytes;
};

static inline bool view_holds(const struct view *v, uint64_t offset, uint64_t bytes) {
    return offset <= v->bytes && bytes <= v->bytes - offset;
}

/* False, and nothing written, when it is not all there. */
static inline bool view_read(const struct view *v, uint64_t offset, void *to, uint64_t bytes) {
    if (!view_holds(v, offset, bytes))
        return false;
    memcpy(to, v->at + offset, bytes);
    return true;
}

/* Part of a view; empty when it is not all there. */
static inline struct view view_part(const struct view *v, uint64_t offset, uint64_t bytes) {
    return view_holds(v, offset, bytes) ? (struct view){v->at + offset, bytes} : (struct view){NULL, 0};
}

/* The text that begins there and ends with a zero; NULL when it does not end. */
static inline const char *view_text(const struct view *v, uint64_t offset) {
    if (offset >= v->bytes || !memchr(v->at + offset, 0, v->bytes - offset))
        return NULL;
    return (const char *)v->at + offset;
}

#endif
