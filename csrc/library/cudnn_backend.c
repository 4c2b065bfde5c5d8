/* The calls that build and run cuDNN's operation graphs. */
#include "driver/node.h"
#include "driver/session.h"
#include "library.h"
#include "library/call.h"
#include "library/cudnn_descriptor.h"

static bool noted(cudnnStatus_t status) {
    return status == CUDNN_STATUS_SUCCESS && session_on;
}

cudnnStatus_t custom_cudnnBackendCreateDescriptor(int variant, cudnnBackendDescriptorType_t descriptorType,
                                                  cudnnBackendDescriptor_t *descriptor) {
    cudnnStatus_t status = REAL(cudnnBackendCreateDescriptor, variant)(descriptorType, descriptor);
    if (noted(status))
        descriptor_made(*descriptor, descriptorType);
    return status;
}

cudnnStatus_t custom_cudnnBackendInitialize(int variant, cudnnBackendDescriptor_t descriptor) {
    cudnnStatus_t status = REAL(cudnnBackendInitialize, variant)(descriptor);
    if (noted(status))
        descriptor_emptied(descriptor);
    return status;
}

/* Forgotten before the library frees it: afterwards another thread may be given the same address. */
cudnnStatus_t custom_cudnnBackendDestroyDescriptor(int variant, cudnnBackendDescriptor_t descriptor) {
    if (session_on)
        descriptor_gone(descriptor);
    return REAL(cudnnBackendDestroyDescriptor, variant)(descriptor);
}

cudnnStatus_t custom_cudnnBackendSetAttribute(int variant, cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t attributeName,
                                              cudnnBackendAttributeType_t attributeType, int64_t elementCount,
                                              const void *arrayOfElements) {
    cudnnStatus_t status = REAL(cudnnBackendSetAttribute, variant)(descriptor, attributeName, attributeType,
                                                                   elementCount, arrayOfElements);
    if (noted(status))
        descriptor_set(descriptor, attributeName, attributeType, elementCount, arrayOfElements);
    return status;
}

cudnnStatus_t custom_cudnnBackendGetAttribute(int variant, const cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t attributeName,
                                              cudnnBackendAttributeType_t attributeType, int64_t requestedElementCount,
                                              int64_t *elementCount, void *arrayOfElements) {
    cudnnStatus_t status = REAL(cudnnBackendGetAttribute, variant)(
        descriptor, attributeName, attributeType, requestedElementCount, elementCount, arrayOfElements);
    if (noted(status) && attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR && arrayOfElements) {
        bool fewer = elementCount && *elementCount < requestedElementCount;
        descriptor_shared(descriptor, fewer ? *elementCount : requestedElementCount, arrayOfElements);
    }
    return status;
}

cudnnStatus_t custom_cudnnBackendFinalize(int variant, cudnnBackendDescriptor_t descriptor) {
    cudnnStatus_t status = REAL(cudnnBackendFinalize, variant)(descriptor);
    if (noted(status) && descriptor_is_plan(descriptor)) {
        int64_t n = 0, workspace = 0;
        REAL(cudnnBackendGetAttribute, variant)(descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                1, &n, &workspace);
        descriptor_planned(descriptor, workspace);
    }
    return status;
}

static void tell(void *context, const struct place *place) {
    struct call *call = context;
    if (place->reach == REACH_EXACT)
        call_touch(call, place->start, place->span, 8, place->mode);
    else if (place->reach == REACH_WITHIN)
        call_within(call, place->start, place->span, 8, place->mode);
    else
        call_block(call, place->start, place->mode == TOUCH_WRITE ? TOUCH_UPDATE : place->mode);
}

void touches_cudnnBackendExecute(struct call *call, int variant, cudnnHandle_t handle,
                                 cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack) {
    (void)variant;
    (void)handle;
    descriptor_places(executionPlan, variantPack, tell, call);
}

void touches_cudnnBackendPopulateCudaGraph(struct call *call, int variant, cudnnHandle_t handle,
                                           cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack,
                                           cudaGraph_t graph) {
    (void)graph;
    touches_cudnnBackendExecute(call, variant, handle, executionPlan, variantPack);
}

void touches_cudnnBackendUpdateCudaGraph(struct call *call, int variant, cudnnHandle_t handle,
                                         cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack,
                                         cudaGraph_t graph) {
    graph_forget(graph); /* a node that the library leaves as it is must not keep what an earlier call told */
    touches_cudnnBackendExecute(call, variant, handle, executionPlan, variantPack);
}
