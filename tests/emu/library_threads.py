"""Products on several threads and inside a stream capture; run by tests, in a process of its own.

`library_threads.py threads COUNT` or `library_threads.py capture`. Matrices of 8 x 8 floats: thread
t has A, B and C at t MiB and 256 and 512 bytes behind. Prints the address of the allocation.
"""

import ctypes
import sys
import threading
from typing import Any

CALLS = 200
cuda = ctypes.CDLL("libcuda.so.1")
blas = ctypes.CDLL("libcublas.so.13")
one, zero = ctypes.c_float(1), ctypes.c_float(0)


def check(status: int) -> None:
    """Raises RuntimeError for an error."""
    if status:
        raise RuntimeError(f"status {status}")


def handle() -> ctypes.c_void_p:
    """A new handle."""
    made = ctypes.c_void_p()
    check(blas.cublasCreate_v2(ctypes.byref(made)))
    return made


def multiply(owner: Any, base: int) -> None:
    """C = A B."""
    a, b, c = (ctypes.c_void_p(base + at) for at in (0, 256, 512))
    scalars = ctypes.byref(one), ctypes.byref(zero)
    check(blas.cublasSgemm_v2(owner, 0, 0, 8, 8, 8, scalars[0], a, 8, b, 8, scalars[1], c, 8))


def work(context: ctypes.c_void_p, base: int) -> None:
    """What each thread does."""
    check(cuda.cuCtxSetCurrent(context))
    mine = handle()
    for _ in range(CALLS):
        multiply(mine, base)


def capture(base: int) -> None:
    """One product captured, and the graph launched twice."""
    stream, graph, executable = (ctypes.c_void_p() for _ in range(3))
    mine = handle()
    multiply(mine, base)  # the library's kernel is loaded outside the capture
    check(cuda.cuStreamCreate(ctypes.byref(stream), 1))
    check(blas.cublasSetStream_v2(mine, stream))
    check(cuda.cuStreamBeginCapture_v2(stream, 0))
    multiply(mine, base)
    check(cuda.cuStreamEndCapture(stream, ctypes.byref(graph)))
    check(cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)))
    for _ in range(2):
        check(cuda.cuGraphLaunch(executable, stream))


def main() -> None:
    """Starts CUDA, then does as told."""
    check(cuda.cuInit(0))
    context, base = ctypes.c_void_p(), ctypes.c_uint64()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuMemAlloc_v2(ctypes.byref(base), ctypes.c_size_t(64 << 20)))
    print(base.value)
    if sys.argv[1] == "capture":
        capture(base.value)
    else:
        places = [base.value + (i << 20) for i in range(int(sys.argv[2]))]
        threads = [threading.Thread(target=work, args=(context, place)) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check(cuda.cuCtxSynchronize())


main()
