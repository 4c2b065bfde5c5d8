"""Allocations that meet on a page, under `vmm`: a framework's, and one of the program's own."""

import sys
from pathlib import Path

import pytest

from tests.conftest import RunEmulated

pytestmark = pytest.mark.emu
PROGRAM = """
import ctypes

driver, every = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
MIB, PARTS, MINE = 1 << 20, 6, 0xC0FFEE
context = ctypes.c_void_p()


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


def block(start, size, live):
    tell = every._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
    tell.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, Device]
    tell(start.value, size if live else -size, 0, 0, Device(1, 0))


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, (name, status)


def allocated(size):
    start = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(start), ctypes.c_size_t(size))
    return start


def fill(start, word, size):
    call("cuMemsetD32_v2", start, ctypes.c_uint(word), ctypes.c_size_t(size // 4))
    call("cuCtxSynchronize")


def words_of(start, size):
    host = (ctypes.c_uint * (size // 4))()
    call("cuMemcpyDtoH_v2", host, start, ctypes.c_size_t(size))
    return set(host)


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
segment, mine = allocated(4 * MIB + 2 * MIB), allocated(2 * MIB + 4 * MIB)
assert mine.value == segment.value + 6 * MIB  # both are on the second page
fill(mine, MINE, 6 * MIB)
block(segment, 6 * MIB, True)
fill(segment, 1, 6 * MIB)
parts = [allocated(4 * MIB) for _ in range(PARTS)]
for step in range(6):
    for i, part in enumerate(parts):
        fill(part, 10 * step + i, 4 * MIB)
    if step == 2:  # while it is on the device
        fill(segment, 3, 6 * MIB)
        block(segment, 6 * MIB, False)
assert words_of(mine, 6 * MIB) == {MINE}
assert [words_of(part, 4 * MIB) for part in parts] == [{50 + i} for i in range(PARTS)]
call("cuMemFree_v2", segment)
again = allocated(6 * MIB)
assert again.value == segment.value
fill(again, 7, 6 * MIB)
for i, part in enumerate(parts):
    fill(part, i, 4 * MIB)
assert words_of(mine, 6 * MIB) == {MINE}
assert words_of(again, 6 * MIB) == {7}
call("cuMemFree_v2", mine)
assert words_of(again, 6 * MIB) == {7}
read = every.ulms_counter
read.restype = ctypes.c_uint64
print(read(b"dead_bytes"), read(b"evicted_bytes"))
"""


@pytest.mark.parametrize("hidden", ["followed", "known", "any"])
def test_what_a_framework_takes_back_is_not_its_neighbour_s(
    hidden: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    program = tmp_path / "shared.py"
    program.write_text(PROGRAM, encoding="utf-8")
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_HIDDEN": hidden,
        "ULMS_PAGE": "4MiB",
        "ULMS_GPU_MEMORY": "16MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
    }
    done = run_emulated([sys.executable, program], env)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[1]) > 0


FITS = """
import ctypes

driver, every = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
context = ctypes.c_void_p()


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, (name, status)


call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
for mib in SIZES:
    start = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(start), ctypes.c_size_t(mib << 20))
    call("cuMemsetD32_v2", start, ctypes.c_uint(mib), ctypes.c_size_t(mib << 18))
call("cuCtxSynchronize")
read = every.ulms_counter
read.restype = ctypes.c_uint64
print(*(read(name) for name in (b"placed_bytes", b"paged_bytes")))
"""


@pytest.mark.parametrize(
    ("sizes", "moves"),
    [((6, 6, 10), False), ((6, 6, 6, 4), False), ((22,), False), ((6, 6, 14), True)],
)
def test_what_fits_by_its_bytes_fits(
    sizes: tuple[int, ...], moves: bool, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """22 MiB are five and a half pages: a sixth may be used in part."""
    program = tmp_path / "fits.py"
    program.write_text(FITS.replace("SIZES", str(list(sizes))), encoding="utf-8")
    env = {
        "ULMS_BACKEND": "vmm",
        "ULMS_PAGE": "4MiB",
        "ULMS_GPU_MEMORY": "22MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
    }
    done = run_emulated([sys.executable, program], env)
    assert done.returncode == 0, done.stderr
    placed, paged = map(int, done.stdout.split())
    assert (paged > 0) == moves
    assert placed == 24 << 20 or moves
