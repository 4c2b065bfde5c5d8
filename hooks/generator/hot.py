"""What programs call most: their wrappers lie beside the code they run through, and the pointers
to the real functions beside each other (`csrc/base/hot.h`)."""

from __future__ import annotations

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx")
PRODUCTS = (
    "cublasLtMatmul",
    "cublasGemmEx",
    "cublasGemmStridedBatchedEx",
    "cublasSgemm_v2",
    "cublasSgemmStridedBatched",
)
ASKED = (
    "cublasLtMatmulDescGetAttribute",
    "cublasLtMatrixLayoutGetAttribute",
    "cublasGetPointerMode_v2",
)
"""What the wrappers of products ask the library."""

HOT = (*LAUNCHES, *PRODUCTS, *ASKED)
