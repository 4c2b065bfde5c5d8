/* Bits that are read from their end, and the tables of states that zstd packs numbers with (RFC 8878, 4.1). */
#ifndef ULMS_FSE_H
#define ULMS_FSE_H

#include "code/view.h"

/* What is left may become negative: the bits before the first are zero. */
struct bitstream {
    const uint8_t *at;
    int64_t left;
};

/* False: its last byte, which holds the mark of its end, is missing. */
bool bitstream_open(struct bitstream *b, struct view bytes);

/* The next bits, 56 at most. */
static inline uint64_t bitstream_see(const struct bitstream *b, uint32_t count) {
    uint64_t word = 0, bytes = b->left > 0 ? (uint64_t)(b->left + 7) / 8 : 0;
    if (count == 0 || bytes == 0)
        return 0;
    if (bytes >= sizeof word)
        memcpy(&word, b->at + bytes - sizeof word, sizeof word);
    else
        memcpy((uint8_t *)&word + sizeof word - bytes, b->at, bytes);
    return word << (bytes * 8 - (uint64_t)b->left) >> (64 - count);
}

static inline uint64_t bitstream_take(struct bitstream *b, uint32_t count) {
    uint64_t bits = bitstream_see(b, count);
    b->left -= count;
    return bits;
}

enum { FSE_LOG = 9, FSE_SYMBOLS = 256 };

struct fse {
    bool there;
    uint8_t log; /* of the number of states */
    struct {
        uint16_t next; /* state, without the bits that are added */
        uint8_t bits, symbol;
    } state[1 << FSE_LOG];
};

/* Reads the description that `from` begins with, of so many symbols and states at most; `from` becomes the rest. */
bool fse_read(struct fse *f, struct view *from, uint32_t symbols, uint8_t log);
/* From the symbols' shares of the states; -1: one of the last ones. They must add up to all states. */
void fse_fill(struct fse *f, const int16_t *share, uint32_t symbols, uint8_t log);
/* One state. */
void fse_only(struct fse *f, uint8_t symbol);

static inline uint32_t fse_next(const struct fse *f, uint32_t state, struct bitstream *b) {
    return f->state[state].next + (uint32_t)bitstream_take(b, f->state[state].bits);
}

#endif
