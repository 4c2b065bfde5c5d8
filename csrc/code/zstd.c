/* Frames of zstd (RFC 8878), of which fat binaries hold one for each packed entry. */
#include "code/fse.h"
#include "code/huffman.h"
#include "code/unpack.h"

enum { BLOCK_MOST = 1 << 17 };
#define MAGIC 0xfd2fb528u

enum code { LITERALS, OFFSET, MATCH, CODES }; /* of a sequence, as their tables lie in a block */

struct frame {
    uint8_t *start, *out, *end;
    struct huffman huffman;
    struct fse table[CODES];
    uint64_t repeat[3]; /* the last distances */
};

/* Little endian; `v` becomes the rest. */
static bool view_take(struct view *v, void *to, uint64_t bytes) {
    bool there = view_read(v, 0, to, bytes);
    if (there)
        *v = (struct view){v->at + bytes, v->bytes - bytes};
    return there;
}

static uint64_t room(const struct frame *f) {
    return (uint64_t)(f->end - f->out);
}

/* --- literals --- */

enum { RAW, ONE, PACKED, PACKED_AS_BEFORE };

/* The numbers of bytes, unpacked and packed, that follow the form. */
static bool read_sizes(struct view *block, int how, uint64_t *bytes, uint64_t *packed, bool *several) {
    uint64_t head = 0;
    uint32_t form = block->bytes ? block->at[0] >> 2 & 3 : 0;
    if (how == RAW || how == ONE) {
        uint32_t size = form % 2 == 0 ? 1 : form == 1 ? 2 : 3;
        bool there = view_take(block, &head, size);
        *bytes = head >> (size == 1 ? 3 : 4);
        *packed = how == RAW ? *bytes : 1;
        return there;
    }
    uint32_t size = form < 2 ? 3 : form + 2, bits = form < 2 ? 10 : form == 2 ? 14 : 18;
    bool there = view_take(block, &head, size);
    *bytes = head >> 4 & ((1u << bits) - 1);
    *packed = head >> (4 + bits);
    *several = form > 0;
    return there;
}

/* In one stream, or in four, of which the sizes of three come first. */
static bool unpack_literals(const struct huffman *h, uint8_t *to, uint64_t bytes, struct view from, bool several) {
    uint16_t size[3];
    uint64_t quarter = (bytes + 3) / 4, done = 0;
    if (!several)
        return huffman_unpack(h, to, bytes, from);
    if (!view_take(&from, size, sizeof size) || 3 * quarter > bytes)
        return false;
    for (int n = 0; n < 3; n++, done += quarter) {
        if (size[n] > from.bytes || !huffman_unpack(h, to + done, quarter, (struct view){from.at, size[n]}))
            return false;
        from = view_part(&from, size[n], from.bytes - size[n]);
    }
    return huffman_unpack(h, to + done, bytes - done, from);
}

/* They lie in the block, or are unpacked to the end of the room, before which all that is written ends. */
static bool read_literals(struct frame *f, struct view *block, struct view *literals) {
    int how = block->bytes ? block->at[0] & 3 : RAW;
    uint64_t bytes, packed;
    bool several = false;
    if (!read_sizes(block, how, &bytes, &packed, &several) || bytes > BLOCK_MOST || bytes > room(f) ||
        packed > block->bytes)
        return false;
    struct view from = {block->at, packed};
    uint8_t *to = f->end - bytes;
    *block = (struct view){block->at + packed, block->bytes - packed};
    *literals = (struct view){how == RAW ? from.at : to, bytes};
    if (how == ONE)
        memset(to, from.at[0], bytes);
    if (how == PACKED && !huffman_read(&f->huffman, &from))
        return false;
    return how == RAW || how == ONE || unpack_literals(&f->huffman, to, bytes, from, several);
}

/* --- sequences: literals that are copied, then something from before --- */

static const uint8_t literal_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  1,  1,
                                       1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t match_bits[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  0,  0,  0, 0,
                                     0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0,  1,  1,  1, 1,
                                     2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint32_t literal_first[] = {0,  1,  2,   3,   4,   5,    6,    7,    8,    9,     10,    11,
                                         12, 13, 14,  15,  16,  18,   20,   22,   24,   28,    32,    40,
                                         48, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
static const uint32_t match_first[] = {3,  4,   5,   6,   7,    8,    9,    10,   11,    12,    13,   14, 15, 16,
                                       17, 18,  19,  20,  21,   22,   23,   24,   25,    26,    27,   28, 29, 30,
                                       31, 32,  33,  34,  35,   37,   39,   41,   43,    47,    51,   59, 67, 83,
                                       99, 131, 259, 515, 1027, 2051, 4099, 8195, 16387, 32771, 65539};

static const int16_t literal_share[] = {4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1,  1,  2,  2,
                                        2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1};
static const int16_t offset_share[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 1,  1,  1,  1,  1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1};
static const int16_t match_share[] = {1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  1,  1, 1,
                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct {
    const int16_t *share;
    uint8_t shares, log, symbols, log_most;
} usual[CODES] = {{literal_share, COUNT(literal_share), 6, COUNT(literal_bits), 9},
                  {offset_share, COUNT(offset_share), 5, 32, 8},
                  {match_share, COUNT(match_share), 6, COUNT(match_bits), 9}};

enum { USUAL, ONLY, READ, AS_BEFORE };

static bool read_table(struct fse *f, struct view *block, enum code code, int how) {
    uint8_t symbol;
    switch (how) {
    case USUAL:
        fse_fill(f, usual[code].share, usual[code].shares, usual[code].log);
        return true;
    case ONLY:
        if (!view_take(block, &symbol, 1) || symbol >= usual[code].symbols)
            return false;
        fse_only(f, symbol);
        return true;
    case READ:
        return fse_read(f, block, usual[code].symbols, usual[code].log_most);
    default:
        return f->there;
    }
}

static bool read_count(struct view *block, uint32_t *count) {
    uint8_t byte[3] = {0};
    uint32_t more = block->bytes && block->at[0] >= 128 ? block->at[0] == 255 ? 2 : 1 : 0;
    if (!view_take(block, byte, 1 + more))
        return false;
    *count = more == 0 ? byte[0] : more == 1 ? (byte[0] - 128u) << 8 | byte[1] : 0x7f00u + byte[1] + (byte[2] << 8);
    return true;
}

/* The distance that a number means: one of the last ones, or a new one. 0: damaged. */
static uint64_t distance_of(struct frame *f, uint64_t number, bool literals) {
    uint64_t *last = f->repeat, index = number > 3 ? 3 : number - literals;
    uint64_t distance = number > 3 ? number - 3 : index == 3 ? last[0] - 1 : last[index];
    if (index >= 2)
        last[2] = last[1];
    if (index >= 1)
        last[1] = last[0];
    last[0] = distance;
    return distance;
}

static void put_literals(struct frame *f, struct view *literals, uint64_t bytes) {
    memmove(f->out, literals->at, bytes); /* the two may overlap */
    *literals = (struct view){literals->at + bytes, literals->bytes - bytes};
    f->out += bytes;
}

static bool put_sequence(struct frame *f, struct view *literals, uint64_t bytes, uint64_t distance, uint64_t match) {
    if (bytes > literals->bytes)
        return false;
    put_literals(f, literals, bytes);
    if (distance == 0 || distance > (uint64_t)(f->out - f->start) || match > room(f) - literals->bytes)
        return false;
    const uint8_t *from = f->out - distance;
    if (match <= distance) {
        memcpy(f->out, from, match);
        f->out += match;
    } else {
        for (; match > 0; match--)
            *f->out++ = *from++;
    }
    return true;
}

static bool put_sequences(struct frame *f, struct view *literals, struct view bits, uint32_t count) {
    const struct fse *t = f->table;
    struct bitstream b;
    uint32_t state[CODES];
    if (!bitstream_open(&b, bits))
        return false;
    for (int c = 0; c < CODES; c++)
        state[c] = (uint32_t)bitstream_take(&b, t[c].log);
    for (; count > 0; count--) {
        uint32_t l = t[LITERALS].state[state[LITERALS]].symbol, o = t[OFFSET].state[state[OFFSET]].symbol,
                 m = t[MATCH].state[state[MATCH]].symbol;
        uint64_t number = (UINT64_C(1) << o) + bitstream_take(&b, o);
        uint64_t match = match_first[m] + bitstream_take(&b, match_bits[m]);
        uint64_t bytes = literal_first[l] + bitstream_take(&b, literal_bits[l]);
        if (b.left < 0 || !put_sequence(f, literals, bytes, distance_of(f, number, bytes > 0), match))
            return false;
        if (count > 1) {
            state[LITERALS] = fse_next(&t[LITERALS], state[LITERALS], &b);
            state[MATCH] = fse_next(&t[MATCH], state[MATCH], &b);
            state[OFFSET] = fse_next(&t[OFFSET], state[OFFSET], &b);
        }
    }
    return b.left == 0;
}

/* --- blocks --- */

static bool unpack_block(struct frame *f, struct view block) {
    struct view literals;
    uint32_t count;
    uint8_t modes = 0;
    if (!read_literals(f, &block, &literals) || !read_count(&block, &count) ||
        (count && !view_take(&block, &modes, 1)) || modes & 3)
        return false;
    for (int c = 0; c < CODES && count; c++)
        if (!read_table(&f->table[c], &block, (enum code)c, modes >> (6 - 2 * c) & 3))
            return false;
    if (count ? !put_sequences(f, &literals, block, count) : block.bytes > 0)
        return false;
    put_literals(f, &literals, literals.bytes);
    return true;
}

static bool put_block(struct frame *f, int how, struct view block, uint64_t bytes) {
    if (how == PACKED)
        return unpack_block(f, block);
    if (bytes > room(f))
        return false;
    if (how == RAW)
        memcpy(f->out, block.at, bytes);
    else
        memset(f->out, block.at[0], bytes);
    f->out += bytes;
    return true;
}

/* Frames with a dictionary are not read, nor those with a checksum, which nothing here could compute. */
static bool read_head(struct view *from, uint64_t room) {
    static const uint8_t size_bytes[4] = {0, 2, 4, 8};
    uint32_t magic;
    uint8_t head, window;
    uint64_t bytes = 0;
    if (!view_take(from, &magic, sizeof magic) || magic != MAGIC || !view_take(from, &head, 1) || head & 0xf)
        return false;
    bool single = head & 0x20;
    uint32_t wide = head >> 6 ? size_bytes[head >> 6] : single;
    if ((!single && !view_take(from, &window, 1)) || !view_take(from, &bytes, wide))
        return false;
    return wide == 0 || bytes + (wide == 2 ? 256 : 0) == room;
}

bool unpack_zstd(uint8_t *to, uint64_t room, struct view from) {
    struct frame f = {.start = to, .out = to, .end = to + room, .repeat = {1, 4, 8}};
    uint32_t head = 0;
    if (!read_head(&from, room))
        return false;
    while (!(head & 1)) {
        head = 0;
        if (!view_take(&from, &head, 3))
            return false;
        int how = head >> 1 & 3;
        uint64_t bytes = head >> 3, packed = how == ONE ? 1 : bytes;
        if (how > PACKED || bytes > BLOCK_MOST || packed > from.bytes ||
            !put_block(&f, how, (struct view){from.at, packed}, bytes))
            return false;
        from = (struct view){from.at + packed, from.bytes - packed};
    }
    return from.bytes == 0 && f.out == f.end;
}
