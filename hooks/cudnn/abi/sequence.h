/* Long convolutions over sequences (version 9.22 on). */
#ifndef ULMS_CUDNN_ABI_SEQUENCE_H
#define ULMS_CUDNN_ABI_SEQUENCE_H

typedef int cudnnCausalConv1dActivation_t;

#endif
