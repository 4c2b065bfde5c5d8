"""One step of made-up operations on the emulated device; run by a test, in a process of its own.

`TRUTH=FILE` in the environment: writes there what the step truly touches, and prints its line, as
tests/gpu/programs/torch_train.py does. A framework has handed out blocks of 8 KiB; a product of
matrices and a memset use half of each.
"""

import ctypes
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BLOCK, SIDE = 8192, 32  # bytes; elements: a matrix of floats fills half a block
cuda = ctypes.CDLL("libcuda.so.1")
blas = ctypes.CDLL("libcublas.so.13")


def check(status: int) -> None:
    """Raises RuntimeError for an error."""
    if status:
        raise RuntimeError(f"status {status}")


def start() -> int:
    """Address of memory of 64 MiB."""
    check(cuda.cuInit(0))
    context, base = ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(base), ctypes.c_size_t(64 << 20)))
    return base.value


def tell(address: int) -> None:
    """Says as a framework does that a block was handed out."""
    report = ctypes.CDLL(None)["_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
    size, none, cuda_device_0 = ctypes.c_int64(BLOCK), ctypes.c_size_t(0), ctypes.c_int16(1)
    report(ctypes.c_void_p(address), size, none, none, cuda_device_0)


def matrix(role: str, address: int, written: bool) -> list[Any]:
    """A tensor as it is recorded."""
    return [role, address, 4, [SIDE, SIDE], [SIDE, 1], written]


def noted(name: str, tensors: list[list[Any]], call: Callable[[], int]) -> dict[str, Any]:
    """An operation as it is recorded."""
    begin = time.monotonic_ns()
    check(call())
    return {
        "name": name,
        "thread": threading.get_native_id(),
        "begin": begin,
        "end": time.monotonic_ns(),
        "before": 0,
        "after": 0,
        "tensors": tensors,
    }


def main() -> None:
    """Runs the step."""
    base = start()
    a, b, c = (base + i * BLOCK for i in range(3))
    for block in (a, b, c):
        tell(block)
    handle = ctypes.c_void_p()
    check(blas.cublasCreate_v2(ctypes.byref(handle)))
    one, zero = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
    at = [ctypes.c_void_p(each) for each in (a, b, c)]
    sides = [ctypes.c_int(SIDE)] * 3
    product = (handle, 0, 0, *sides, one, at[0], SIDE, at[1], SIDE, zero, at[2], SIDE)
    clear = (ctypes.c_uint64(a), 0, ctypes.c_size_t(SIDE * SIDE))
    begin = time.monotonic_ns()
    operations = [
        noted(
            "aten.mm.default",
            [matrix("self", a, False), matrix("mat2", b, False), matrix("return 0", c, True)],
            lambda: int(blas.cublasSgemm_v2(*product)),
        ),
        noted(
            "aten.zero_.default",
            [matrix("self", a, True)],
            lambda: int(cuda.cuMemsetD32_v2(*clear)),
        ),
    ]
    truth = {
        "begin": begin,
        "end": time.monotonic_ns(),
        "operations": operations,
        "held": [[each, BLOCK] for each in (a, b, c)],
        "blocks": [[each, BLOCK] for each in (a, b, c)],
        "segments": [[base, 64 << 20]],
        "events": [],
        "events_agree": True,
    }
    Path(os.environ["TRUTH"]).write_text(json.dumps(truth), encoding="utf-8")
    check(cuda.cuCtxSynchronize())
    print("REPORT " + json.dumps({"numbers": [(1.0).hex()], "step_ms": []}))


main()
