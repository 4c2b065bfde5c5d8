"""A program with nearly no data, more than its budget: what is in use beside data is ulms.so's."""

import ctypes
import sys
import time

PIECES, PIECE = 16, 4 << 20
BYTES = PIECES * PIECE
SECONDS = 1.5
"""So long it goes on: all threads of ulms.so have begun by then."""


def main() -> None:
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: object) -> None:
        status = getattr(cuda, name)(*arguments)
        if status != 0:
            sys.exit(f"{name} gives {status}")

    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    pieces = [ctypes.c_uint64() for _ in range(PIECES)]
    for piece in pieces:
        call("cuMemAlloc_v2", ctypes.byref(piece), ctypes.c_size_t(PIECE))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for piece in pieces:
            call("cuMemsetD8_v2", piece, ctypes.c_ubyte(1), ctypes.c_size_t(PIECE))
        call("cuCtxSynchronize")


if __name__ == "__main__":
    main()
