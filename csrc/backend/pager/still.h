/* What becomes a node of a graph is mapped meanwhile. See backend.h. */
#ifndef ULMS_PAGER_STILL_H
#define ULMS_PAGER_STILL_H

#include "launch/op.h"

void pager_still_begin(const struct op *op);
void pager_still_end(void);

#endif
