"""Types of cuBLAS's elements, and how many bits each takes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Values = Mapping[str, Any]  # a call's arguments by name

BITS = {  # cudaDataType_t
    0: 32,
    1: 64,
    2: 16,
    3: 8,
    4: 64,
    5: 128,
    6: 32,
    7: 16,
    8: 8,
    9: 16,
    10: 32,
    11: 64,
    12: 32,
    13: 64,
    14: 16,
    15: 32,
    16: 4,
    17: 8,
    18: 4,
    19: 8,
    20: 16,
    21: 32,
    22: 16,
    23: 32,
    24: 64,
    25: 128,
    26: 64,
    27: 128,
    28: 8,
    29: 8,
    30: 8,
    31: 6,
    32: 6,
    33: 4,
    34: 8,
}
C_BITS = {
    "char": 8,
    "unsigned char": 8,
    "__half": 16,
    "__nv_bfloat16": 16,
    "float": np.dtype(np.float32).itemsize * 8,
    "double": np.dtype(np.float64).itemsize * 8,
    "cuComplex": np.dtype(np.complex64).itemsize * 8,
    "cuDoubleComplex": np.dtype(np.complex128).itemsize * 8,
    "int": 32,
    "int64_t": 64,
}
COMPLEX = (4, 5, 6, 7, 9, 11, 13, 15)


def scale_type(compute: int, output: int) -> int:
    """The type of alpha and beta for a type of computation (cublasComputeType_t)."""
    if compute in (64, 65):
        return 2
    if compute in (72, 73):
        return 10
    wide = compute in (70, 71, 79)
    return (5 if wide else 4) if output in COMPLEX else int(wide)


def element_bits(c_type: str, name: str, a: Values) -> int:
    """Bits of what an argument of this C type points to, at last."""
    kind = " ".join(word for word in c_type.replace("*", " ").split() if word != "const")
    if kind != "void":
        return C_BITS[kind]
    if "computeType" in a and name in ("alpha", "beta", "beta_array"):
        return BITS[scale_type(a["computeType"], a["Ctype"])]
    letter = name.removesuffix("array")
    shared = {"a": "abType", "b": "abType", "c": "csType", "s": "csType"}
    for key in (f"{letter}Type", f"{letter}type", shared.get(letter, "")):
        if key in a:
            return BITS[a[key]]
    return 8
