/* What is to be learnt of a function handle. */
#ifndef ULMS_DESCRIBE_H
#define ULMS_DESCRIBE_H

#include "launch/function.h"

/* Fills in the layout from the driver, else from the loaded image; for function_describe. */
void describe(uint64_t handle, struct layout *out);
/* False before CUDA 12.4. */
bool driver_tells_parameters(void);

#endif
