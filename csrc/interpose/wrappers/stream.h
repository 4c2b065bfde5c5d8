/* Words of memory that a stream writes or waits for. */
#ifndef ULMS_STREAM_H
#define ULMS_STREAM_H

#include "driver.h"
#include "launch/op.h"

/* Adds those of the list. */
void stream_touch_words(struct op *op, const CUstreamBatchMemOpParams *list, unsigned int count);

#endif
