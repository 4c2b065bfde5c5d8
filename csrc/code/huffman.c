#include "code/huffman.h"

#include "code/fse.h"

enum { SYMBOLS = 256, WEIGHT_LOG = 6, DIRECT = 128 };

/* Two states take turns, until one asks for bits that are not there. The last symbol has no weight of its own. */
static bool read_weights(struct view from, uint8_t *weight, uint32_t *count) {
    struct fse f;
    struct bitstream b;
    if (!fse_read(&f, &from, HUFFMAN_LOG + 1, WEIGHT_LOG) || !bitstream_open(&b, from))
        return false;
    uint32_t state[2], turn = 0;
    for (int n = 0; n < 2; n++)
        state[n] = (uint32_t)bitstream_take(&b, f.log);
    if (b.left < 0)
        return false;
    for (*count = 0; *count < SYMBOLS - 2; turn = !turn) {
        weight[(*count)++] = f.state[state[turn]].symbol;
        state[turn] = fse_next(&f, state[turn], &b);
        if (b.left < 0) {
            weight[(*count)++] = f.state[state[!turn]].symbol;
            return true;
        }
    }
    return false;
}

static bool read_direct(struct view from, uint8_t *weight, uint32_t count) {
    for (uint32_t n = 0; n < count; n++)
        weight[n] = n % 2 ? from.at[n / 2] & 15 : from.at[n / 2] >> 4;
    return true;
}

/* A weight is the number of bits by which a code is shorter than the longest, and one. The last one fills the rest. */
static bool fill(struct huffman *h, uint8_t *weight, uint32_t count) {
    uint32_t sum = 0, of[HUFFMAN_LOG + 2] = {0}, start = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (weight[n] > HUFFMAN_LOG)
            return false;
        sum += (1u << weight[n]) / 2;
    }
    uint32_t log = sum ? 32 - (uint32_t)__builtin_clz(sum) : 0, rest = sum ? (1u << log) - sum : 0;
    if (log == 0 || log > HUFFMAN_LOG || (rest & (rest - 1)) != 0)
        return false;
    weight[count++] = (uint8_t)(32 - (uint32_t)__builtin_clz(rest));
    for (uint32_t n = 0; n < count; n++)
        of[weight[n]]++;
    if (of[1] < 2)
        return false;
    for (uint32_t w = 1; w <= log; w++)
        for (uint32_t n = 0; n < count; n++)
            for (uint32_t k = 0; weight[n] == w && k < 1u << (w - 1); k++, start++) {
                h->code[start].symbol = (uint8_t)n;
                h->code[start].bits = (uint8_t)(log + 1 - w);
            }
    h->log = (uint8_t)log;
    return true;
}

bool huffman_read(struct huffman *h, struct view *from) {
    uint8_t head, weight[SYMBOLS];
    uint32_t count;
    if (!view_read(from, 0, &head, 1))
        return false;
    uint64_t bytes = head < DIRECT ? head : (head - DIRECT + 2u) / 2;
    struct view packed = view_part(from, 1, bytes);
    if (packed.bytes != bytes)
        return false;
    count = head - DIRECT + 1u;
    *from = view_part(from, 1 + bytes, from->bytes - 1 - bytes);
    return (head < DIRECT ? read_weights(packed, weight, &count) : read_direct(packed, weight, count)) &&
           fill(h, weight, count);
}

bool huffman_unpack(const struct huffman *h, uint8_t *to, uint64_t bytes, struct view from) {
    struct bitstream b;
    if (h->log == 0 || !bitstream_open(&b, from))
        return false;
    for (uint64_t n = 0; n < bytes; n++) {
        uint64_t next = bitstream_see(&b, h->log);
        to[n] = h->code[next].symbol;
        b.left -= h->code[next].bits;
    }
    return b.left == 0;
}
