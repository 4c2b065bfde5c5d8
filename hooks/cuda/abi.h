/* The CUDA driver's binary interface in our own words, so that building needs no CUDA toolkit.
 *
 * Names of types, constants and fields are the vendor's, so that the same prototypes compile against either; order
 * and comments are ours. Only what we read or hand on is declared. tests/unit/test_hooks_audit.py compares every size,
 * offset and value with the vendor's header where one is installed. */
#ifndef ULMS_CUDA_ABI_H
#define ULMS_CUDA_ABI_H

/* The newest header that this was compared with: older ones may lack what stands here, newer ones may not. */
#define CUDA_ABI_VERSION 13050

#include "abi/array.h"
#include "abi/checkpoint.h"
#include "abi/copy.h"
#include "abi/device.h"
#include "abi/graph.h"
#include "abi/handle.h"
#include "abi/launch.h"
#include "abi/memory.h"
#include "abi/module.h"
#include "abi/node.h"
#include "abi/pool.h"
#include "abi/proc.h"
#include "abi/result.h"
#include "abi/stream.h"
#include "abi/texture.h"
#include "abi/vmm.h"

#endif
