/* Compressed entries of fat binaries. */
#ifndef ULMS_UNPACK_H
#define ULMS_UNPACK_H

#include "code/view.h"

/* Unpacks one plain LZ4 block. False: it is damaged, or does not fill the room exactly. */
bool unpack_lz4(uint8_t *to, uint64_t room, struct view from);
/* The same of one zstd frame. */
bool unpack_zstd(uint8_t *to, uint64_t room, struct view from);

#endif
