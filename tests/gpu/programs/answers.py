"""What the driver answers, and what memory holds afterwards: the same with and without ulms.so.

`python answers.py NAME` prints lines; the same program runs natively and under each backend.
"""

import ctypes as c
import sys
from collections.abc import Callable

from driver import MIB, Handle, Pointer, Size, allocate, begin, cuda, fill, holds, must


def overruns() -> None:
    """Copies and memsets that reach over the end of an allocation; what lies beside it."""
    begin()
    size = 8 * MIB
    blocks = [allocate(size) for _ in range(8)]
    for block in blocks:
        must(fill(block, 7, size), "cuMemsetD8")
    host = (c.c_ubyte * (2 * size))()
    for i, block in enumerate(blocks):
        end = block + size - 100
        other = blocks[(i + 3) % len(blocks)]
        answers = [
            fill(end, 9, 200),
            fill(block, 9, size + MIB),
            cuda.cuMemcpyHtoD_v2(Pointer(end), host, Size(200)),
            cuda.cuMemcpyDtoH_v2(host, Pointer(end), Size(200)),
            cuda.cuMemcpyDtoD_v2(Pointer(end), Pointer(other), Size(200)),
            cuda.cuMemcpyDtoD_v2(Pointer(other), Pointer(end), Size(200)),
        ]
        print(i, answers)
    print("unharmed", [holds(block, 7, size) for block in blocks])


class Location(c.Structure):
    _fields_ = (("type", c.c_int), ("id", c.c_int))


class Properties(c.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c.c_int),
        ("handles", c.c_int),
        ("location", Location),
        ("windows", c.c_void_p),
        ("flags", c.c_ubyte * 8),
    )


class Access(c.Structure):
    _fields_ = (("location", Location), ("flags", c.c_int))


SIZE = 32 * MIB


def create() -> c.c_uint64:
    handle = c.c_uint64()
    properties = Properties(1, 0, Location(1, 0))
    must(
        cuda.cuMemCreate(c.byref(handle), Size(SIZE), c.byref(properties), c.c_ulonglong(0)),
        "cuMemCreate",
    )
    return handle


def reserve(size: int) -> int:
    start = Pointer()
    must(
        cuda.cuMemAddressReserve(c.byref(start), Size(size), Size(0), Pointer(0), c.c_ulonglong(0)),
        "cuMemAddressReserve",
    )
    return start.value


def mapped(start: int, handle: c.c_uint64) -> None:
    access = Access(Location(1, 0), 3)
    print(
        "map",
        cuda.cuMemMap(Pointer(start), Size(SIZE), Size(0), handle, c.c_ulonglong(0)),
        cuda.cuMemSetAccess(Pointer(start), Size(SIZE), c.byref(access), Size(1)),
    )


def unmapped(start: int) -> None:
    print("unmap", cuda.cuMemUnmap(Pointer(start), Size(SIZE)))


def alias() -> None:
    """Memory behind a handle is mapped a second time, at larger addresses, to grow a buffer."""
    begin()
    first, more, again = create(), create(), c.c_uint64()
    start = reserve(SIZE)
    mapped(start, first)
    must(fill(start, 5, SIZE), "cuMemsetD8")
    print("retain", cuda.cuMemRetainAllocationHandle(c.byref(again), Handle(start)))
    larger = reserve(2 * SIZE)
    mapped(larger, again)
    mapped(larger + SIZE, more)
    print("content", holds(larger, 5, SIZE))
    must(fill(larger, 6, SIZE), "cuMemsetD8")
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    print("alias", holds(start, 6, SIZE))
    unmapped(start)
    print("content", holds(larger, 6, SIZE))


def swap() -> None:
    """Two handles change places: a double buffer without copies."""
    begin()
    handles, starts = [create(), create()], [reserve(SIZE), reserve(SIZE)]
    for i in range(2):
        mapped(starts[i], handles[i])
        must(fill(starts[i], 1 + i, SIZE), "cuMemsetD8")
    must(cuda.cuCtxSynchronize(), "cuCtxSynchronize")
    for i in range(2):
        unmapped(starts[i])
    for i in range(2):
        mapped(starts[i], handles[1 - i])
    print("content", [holds(starts[i], 2 - i, SIZE) for i in range(2)])


def advice() -> None:
    """Calls for managed memory, and for the host's, on plain memory."""
    begin()
    start = allocate(8 * MIB)
    must(fill(start, 3, 8 * MIB), "cuMemsetD8")
    value = c.c_int()
    print(
        cuda.cuMemAdvise(Pointer(start), Size(8 * MIB), 1, 0),
        cuda.cuMemPrefetchAsync(Pointer(start), Size(8 * MIB), 0, None),
        cuda.cuMemRangeGetAttribute(c.byref(value), Size(4), 2, Pointer(start), Size(8 * MIB)),
        cuda.cuMemUnmap(Pointer(start), Size(8 * MIB)),
        cuda.cuMemHostRegister_v2(Handle(start), Size(8 * MIB), 0),
        cuda.cuMemFree_v2(Pointer(start + MIB)),
    )
    print("unharmed", holds(start, 3, 8 * MIB))


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program for program in (overruns, alias, swap, advice)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
