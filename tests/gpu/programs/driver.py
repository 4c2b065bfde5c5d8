"""The driver by ctypes, for programs that need no framework and no kernel of their own."""

import ctypes as c
import sys
from typing import Any, TypeAlias

Pointer: TypeAlias = c.c_uint64
Size: TypeAlias = c.c_size_t
Handle: TypeAlias = c.c_void_p

cuda = c.CDLL("libcuda.so.1")
MIB = 1 << 20


def must(result: int, what: str) -> None:
    """Ends the program if the call failed."""
    if result:
        print(f"{what}: error {result}", flush=True)
        sys.exit(1)


def begin() -> None:
    """Makes the primary context of device 0 current."""
    context = Handle()
    must(cuda.cuInit(0), "cuInit")
    must(cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0), "cuDevicePrimaryCtxRetain")
    enter(context)


def current() -> Handle:
    context = Handle()
    must(cuda.cuCtxGetCurrent(c.byref(context)), "cuCtxGetCurrent")
    return context


def enter(context: Handle) -> None:
    must(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")


def allocate(size: int, *, managed: bool = False) -> int:
    address = Pointer()
    if managed:
        must(cuda.cuMemAllocManaged(c.byref(address), Size(size), 1), "cuMemAllocManaged")
    else:
        must(cuda.cuMemAlloc_v2(c.byref(address), Size(size)), "cuMemAlloc")
    return address.value


def stream() -> Handle:
    made = Handle()
    must(cuda.cuStreamCreate(c.byref(made), 1), "cuStreamCreate")
    return made


def fill(address: int, value: int, size: int, at: Handle | None = None) -> int:
    """Sets bytes in a stream, or at once; what the driver answers."""
    if at is None:
        return int(cuda.cuMemsetD8_v2(Pointer(address), c.c_ubyte(value), Size(size)))
    return int(cuda.cuMemsetD8Async(Pointer(address), c.c_ubyte(value), Size(size), at))


def holds(address: int, value: int, size: int) -> bool:
    """Whether all bytes of the device memory are `value`."""
    host = (c.c_ubyte * size)()
    must(cuda.cuMemcpyDtoH_v2(host, Pointer(address), Size(size)), "cuMemcpyDtoH")
    return bytes(host) == bytes([value]) * size


class Gate:
    """Streams wait there until `open`."""

    def __init__(self) -> None:
        at = Handle()
        must(cuda.cuMemHostAlloc(c.byref(at), Size(4), 2), "cuMemHostAlloc")
        self.word: Any = c.cast(at, c.POINTER(c.c_uint32))
        self.word[0] = 0
        address = Pointer()
        must(
            cuda.cuMemHostGetDevicePointer_v2(c.byref(address), at, 0), "cuMemHostGetDevicePointer"
        )
        self.address = address

    def hold(self, at: Handle) -> None:
        must(cuda.cuStreamWaitValue32_v2(at, self.address, c.c_uint32(1), 0), "cuStreamWaitValue32")

    def open(self) -> None:
        self.word[0] = 1
