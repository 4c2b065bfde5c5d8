/* Attributes of a kernel: the content of its section .nv.info.<name>. */
#ifndef ULMS_ATTRIBUTE_H
#define ULMS_ATTRIBUTE_H

#include "code/view.h"

enum attribute_code {
    ATTRIBUTE_BANK = 0x0a,
    ATTRIBUTE_PARAMETER = 0x17,
    ATTRIBUTE_TOTAL = 0x19, /* bytes of all parameters, as `value` */
    ATTRIBUTE_JUMPS = 0x34,
    ATTRIBUTE_LARGE_PARAMETER = 0x45
};

struct attribute {
    uint8_t code;
    bool sized;
    uint16_t value; /* unless sized */
    struct view payload;
};

/* Reads the one at *at, which moves behind it. False: it is odd. */
bool attribute_read(const struct view *info, uint64_t *at, struct attribute *out);

struct parameter_attribute {
    uint32_t index;
    uint16_t ordinal, offset; /* the offset in bytes, as is the size */
    uint32_t size;
};

static inline bool attribute_is_parameter(const struct attribute *a) {
    return a->code == ATTRIBUTE_PARAMETER || a->code == ATTRIBUTE_LARGE_PARAMETER;
}
/* False: it is odd. */
bool attribute_parameter(const struct attribute *a, struct parameter_attribute *out);

#endif
