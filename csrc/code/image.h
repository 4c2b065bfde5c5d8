/* Images as programs load them: cubins, and fat binaries that hold cubins. */
#ifndef ULMS_CODE_IMAGE_H
#define ULMS_CODE_IMAGE_H

#include "code/view.h"

enum { CODE_CUBINS = 16 };
/* The most that an entry may unpack to. */
#define CODE_CUBIN_MAX (UINT64_C(64) << 20)

/* Unpacks one zstd frame, and returns how many bytes came: the system's library, if it is there. */
typedef uint64_t code_zstd(void *to, uint64_t room, const void *from, uint64_t bytes);

/* The cubins of which the driver might load one. */
struct code_image {
    bool whole; /* false: there may be others, which cannot be read */
    uint32_t cubins;
    struct view cubin[CODE_CUBINS];
    uint8_t *unpacked[CODE_CUBINS]; /* NULL: the cubin lies in the image itself */
};

/* Reads the image for a device of that architecture (90: sm_90), of which it takes cubins with the same major and no
 * higher minor number. zstd NULL: such entries cannot be read. The bytes stay the caller's, as long as the image is
 * open. False: there is no such cubin. */
bool code_image_open(struct code_image *i, struct view bytes, uint32_t architecture, code_zstd *zstd);
void code_image_close(struct code_image *i);

#endif
