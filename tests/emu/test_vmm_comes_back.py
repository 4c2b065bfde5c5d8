"""Memory that is freed in stream order while it is away, and given out again, under `vmm`."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
PROGRAM = """
import time

PARTS, GONE, NEW = 8, 0xA, 0xBAD
stream = ctypes.c_void_p()


def allocated(size):
    start = ctypes.c_uint64()
    call("cuMemAllocAsync", ctypes.byref(start), ctypes.c_size_t(size), stream)
    return start


def fill(start, word, size):
    call("cuMemsetD32Async", start, ctypes.c_uint(word), ctypes.c_size_t(size // 4), stream)
    call("cuStreamSynchronize", stream)


call("cuStreamCreate", ctypes.byref(stream), 1)
first = allocated(4 * MIB)
fill(first, GONE, 4 * MIB)
parts = [allocated(2 * MIB) for _ in range(PARTS)]
for _ in range(6):
    for i, part in enumerate(parts):
        fill(part, i, 2 * MIB)
moved = -1
while moved != (moved := counter("evicted_bytes")):
    time.sleep(0.3)
assert moved >= 4 * MIB, moved
call("cuMemFreeAsync", first, stream)
driver.emu_fail(b"cuEventRecord:sticky")  # so that nothing moves any more
fill(parts[0], 0, 2 * MIB)
driver.emu_fail(None)
fill(parts[0], 0, 2 * MIB)
again = allocated(4 * MIB)
assert again.value == first.value
fill(again, NEW, 4 * MIB)
assert words_of(again, 4 * MIB) == {NEW}
wrong = [i for i, part in enumerate(parts) if words_of(part, 2 * MIB) != {i}]
assert not wrong, wrong
"""


@pytest.mark.parametrize("hidden", ["followed", "known", "any"])
def test_it_is_nobody_elses(hidden: str, tmp_path: Path, run_emulated: RunEmulated) -> None:
    """What is away may be mapped where others lie: not what is given out."""
    run_small(run_emulated, tmp_path, PROGRAM, memory="12MiB", ULMS_PAGE="2MiB", ULMS_HIDDEN=hidden)
