#include "code/unpack.h"

enum { NIBBLE_MAX = 15, MATCH_MIN = 4 };

/* Adds the bytes behind a length that fills its four bits. False: they do not end. */
static bool extend(uint64_t *length, const uint8_t **in, const uint8_t *in_end) {
    uint8_t byte = UINT8_MAX;
    if (*length != NIBBLE_MAX)
        return true;
    while (byte == UINT8_MAX) {
        if (*in == in_end)
            return false;
        byte = *(*in)++;
        *length += byte;
    }
    return true;
}

bool unpack_lz4(uint8_t *to, uint64_t room, struct view from) {
    const uint8_t *in = from.at, *in_end = in + from.bytes;
    uint8_t *out = to, *out_end = to + room;
    while (in < in_end) {
        uint8_t token = *in++;
        uint64_t literals = token >> 4, match = token & NIBBLE_MAX;
        if (!extend(&literals, &in, in_end) || literals > (uint64_t)(in_end - in) ||
            literals > (uint64_t)(out_end - out))
            return false;
        memcpy(out, in, literals);
        in += literals;
        out += literals;
        if (in == in_end)
            return out == out_end; /* a block ends with literals */
        if (in_end - in < 2)
            return false;
        uint64_t distance = in[0] | (uint64_t)in[1] << 8;
        in += 2;
        if (!extend(&match, &in, in_end))
            return false;
        match += MATCH_MIN;
        if (distance == 0 || distance > (uint64_t)(out - to) || match > (uint64_t)(out_end - out))
            return false;
        for (const uint8_t *source = out - distance; match > 0; match--) /* the two may overlap */
            *out++ = *source++;
    }
    return false;
}
