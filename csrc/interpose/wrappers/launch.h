/* What graphs share with launches. */
#ifndef ULMS_LAUNCH_H
#define ULMS_LAUNCH_H

#include "launch/function.h"
#include "launch/op.h"

/* Adds the touches of one launch of f, with what the library's call tells that it is part of; either form of arguments,
 * both as the driver takes them. f NULL: nothing is known of it. */
void launch_touch(struct op *op, const struct function *f, struct grid grid, void **parameters, void **extra);

#endif
