"""Steps over memory of the emulated device, told when; run by a test, in a process of its own.

Arguments: MiB that there are at the start, MiB that each step allocates beside; warm, timed.
"""

import ctypes
import sys

from report import report, run_steps

cuda = ctypes.CDLL("libcuda.so.1")
PART = 4  # MiB


def check(status: int) -> None:
    """Raises RuntimeError for an error."""
    if status:
        raise RuntimeError(f"status {status}")


def allocated(mib: int) -> list[ctypes.c_uint64]:
    """Addresses of parts of memory."""
    parts = [ctypes.c_uint64() for _ in range(0, mib, PART)]
    for part in parts:
        check(cuda.cuMemAlloc_v2(ctypes.byref(part), ctypes.c_size_t(PART << 20)))
    return parts


def main() -> None:
    """Writes all the memory there is in each step."""
    at_start, each, warm, timed = map(int, sys.argv[1:])
    context = ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    parts = allocated(at_start)
    steps = 0

    def step() -> None:
        nonlocal steps
        parts.extend(allocated(each))
        steps += 1
        for part in parts:
            check(cuda.cuMemsetD32_v2(part, ctypes.c_uint(steps), ctypes.c_size_t(PART << 18)))

    step_ms = run_steps(step, lambda: check(cuda.cuCtxSynchronize()), warm, timed)
    last = ctypes.c_uint()
    check(cuda.cuMemcpyDtoH_v2(ctypes.byref(last), parts[0], ctypes.c_size_t(4)))
    report([steps, last.value], step_ms)


if __name__ == "__main__":
    main()
