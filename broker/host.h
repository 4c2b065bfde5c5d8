/* The host's memory, which tenants of all GPUs share: what leaves a GPU lies there. */
#ifndef BROKER_HOST_H
#define BROKER_HOST_H

#include "broker/gpu.h"

/* Bytes that may move which the tenant's process may hold: three quarters of the machine's memory, less what other
 * processes hold. */
uint64_t host_left_to(const struct tenant *t);

#endif
