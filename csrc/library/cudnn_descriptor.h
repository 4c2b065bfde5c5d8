/* What is known of cuDNN's backend descriptors: which memory a plan touches once a variant pack says where its tensors
 * are. Fed with what the program tells the library, after the library accepted it. Calls no library.
 *
 * Tensors name a place by a number of the program's choice (its unique id). Operations say what they do with tensors; a
 * graph sums up its operations, and engines, configurations and plans made of it keep the sum, as the program may
 * destroy what they were made of. One descriptor belongs to one thread at a time, as in cuDNN; different ones to any.
 */
#ifndef ULMS_CUDNN_DESCRIPTOR_H
#define ULMS_CUDNN_DESCRIPTOR_H

#include "cudnn/abi.h"
#include "library/extent.h"
#include "types.h"

enum reach {
    REACH_EXACT,  /* all of the span */
    REACH_WITHIN, /* the span is a bound: a tensor of rows of different lengths */
    REACH_BLOCK,  /* not told: as far as the block around the address */
};

/* What a plan touches; span in bytes. */
struct place {
    addr_t start;
    struct span span;
    enum reach reach;
    enum touch_mode mode;
};

/* A descriptor was made, or made empty again; and destroyed. */
void descriptor_made(cudnnBackendDescriptor_t handle, cudnnBackendDescriptorType_t kind);
void descriptor_emptied(cudnnBackendDescriptor_t handle);
void descriptor_gone(cudnnBackendDescriptor_t handle);
/* An attribute was set to n values of the type. */
void descriptor_set(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t attribute,
                    cudnnBackendAttributeType_t type, int64_t n, const void *values);
/* The library filled n descriptors of the program with parts of this one. */
void descriptor_shared(cudnnBackendDescriptor_t handle, int64_t n, const cudnnBackendDescriptor_t *parts);
bool descriptor_is_plan(cudnnBackendDescriptor_t handle);
/* A plan is complete; bytes of workspace it asks for. */
void descriptor_planned(cudnnBackendDescriptor_t handle, int64_t workspace);
/* Tells every place that the plan touches with the pack. */
void descriptor_places(cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack,
                       void (*tell)(void *context, const struct place *place), void *context);

#endif
