/* Images as programs load them: cubins, and fat binaries that hold cubins. They lie in the program's memory, and
 * nothing faults, whatever an image says of itself. */
#ifndef ULMS_CODE_IMAGE_H
#define ULMS_CODE_IMAGE_H

#include "code/view.h"

enum { CODE_CUBINS = 16 };
/* The most bytes that a cubin may have. */
#define CODE_CUBIN_MAX (UINT64_C(64) << 20)
/* The image's size is not known: it says so itself. */
#define CODE_UNSIZED UINT64_MAX

/* The cubins of which the driver might load one, as copies. */
struct code_image {
    bool whole; /* false: there may be others, or the driver may compile */
    uint32_t cubins;
    uint8_t *content[CODE_CUBINS];
    struct view cubin[CODE_CUBINS]; /* the same */
};

/* Reads the image at `start`, of `bytes` bytes, for a device of that architecture (90: sm_90), of which it takes cubins
 * with the same major and no higher minor number; 0: for any. `start` may also be the wrapper structure that compilers
 * put around a fat binary. unpacks: packed entries are read, too, which takes 20 KiB of stack. False: there is no such
 * cubin, or no memory. */
bool code_image_open(struct code_image *i, const void *start, uint64_t bytes, uint32_t architecture, bool unpacks);
void code_image_close(struct code_image *i);
/* Bytes of the image at *start, which becomes the fat binary if it was the wrapper around one. 0: it is none. */
uint64_t code_image_bytes(const void **start);

#endif
