/* Frames that zstd's library made, each a line of `CONTENT'S BYTES, ITS DIGEST, FRAME` (tests/unit/test_code_zstd.py).
 */
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "code/unpack.h"

static uint64_t random_number(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static struct {
    uint64_t room, digest, bytes;
    uint8_t *packed, *to;
} frame[64];

static int read_frames(void) {
    static char hex[1 << 17];
    FILE *f = fopen(ZSTD_FRAMES, "r");
    int n = 0;
    for (; f && fscanf(f, "%" SCNu64 " %" SCNx64 " %131071s", &frame[n].room, &frame[n].digest, hex) == 3; n++) {
        frame[n].bytes = strlen(hex) / 2;
        frame[n].packed = malloc(frame[n].bytes);
        frame[n].to = malloc(frame[n].room + 1);
        for (uint64_t i = 0; i < frame[n].bytes; i++)
            sscanf(hex + 2 * i, "%2hhx", &frame[n].packed[i]);
    }
    CHECK(n > 20);
    return n;
}

/* FNV-1a. */
static uint64_t digest_of(const uint8_t *at, uint64_t bytes) {
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (uint64_t i = 0; i < bytes; i++)
        digest = (digest ^ at[i]) * UINT64_C(0x100000001b3);
    return digest;
}

/* From a copy of exactly so many bytes, as a sanitizer sees what is read behind them. */
static bool unpacks(int n, uint64_t bytes, uint64_t room) {
    uint8_t *from = memcpy(malloc(bytes + !bytes), frame[n].packed, bytes), *to = malloc(room + !room);
    bool whole = unpack_zstd(to, room, (struct view){from, bytes});
    CHECK(!whole || room != frame[n].room || digest_of(to, room) == frame[n].digest);
    free(from);
    free(to);
    return whole;
}

TEST(frames_are_unpacked_and_parts_of_them_refused) {
    for (int n = read_frames(); n-- > 0;) {
        CHECK(unpacks(n, frame[n].bytes, frame[n].room));
        CHECK(!unpacks(n, frame[n].bytes, frame[n].room + 1));
        CHECK(!frame[n].room || !unpacks(n, frame[n].bytes, frame[n].room - 1));
        for (uint64_t bytes = frame[n].bytes; bytes-- > 0; bytes -= bytes > 100 ? bytes / 50 : 0)
            CHECK(!unpacks(n, bytes, frame[n].room));
    }
}

TEST(damaged_frames_stay_in_their_room) {
    uint64_t seed = 5, count = (uint64_t)read_frames(), refused = 0;
    for (int round = 0; round < 20000; round++) {
        uint64_t n = random_number(&seed) % count, bytes = frame[n].bytes;
        /* from a copy of exactly so many bytes, as a sanitizer sees what is read behind them */
        uint8_t *from = memcpy(malloc(bytes), frame[n].packed, bytes), *to = malloc(frame[n].room + !frame[n].room);
        for (uint64_t k = 1 + random_number(&seed) % 4; k > 0; k--)
            from[random_number(&seed) % (k % 2 && bytes > 40 ? 40 : bytes)] = (uint8_t)random_number(&seed);
        refused += !unpack_zstd(to, frame[n].room, (struct view){from, bytes});
        free(from);
        free(to);
    }
    CHECK(refused > 10000);
}

TEST(frames_with_a_checksum_a_dictionary_or_another_frame_are_refused) {
    uint8_t plain[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 2, 0x11, 0, 0, 'a', 'b', 0, 0}, to[2];
    struct view whole = {plain, 11}, longer = {plain, 12};
    CHECK(unpack_zstd(to, 2, whole) && to[1] == 'b');
    CHECK(!unpack_zstd(to, 2, longer));
    for (int bit = 0; bit < 4; bit++) {
        plain[4] = (uint8_t)(0x20 | 1 << bit);
        for (uint64_t bytes = 9; bytes <= sizeof plain; bytes++)
            CHECK(!unpack_zstd(to, 2, (struct view){plain, bytes}));
    }
    plain[4] = 0x20;
    plain[0] = 0x50; /* one that is skipped */
    CHECK(!unpack_zstd(to, 2, whole));
}
