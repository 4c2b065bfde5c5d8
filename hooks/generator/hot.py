"""What programs call most: their wrappers lie beside the code they run through, and the pointers
to the real functions beside each other (`csrc/base/hot.h`)."""

from __future__ import annotations

from collections.abc import Sequence

from hooks.generator.row import Row, TableError, Where

LAUNCHES = ("cuLaunchKernel", "cuLaunchKernelEx")
MEMSETS = ("cuMemsetD8Async",)
"""What the runtime makes of every memset."""
QUESTIONS = ("cuPointerGetAttribute",)
"""Triton asks it of every address that a launch of its own gets."""
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

HOT = (*LAUNCHES, *MEMSETS, *QUESTIONS, *PRODUCTS, *ASKED)


def check_hot(rows: Sequence[Row]) -> None:
    """Every name here is a function of the tables, wrapped or asked. Raises TableError."""
    known = {row.symbol for row in rows if row.prototype}
    wrapped = {row.symbol for row in rows if row.wrapped}
    wrong = sorted({*LAUNCHES, *MEMSETS, *QUESTIONS, *PRODUCTS} - wrapped | {*HOT} - known)
    if wrong:
        raise TableError(Where("generator/hot.py", 1), f"no table has {', '.join(wrong)}")
