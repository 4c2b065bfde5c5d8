"""Pages begin to move when memory no longer fits, and stop when it fits again."""

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu

BLOCKS, SIZE_MIB, MEMORY_MIB = 24, 4, 40
KEPT = 8
"""Blocks that fit into the memory with room to spare."""
SWEEPS = f"""
import time

SIZE = {SIZE_MIB} * MIB


def sweep(parts, word):
    for i, part in enumerate(parts):
        fill(part, word + i, SIZE)


def right(parts, word):
    return all(words_of(part, SIZE) == {{word + i}} for i, part in enumerate(parts))


def paged():
    return counter("paged_bytes") + counter("move_failures")


def seconds_until(done, most=20):
    start = time.monotonic()
    while not done():
        assert time.monotonic() - start < most, "it never came"
        time.sleep(0.002)
    return time.monotonic() - start


def rests():
    before = paged()
    call("cuMemsetD8_v2", parts[0], ctypes.c_ubyte(7), ctypes.c_size_t(SIZE))
    call("cuCtxSynchronize")
    time.sleep(0.05)  # counters of moves are told now and then
    return paged() == before
"""
FREED = (
    SWEEPS
    + f"""
for turn in range(2):
    parts = [allocated(SIZE) for _ in range({BLOCKS})]
    sweep(parts, 100 * turn)
    sweep(parts, 200 * turn + 1)
    assert not rests()
    fill(parts[0], 200 * turn + 1, SIZE)
    assert right(parts, 200 * turn + 1)
    for part in parts[{KEPT}:]:
        call("cuMemFree_v2", part)
    del parts[{KEPT}:]
    seconds_until(rests)
    fill(parts[0], 200 * turn + 1, SIZE)
    assert right(parts, 200 * turn + 1)
    moved = counter("evicted_bytes")
    sweep(parts, 5)
    assert right(parts, 5)
    assert counter("evicted_bytes") == moved
    for part in parts:
        call("cuMemFree_v2", part)
print("same")
"""
)
GRANTED = (
    SWEEPS
    + f"""
every.ulms_grant.argtypes = ctypes.c_int, ctypes.c_uint64
parts = [allocated(SIZE) for _ in range({BLOCKS})]
sweep(parts, 1)
assert rests()
fill(parts[0], 1, SIZE)
told = ctypes.c_size_t(), ctypes.c_size_t()
call("cuMemGetInfo_v2", *map(ctypes.byref, told))
free = told[0].value
took = []
for _ in range(3):
    before = counter("evicted_bytes") + counter("dropped_bytes")
    assert every.ulms_grant(0, {MEMORY_MIB} * MIB)
    least = ({BLOCKS} * {SIZE_MIB} - {MEMORY_MIB}) * MIB
    gone = lambda: counter("evicted_bytes") + counter("dropped_bytes") - before
    took.append(seconds_until(lambda: gone() >= least))
    call("cuMemGetInfo_v2", *map(ctypes.byref, told))
    assert told[0].value == free
    assert right(parts, 1)
    assert every.ulms_grant(0, 0)
    seconds_until(rests)
    fill(parts[0], 1, SIZE)
    assert right(parts, 1)
print(min(took))
"""
)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_memory_that_is_freed_ends_moving(
    run_emulated: RunEmulated, tmp_path: Path, backend: str
) -> None:
    told = run_small(run_emulated, tmp_path, FREED, memory=f"{MEMORY_MIB}MiB", ULMS_BACKEND=backend)
    assert told == "same\n"


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_smaller_grant_reaches_an_idle_program(
    run_emulated: RunEmulated, tmp_path: Path, backend: str
) -> None:
    """At once, and a larger one ends moving. The shortest of three: others use the machine, too."""
    told = run_small(run_emulated, tmp_path, GRANTED, memory="160MiB", ULMS_BACKEND=backend)
    assert float(told) < 0.1


def test_observe_grants_nothing(run_emulated: RunEmulated, tmp_path: Path) -> None:
    told = run_small(
        run_emulated,
        tmp_path,
        "print(every.ulms_grant(0, ctypes.c_uint64(MIB)))",
        memory="40MiB",
        ULMS_BACKEND="observe",
    )
    assert told == "0\n"


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_launches_are_as_cheap_again(
    run_emulated: RunEmulated, compiled: Compile, emulator_dir: Path, tmp_path: Path, backend: str
) -> None:
    program = compiled("refit", str(emulator_dir / "libcuda.so.1"))
    counted = {}
    for when in ("before", "after"):
        counts = tmp_path / when
        tool = ["valgrind", "-q", "--tool=callgrind", "--toggle-collect=counted_launches"]
        env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "32MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
        done = run_emulated([*tool, f"--callgrind-out-file={counts}", program, when], env)
        assert done.returncode == 0, done.stderr
        counted[when] = int(re.findall(r"^summary: (\d+)", counts.read_text(), re.MULTILINE)[0])
    assert counted["before"] > 256 * 50
    assert counted["after"] <= 1.05 * counted["before"], counted
