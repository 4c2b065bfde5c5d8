/* Which kernels are known to use only what their arguments show: names as PyTorch 2.11 and others have them. */
#include "test.h"
#include "ulms.h"

static const char *const trusted[] = {
    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
    "_ZN2at6native57_GLOBAL__N__e658eeb9_24_ForeachBinaryOpScalar_cu_86b9896c25multi_tensor_apply_kernelINS1_18Tens",
    "_ZN2at4cuda6philox12unpack_cudnnENS_15PhiloxCudaStateEPlS3_",
    "_ZN14at_cuda_detail3cub6detail4scan20DeviceScanInitKernelINS0_13ScanTileStateIlLb1EEEEEvT_i",
    "_ZN13pytorch_flash27flash_bwd_convert_dq_kernelI23Flash_bwd_kernel_traitsILi64ELi128ELi128ELi8ELi4ELi4ELi4ELb0",
    "_Z39fmha_cutlassF_bf16_aligned_64x64_rf_sm80N22PyTorchMemEffAttention15AttentionKernelIN7cutlass10bfloat16",
    "_ZN3cub43CUB_300102_SM_750_800_860_890_900_1000_12006detail10radix_sort30DeviceRadixSortHistogramKernelINS1_"
    "5radix10"
    "policy_hubIfNS0_8NullTypeEyE10Policy1000ELNS0_9SortOrderE0EfyNS1_21identity_decomposer_tEEEvPT2_PKT1_SB_iiT3_",
    "_Z18regular_fft_factorILj4096E3EPTIJLj16EEELj4ELj0EL9padding_t14EL9twiddle_t0EL20loadstore_modifier_t2EL8layout_"
    "t1Ejf21HostConfigPlaceholderEv18kernel_arguments_tIT7_E",
    "_ZN43_GLOBAL__N__b6de9c8c_10_SoftMax_cu_9f978f6320softmax_warp_forwardIfffLi10ELb1ELb0EEEvPT0_PKT_iiiPKbib",
    "_ZN50_GLOBAL__N__fa15d16e_17_RangeFactories_cu_38772b0829elementwise_kernel_with_indexIiZZZN2at6native15arange",
    "triton_poi_fused_add_gelu_0",
    "triton_red_fused_native_layer_norm_3",
};

static const char *const others[] = {
    "?",
    "",
    "build",
    "through",
    "cupy_add__int64_int_int64",
    "_ZN3cub11EmptyKernelIvEEvv",
    "_Z22ncclDevKernel_AllReduce",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5tupleIJiiiEEEEE",
    "_ZN2at4cuda6detail25prepare_grouped_gemm_dataI",
    "_ZN2at6native12_GLOBAL__N_121chunk_cat_cuda_kernelIffEEvPPT_PT0_",
    "_ZN2at6native6detail55split_with_sizes_copy_out_contiguous_no_cast_kernelEPPcS2_PlS3_S3_lll",
    "_ZN3cub6detail10radix_sort30DeviceRadixSortHistogramKernelIN5other11my_hub_typeE15my_decomposer_tEEEvPT2_",
    "_Z18regular_fft_factorILj4096E3EPTIJLj16EEEL20loadstore_modifier_t4EL8layout_t1Ejf18kernel_arguments_tIT7_E",
    "_ZN5other20softmax_warp_forwardIfffLi10ELb1ELb0EEEvPT0_PKT_iiiPKbib",
    "triton_mine",
    "2at6native",
};

TEST(kernels_that_use_what_their_arguments_show) {
    for (size_t i = 0; i < sizeof trusted / sizeof *trusted; i++)
        CHECK(ulms_kernel_trusted(trusted[i]));
}

TEST(others_may_follow_addresses) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        CHECK(!ulms_kernel_trusted(others[i]));
}
