/* Packs of fused operations. What their labels name is in fused.labels. */
#ifndef ULMS_CUDNN_ABI_FUSED_H
#define ULMS_CUDNN_ABI_FUSED_H

typedef struct cudnnFusedOpsPlanStruct *cudnnFusedOpsPlan_t;
typedef struct cudnnFusedOpsVariantParamStruct *cudnnFusedOpsVariantParamPack_t;

typedef enum {
    CUDNN_PTR_WORKSPACE = 9,
    CUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES = 100,
} cudnnFusedOpsVariantParamLabel_t;

#endif
