/* The codes of bytes that zstd packs literals with (RFC 8878, 4.2). */
#ifndef ULMS_HUFFMAN_H
#define ULMS_HUFFMAN_H

#include "code/view.h"

enum { HUFFMAN_LOG = 11 };

struct huffman {
    uint8_t log; /* bits of the longest code; 0: there is none */
    struct {
        uint8_t symbol, bits;
    } code[1 << HUFFMAN_LOG]; /* by the next bits */
};

/* Reads the description that `from` begins with, which becomes the rest. */
bool huffman_read(struct huffman *h, struct view *from);
/* Unpacks one stream. False: it does not hold exactly so many bytes. */
bool huffman_unpack(const struct huffman *h, uint8_t *to, uint64_t bytes, struct view from);

#endif
