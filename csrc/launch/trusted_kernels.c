/* Trusted kernels: those whose source says that they use only memory whose addresses their arguments hold, within
 * the block that each address is in. Of any other it is not known whether it follows addresses that lie in memory. */
#include "launch/named.h"
#include "ulms.h"

static const struct name_rule trusted[] = {
    /* PyTorch: ATen, and what it has of CUB and of FlashAttention */
    {"_ZN2at6native", {NULL}},
    {"_ZN2at4cuda6philox", {NULL}},
    {"_ZN14at_cuda_detail3cub", {NULL}},
    {"_ZN13pytorch_flash", {NULL}},
    {"_Z", {"fmha_cutlass", "PyTorchMemEffAttention"}},
    /* ATen's outside its namespace: any program may have such names, so the file's is asked for, too */
    {"_ZN", {"_SoftMax_cu_", "softmax_warp_"}},
    {"_ZN", {"_RangeFactories_cu_", "elementwise_kernel_with_index"}},
    /* torch.compile: pointwise, reductions, templates of products and attention */
    {"triton_poi_fused", {NULL}},
    {"triton_red_fused", {NULL}},
    {"triton_per_fused", {NULL}},
    {"triton_tem_fused", {NULL}},
    /* CUB: keys of a type of the language */
    {"_ZN3cub", {"DeviceRadixSort", "identity_decomposer_tEEE"}},
    /* cuFFT, without callbacks: it follows only what lies in tables of its own (lut_sp, lut_dp) */
    {"_Z", {"loadstore_modifier_t2E", "18kernel_arguments_tI"}},
};

/* ATen's that take arrays of pointers in memory (TensorShape.cu). */
static const struct name_rule excepted[] = {
    {"_ZN2at6native", {"chunk_cat_cuda_kernel"}},
    {"_ZN2at6native", {"split_with_sizes_copy_out_"}},
};

int ulms_kernel_trusted(const char *name) {
    return is_named(trusted, sizeof trusted / sizeof *trusted, name) &&
           !is_named(excepted, sizeof excepted / sizeof *excepted, name);
}
