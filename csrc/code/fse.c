#include "code/fse.h"

static uint32_t log_of(uint64_t number) {
    return 63 - (uint32_t)__builtin_clzll(number);
}

bool bitstream_open(struct bitstream *b, struct view bytes) {
    if (bytes.bytes == 0 || bytes.at[bytes.bytes - 1] == 0)
        return false;
    *b = (struct bitstream){bytes.at, (int64_t)(bytes.bytes - 1) * 8 + log_of(bytes.at[bytes.bytes - 1])};
    return true;
}

/* Bits from the beginning on, the lowest first; zeros behind the end. */
static uint32_t bits_at(const struct view *v, uint64_t bit, uint32_t count) {
    uint32_t bits = 0;
    for (uint64_t n = 0; n < 4 && bit / 8 + n < v->bytes; n++)
        bits |= (uint32_t)v->at[bit / 8 + n] << 8 * n;
    return bits >> bit % 8 & ((1u << count) - 1);
}

/* A share and one, in no more bits than the states that are left ask for; small numbers take one bit less. */
static uint32_t take_share(const struct view *v, uint64_t *bit, uint32_t left) {
    uint32_t bits = log_of(left + 1) + 1, half = 1u << (bits - 1), small = (1u << bits) - 2 - left;
    uint32_t number = bits_at(v, *bit, bits);
    if ((number & (half - 1)) < small) {
        *bit += bits - 1;
        return number & (half - 1);
    }
    *bit += bits;
    return number >= half ? number - small : number;
}

bool fse_read(struct fse *f, struct view *from, uint32_t symbols, uint8_t log) {
    int16_t share[FSE_SYMBOLS] = {0};
    uint64_t bit = 4;
    uint8_t own = (uint8_t)(bits_at(from, 0, 4) + 5);
    uint32_t count = 0, left = 1u << own;
    if (own > log)
        return false;
    while (left > 0 && count < symbols) {
        share[count] = (int16_t)((int)take_share(from, &bit, left) - 1);
        left -= (uint32_t)(share[count] < 0 ? 1 : share[count]);
        if (share[count++] == 0)
            for (uint32_t more = 3; more == 3; bit += 2) {
                more = bits_at(from, bit, 2);
                count += more;
                if (count > symbols || bit / 8 >= from->bytes)
                    return false;
            }
    }
    uint64_t bytes = (bit + 7) / 8;
    if (left > 0 || !view_holds(from, 0, bytes))
        return false;
    fse_fill(f, share, count, own);
    *from = view_part(from, bytes, from->bytes - bytes);
    return true;
}

void fse_fill(struct fse *f, const int16_t *share, uint32_t symbols, uint8_t log) {
    uint32_t states = 1u << log, step = states / 2 + states / 8 + 3, high = states, at = 0;
    uint16_t next[FSE_SYMBOLS];
    for (uint32_t s = 0; s < symbols; s++) {
        next[s] = (uint16_t)(share[s] < 0 ? 1 : share[s]);
        if (share[s] < 0)
            f->state[--high].symbol = (uint8_t)s;
    }
    for (uint32_t s = 0; s < symbols; s++)
        for (int n = 0; n < share[s]; n++) {
            f->state[at].symbol = (uint8_t)s;
            do
                at = (at + step) % states;
            while (at >= high);
        }
    for (uint32_t n = 0; n < states; n++) {
        uint32_t own = next[f->state[n].symbol]++;
        f->state[n].bits = (uint8_t)(log - log_of(own));
        f->state[n].next = (uint16_t)((own << f->state[n].bits) - states);
    }
    f->log = log;
    f->there = true;
}

void fse_only(struct fse *f, uint8_t symbol) {
    f->state[0].next = f->state[0].bits = 0;
    f->state[0].symbol = symbol;
    f->log = 0;
    f->there = true;
}
