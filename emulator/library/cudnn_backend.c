/* Backend descriptors: attributes kept as they were set. A plan asks for 1000 bytes of workspace, and 1000 more for
 * each step of the global index of its engine. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "library/cudnn_status.h"
#include "library/lookalike.h"

enum { CUDNN_ATTR_ENGINE_GLOBAL_INDEX = 1301, WORKSPACE = 1000 };

struct attribute {
    struct attribute *next;
    int name, type;
    int64_t n;
    size_t bytes;
    unsigned char value[];
};

struct backend {
    cudnnBackendDescriptorType_t kind;
    bool final;
    int64_t engine; /* global index; of configurations and plans, too */
    struct attribute *first;
};

static size_t value_bytes(cudnnBackendAttributeType_t type) {
    switch ((int)type) {
    case 0: /* a handle */
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
    case 24: /* a character */
        return 1;
    default:
        return 4;
    }
}

static struct attribute *find(const struct backend *d, int name) {
    struct attribute *a = d->first;
    while (a && a->name != name)
        a = a->next;
    return a;
}

static void empty(struct backend *d) {
    for (struct attribute *a = d->first, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    d->first = NULL;
    d->final = false;
    d->engine = 0;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t *out) {
    struct backend *d = calloc(1, sizeof *d);
    if (d)
        d->kind = kind;
    *out = d;
    return made(d);
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
    if (!descriptor)
        return BAD_PARAM;
    empty(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
    if (descriptor)
        empty(descriptor);
    free(descriptor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n, const void *values) {
    struct backend *d = descriptor;
    if (!d || d->final || n < 0 || (n && !values))
        return BAD_PARAM;
    size_t bytes = (size_t)n * value_bytes(type);
    struct attribute *a = malloc(sizeof *a + bytes);
    if (!a)
        return ALLOC_FAILED;
    *a = (struct attribute){.next = d->first, .name = (int)name, .type = (int)type, .n = n, .bytes = bytes};
    if (bytes)
        memcpy(a->value, values, bytes);
    d->first = a; /* the newest of a name counts */
    if ((int)name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX && n)
        memcpy(&d->engine, values, sizeof d->engine);
    bool of_engine =
        d->kind == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR;
    if (of_engine && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && n == 1)
        d->engine = (*(struct backend *const *)values)->engine;
    return CUDNN_STATUS_SUCCESS;
}

/* A search for engines finds as many as there is room for, numbered from 0. */
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t room, int64_t *n, void *values) {
    const struct backend *d = descriptor;
    int64_t found = 0;
    if (!d || !d->final)
        return BAD_PARAM;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        int64_t bytes = WORKSPACE * (1 + d->engine);
        memcpy(values, &bytes, sizeof bytes);
        found = 1;
    } else if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        for (found = 0; found < room; found++) {
            struct backend *config = ((struct backend **)values)[found];
            config->engine = found;
            config->final = true;
        }
    } else {
        const struct attribute *a = find(d, (int)name);
        if (!a || a->type != (int)type)
            return BAD_PARAM;
        found = a->n;
        memcpy(values, a->value, room < a->n ? (size_t)room * value_bytes(type) : a->bytes);
    }
    if (n)
        *n = found;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
    struct backend *d = descriptor;
    if (!d)
        return BAD_PARAM;
    d->final = true;
    return CUDNN_STATUS_SUCCESS;
}

/* The addresses of a variant pack, at most LOOKALIKE_HELD_MAX: the workspace, or NULL, and the tensors'. */
static unsigned addresses(const struct backend *pack, const void **held) {
    const struct attribute *space = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    const struct attribute *tensors = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    unsigned count = 1;
    held[0] = NULL;
    if (space && space->n == 1)
        memcpy(held, space->value, sizeof *held);
    if (tensors && tensors->n < LOOKALIKE_HELD_MAX) {
        memcpy(held + count, tensors->value, tensors->bytes);
        count += (unsigned)tensors->n;
    }
    return count;
}

cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
    const void *held[LOOKALIKE_HELD_MAX];
    if (!handle || !plan || !pack || !graph)
        return BAD_PARAM;
    return lookalike_populate(graph, held, addresses(pack, held)) ? CUDNN_STATUS_SUCCESS : BAD_PARAM;
}

cudnnStatus_t cudnnBackendUpdateCudaGraph(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                          cudnnBackendDescriptor_t pack, cudaGraph_t graph) {
    const void *held[LOOKALIKE_HELD_MAX];
    if (!handle || !plan || !pack || !graph)
        return BAD_PARAM;
    return lookalike_update(graph, held, addresses(pack, held)) ? CUDNN_STATUS_SUCCESS : BAD_PARAM;
}
