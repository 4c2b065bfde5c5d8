/* The host's memory, which tenants of all GPUs share: what leaves a GPU lies there. */
#ifndef BROKER_HOST_H
#define BROKER_HOST_H

#include "broker/gpu.h"

/* Bytes that may move which the processes of all tenants hold. */
uint64_t host_held(void);
/* And those that the tenant's may hold where all hold so many: three quarters of the machine's memory, less what the
 * others hold. */
uint64_t host_left_to(const struct tenant *t, uint64_t held);

#endif
