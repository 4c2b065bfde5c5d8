#include "library/cudnn_descriptor.h"

#include <stdlib.h>

#include "base/hash.h"
#include "library/cudnn_shape.h"
#include "library/cudnn_use.h"

struct tensor {
    cudnnDataType_t type;
    int rank;
    int64_t uid, vector, sizes[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
    bool is_virtual, is_value; /* in no device memory of the program's */
    bool ragged;
};

struct words {
    size_t n;
    int64_t *at;
};

struct pack {
    struct words ids, addresses, reshaped; /* reshaped: ids of tensors that have another shape for this execution */
    addr_t workspace;
};

struct descriptor {
    cudnnBackendDescriptorType_t kind;
    struct uses uses; /* of a plan: sorted, no tensor twice */
    struct manner manner;
    int64_t workspace;
    union {
        struct tensor tensor;
        struct pack pack;
    };
};

static struct hash descriptors; /* cudnnBackendDescriptor_t -> struct descriptor */

static uint64_t key(cudnnBackendDescriptor_t handle) {
    return (uint64_t)(uintptr_t)handle;
}

static struct descriptor *descriptor_find(cudnnBackendDescriptor_t handle) {
    return handle ? hash_get(&descriptors, key(handle)) : NULL;
}

/* False for settings, which lead to no tensor. A kernel cache is made for another graph. */
static bool holds_tensors(cudnnBackendDescriptorType_t kind) {
    switch (kind) {
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    case CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_MATMUL_DESCRIPTOR:
    case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
    case CUDNN_BACKEND_RESAMPLE_DESCRIPTOR:
    case CUDNN_BACKEND_RNG_DESCRIPTOR:
    case CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR:
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
        return false;
    default:
        return true;
    }
}

static bool holds_a_graph(cudnnBackendDescriptorType_t kind) {
    return kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR || kind == CUDNN_BACKEND_ENGINE_DESCRIPTOR ||
           kind == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR ||
           kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
}

static bool is_operation(const struct descriptor *d) {
    return d->kind != CUDNN_BACKEND_TENSOR_DESCRIPTOR && d->kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
           !holds_a_graph(d->kind);
}

static void empty(struct descriptor *d) {
    cudnnBackendDescriptorType_t kind = d->kind;
    uses_free(&d->uses);
    if (kind == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
        free(d->pack.ids.at);
        free(d->pack.addresses.at);
        free(d->pack.reshaped.at);
    }
    *d = (struct descriptor){.kind = kind};
    if (kind == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        d->tensor.vector = 1;
}

static void forget(struct descriptor *d) {
    if (d)
        empty(d);
    free(d);
}

void descriptor_made(cudnnBackendDescriptor_t handle, cudnnBackendDescriptorType_t kind) {
    struct descriptor *d = holds_tensors(kind) ? calloc(1, sizeof *d) : NULL;
    bool stored = false;
    if (!d)
        return;
    d->kind = kind;
    empty(d);
    forget(hash_put(&descriptors, key(handle), d, &stored));
    if (!stored)
        forget(d);
}

void descriptor_emptied(cudnnBackendDescriptor_t handle) {
    struct descriptor *d = descriptor_find(handle);
    if (d)
        empty(d);
}

void descriptor_gone(cudnnBackendDescriptor_t handle) {
    if (handle)
        forget(hash_take(&descriptors, key(handle)));
}

bool descriptor_is_plan(cudnnBackendDescriptor_t handle) {
    const struct descriptor *d = descriptor_find(handle);
    return d && d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
}

/* --- attributes that name tensors and what is made of them --- */

static struct use use_of(const struct tensor *t, int attribute) {
    struct span elements = shape_span(t->rank, t->sizes, t->strides);
    unsigned bits = cudnn_bits(t->type) * (unsigned)t->vector;
    elements.holes |= t->ragged;
    return (struct use){
        .uid = t->uid,
        .span = shape_bytes(elements, bits),
        .attribute = attribute,
        .role = role_of(attribute),
        .reach = bits == 0   ? REACH_BLOCK
                 : t->ragged ? REACH_WITHIN
                             : REACH_EXACT,
    };
}

static bool in_memory(const struct tensor *t) {
    return !t->is_virtual && !t->is_value;
}

/* What the attribute names is used when the plan runs. Of a graph, the only descriptors named are its operations. */
static bool names_used(const struct descriptor *d, int attribute) {
    return d->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR || (is_operation(d) && role_of(attribute) != ROLE_NONE);
}

static void set_tensors(struct descriptor *d, int attribute, int64_t n, const cudnnBackendDescriptor_t *children) {
    uses_drop(&d->uses, attribute);
    for (int64_t i = 0; i < n; i++) {
        const struct descriptor *child = descriptor_find(children[i]);
        if (!child) {
            d->uses.partial |= names_used(d, attribute);
        } else if (child->kind != CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
            uses_add_part(&d->uses, &child->uses, child->manner, attribute);
        } else if (in_memory(&child->tensor)) {
            uses_append(&d->uses, use_of(&child->tensor, attribute));
            for (size_t k = 0; k < child->uses.count; k++)
                uses_append(&d->uses, child->uses.at[k]); /* where its rows begin */
        }
    }
}

/* --- attributes --- */

static void set_numbers(int64_t *to, int *rank, int64_t n, const int64_t *values) {
    *rank = n < CUDNN_DIM_MAX ? (int)n : CUDNN_DIM_MAX;
    memcpy(to, values, (size_t)*rank * sizeof *to);
}

static void set_tensor(struct descriptor *d, cudnnBackendAttributeName_t attribute, int64_t n, const void *values) {
    struct tensor *t = &d->tensor;
    const struct descriptor *child;
    int rank;
    switch (attribute) {
    case CUDNN_ATTR_TENSOR_UNIQUE_ID:
        t->uid = *(const int64_t *)values;
        break;
    case CUDNN_ATTR_TENSOR_DATA_TYPE:
        t->type = *(const cudnnDataType_t *)values;
        break;
    case CUDNN_ATTR_TENSOR_VECTOR_COUNT:
        t->vector = *(const int64_t *)values;
        break;
    case CUDNN_ATTR_TENSOR_DIMENSIONS:
        set_numbers(t->sizes, &t->rank, n, values);
        break;
    case CUDNN_ATTR_TENSOR_STRIDES:
        set_numbers(t->strides, &rank, n, values);
        break;
    case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
        t->is_virtual = *(const bool *)values;
        break;
    case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
        t->is_value = *(const bool *)values;
        break;
    case CUDNN_ATTR_TENSOR_CONSTANT_VALUE:
        t->is_value = true;
        break;
    case CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC:
        t->ragged = true;
        uses_drop(&d->uses, attribute);
        child = descriptor_find(*(const cudnnBackendDescriptor_t *)values);
        if (child && child->kind == CUDNN_BACKEND_TENSOR_DESCRIPTOR && in_memory(&child->tensor)) {
            struct use offsets = use_of(&child->tensor, attribute);
            offsets.mode = TOUCH_READ;
            uses_append(&d->uses, offsets);
        }
        break;
    default:
        break;
    }
}

static void set_words(struct words *words, int64_t n, const void *values) {
    free(words->at);
    words->at = malloc((size_t)n * sizeof *words->at);
    words->n = words->at ? (size_t)n : 0;
    if (words->at)
        memcpy(words->at, values, words->n * sizeof *words->at);
}

static void set_pack(struct pack *pack, cudnnBackendAttributeName_t attribute, int64_t n, const void *values) {
    if (attribute == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
        set_words(&pack->ids, n, values);
    else if (attribute == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
        set_words(&pack->addresses, n, values);
    else if (attribute == CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS)
        set_words(&pack->reshaped, n, values);
    else if (attribute == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
        pack->workspace = *(const addr_t *)values;
}

static bool any_weight(cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    for (int64_t i = 0; i < n; i++)
        if (type == CUDNN_TYPE_DOUBLE ? ((const double *)values)[i] != 0 : ((const float *)values)[i] != 0)
            return true;
    return false;
}

static void set_value(struct descriptor *operation, cudnnBackendAttributeName_t attribute,
                      cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    enum role role = role_of(attribute);
    if (role == ROLE_WEIGHT)
        operation->manner.blends = any_weight(type, n, values);
    else if (role == ROLE_PLACE)
        operation->manner.blends = *(const int64_t *)values >= 0;
    else if (role == ROLE_PHASE)
        operation->manner.infers = *(const cudnnBackendNormFwdPhase_t *)values == CUDNN_NORM_FWD_INFERENCE;
}

void descriptor_set(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t attribute,
                    cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    struct descriptor *d = n > 0 && values ? descriptor_find(handle) : NULL;
    if (!d)
        return;
    if (d->kind == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        set_tensor(d, attribute, n, values);
    else if (d->kind == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        set_pack(&d->pack, attribute, n, values);
    else if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        set_tensors(d, attribute, n, values);
    else
        set_value(d, attribute, type, n, values);
}

void descriptor_shared(cudnnBackendDescriptor_t handle, int64_t n, const cudnnBackendDescriptor_t *parts) {
    const struct descriptor *d = descriptor_find(handle);
    for (int64_t i = 0; d && i < n; i++) {
        struct descriptor *part = descriptor_find(parts[i]);
        if (!part || part == d || !holds_a_graph(part->kind))
            continue;
        uses_free(&part->uses);
        uses_add_part(&part->uses, &d->uses, d->manner, 0);
    }
}

/* --- plans --- */

void descriptor_planned(cudnnBackendDescriptor_t handle, int64_t workspace) {
    struct descriptor *plan = descriptor_find(handle);
    if (!plan)
        return;
    uses_sort(&plan->uses);
    plan->uses.partial |= plan->uses.count == 0; /* read from a file, or made before anything was recorded */
    plan->workspace = workspace;
}

static bool has(const struct words *words, int64_t value) {
    for (size_t i = 0; i < words->n; i++)
        if (words->at[i] == value)
            return true;
    return false;
}

void descriptor_places(cudnnBackendDescriptor_t plan_handle, cudnnBackendDescriptor_t pack_handle,
                       void (*tell)(void *context, const struct place *place), void *context) {
    const struct descriptor *plan = descriptor_find(plan_handle), *holder = descriptor_find(pack_handle);
    if (!holder || holder->kind != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return;
    const struct pack *pack = &holder->pack;
    for (size_t i = 0; i < pack->ids.n && i < pack->addresses.n; i++) {
        const struct use *use = plan ? uses_find(&plan->uses, pack->ids.at[i]) : NULL;
        struct place place = {.start = (addr_t)pack->addresses.at[i], .reach = REACH_BLOCK, .mode = TOUCH_UPDATE};
        if (use) {
            place.span = use->span;
            place.reach = has(&pack->reshaped, use->uid) ? REACH_BLOCK : use->reach;
            place.mode = use->mode;
        } else if (plan && !plan->uses.partial) {
            continue; /* virtual, or a value in host memory */
        }
        tell(context, &place);
    }
    struct place space = {.start = pack->workspace, .reach = REACH_BLOCK, .mode = TOUCH_UPDATE};
    if (plan) {
        space.span = library_bytes(plan->workspace);
        space.reach = REACH_EXACT;
        space.mode = TOUCH_SCRATCH;
    }
    if (space.start)
        tell(context, &space);
}
