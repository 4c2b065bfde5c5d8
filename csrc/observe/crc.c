#include "observe/crc.h"

#include <string.h>

#include "base/lock.h"

enum { LANES = 8 };
static const uint32_t POLYNOMIAL = 0xedb88320u;

/* table[k][b]: what byte b does to the sum when k more bytes come after it. */
static uint32_t table[LANES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t sum = b;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
        table[0][b] = sum;
    }
    for (int k = 1; k < LANES; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

uint32_t crc32_of(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint32_t sum = ~0u;
    run_once(&once, fill);
    for (; bytes >= LANES; bytes -= LANES, p += LANES) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        word ^= sum;
        sum = 0;
        for (int k = 0; k < LANES; k++)
            sum ^= table[LANES - 1 - k][word >> 8 * k & 0xff];
    }
    for (; bytes > 0; bytes--)
        sum = sum >> 8 ^ table[0][(sum ^ *p++) & 0xff];
    return ~sum;
}
