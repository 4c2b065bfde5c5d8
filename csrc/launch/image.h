/* Images as they are loaded: parameter layouts of their kernels, for drivers that do not tell them (before CUDA 12.4).
 * Known are cubins, and fat binaries that hold cubins: of several for one kernel all must agree. PTX and packed
 * cubins tell nothing. */
#ifndef ULMS_IMAGE_H
#define ULMS_IMAGE_H

#include "code/image.h"
#include "launch/function.h"

struct image;

/* What the image at `start`, of `bytes` bytes, tells of its kernels; NULL: nothing, or no memory. `start` may also be
 * the wrapper structure that compilers put around a fat binary. Never faults, whatever the image says of itself.
 * Any thread; not for hot paths. */
struct image *image_read(const void *start, uint64_t bytes);
/* Fills in all of the layout but its name. False, and nothing written, when the image does not tell. */
bool image_layout(const struct image *i, const char *kernel, struct layout *out);
void image_free(struct image *i);

#endif
