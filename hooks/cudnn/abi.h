/* cuDNN's binary interface in our own words, versions 8 and 9 together, so that building needs no cuDNN.
 *
 * Names of types and constants are the vendor's; only what a wrapper takes, hands on or reads is declared.
 * tests/unit/test_cudnn_audit.py compares prototypes, sizes and values with the vendor's headers where they are. */
#ifndef ULMS_CUDNN_ABI_H
#define ULMS_CUDNN_ABI_H

/* The newest header that this was compared with. */
#define CUDNN_ABI_VERSION 92800

#include "abi/attribute.h"
#include "abi/backend.h"
#include "abi/dnn.h"
#include "abi/fused.h"
#include "abi/gnn.h"
#include "abi/sequence.h"

#endif
