/* CRC-32 as zlib computes it. */
#ifndef ULMS_CRC_H
#define ULMS_CRC_H

#include "types.h"

uint32_t crc32_of(const void *data, size_t bytes);

#endif
