#include "code/attribute.h"

enum { FORMAT_SIZED = 4 }; /* formats 1 to 3 hold their value in the head */

struct head {
    uint8_t format, code;
    uint16_t value; /* of FORMAT_SIZED: the number of bytes that follow */
};

bool attribute_read(const struct view *info, uint64_t *at, struct attribute *out) {
    struct head h;
    if (!view_read(info, *at, &h, sizeof h) || h.format == 0 || h.format > FORMAT_SIZED)
        return false;
    uint16_t bytes = h.format == FORMAT_SIZED ? h.value : 0;
    *out = (struct attribute){h.code, h.format == FORMAT_SIZED, h.value, view_part(info, *at + sizeof h, bytes)};
    *at += sizeof h + bytes;
    return out->payload.bytes == bytes;
}

bool attribute_parameter(const struct attribute *a, struct parameter_attribute *out) {
    enum { SIZE_SHIFT = 18 }; /* of a small one */
    if (a->payload.bytes != sizeof *out || !view_read(&a->payload, 0, out, sizeof *out))
        return false;
    if (a->code == ATTRIBUTE_PARAMETER)
        out->size >>= SIZE_SHIFT;
    return true;
}
