"""Pages begin to move when memory no longer fits, and stop when it fits again."""

import shutil
from pathlib import Path

import pytest

from bench.micro import callgrind
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
GRANTS = (
    SWEEPS
    + """
import threading

every.ulms_grant.argtypes = ctypes.c_int, ctypes.c_uint64


def held():
    used, total = ctypes.c_uint64(), ctypes.c_uint64()
    driver.emu_device_memory(0, ctypes.byref(used), ctypes.byref(total))
    return used.value


def graph_of(size, stream):
    start, graph, executable = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    call("cuStreamBeginCapture_v2", stream, 0)
    call("cuMemAllocAsync", ctypes.byref(start), ctypes.c_size_t(size), stream)
    call("cuMemsetD32Async", start, ctypes.c_uint(1), ctypes.c_size_t(size // 4), stream)
    call("cuMemFreeAsync", start, stream)
    call("cuStreamEndCapture", stream, ctypes.byref(graph))
    call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
    return executable


def new_stream():
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 1)
    return stream
"""
)
GRANTED = (
    GRANTS
    + f"""
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
    took.append(seconds_until(gone))
    seconds_until(lambda: gone() >= least)
    VMM and seconds_until(lambda: held() <= {MEMORY_MIB} * MIB)
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


@pytest.mark.alone  # of time
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_smaller_grant_reaches_an_idle_program(
    run_emulated: RunEmulated, tmp_path: Path, backend: str
) -> None:
    """Pages begin to leave at once, and a larger one ends moving. The shortest of three counts."""
    text = f"VMM = {backend == 'vmm'}\n" + GRANTED
    told = run_small(run_emulated, tmp_path, text, memory="160MiB", ULMS_BACKEND=backend)
    assert float(told) < 0.1


SHRINKS = (
    GRANTS
    + """
parts = [allocated(SIZE) for _ in range(100)]
scratch = allocated(SIZE)
sweep(parts, 1)
took = []
for _ in range(3):
    driver.emu_fail(b"cuMemSetAccess:sticky:delay=8")
    assert every.ulms_grant(0, 72 * MIB)
    took.append(seconds_until(lambda: held() <= 72 * MIB))
    driver.emu_fail(None)
    assert every.ulms_grant(0, 192 * MIB)
    for part in 2 * parts:
        call("cuMemcpyDtoDAsync_v2", scratch, part, ctypes.c_size_t(SIZE), None)
    call("cuCtxSynchronize")
    time.sleep(0.1)
assert right(parts, 1)
print(min(took[1:]))
"""
).replace(f"SIZE = {SIZE_MIB} * MIB", "SIZE = 2 * MIB")


@pytest.mark.alone  # of time
def test_pages_that_leave_for_a_smaller_grant_are_mapped_by_movers(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    """59 clean pages leave. One thread that maps them one by one takes 8 ms each."""
    more = {"ULMS_HIDDEN": "known", "ULMS_PAGE": "2MiB"}
    told = run_small(run_emulated, tmp_path, SHRINKS, memory="1GiB", **more)
    assert float(told) < 0.75 * 59 * 0.008, told


def test_observe_grants_nothing(run_emulated: RunEmulated, tmp_path: Path) -> None:
    told = run_small(
        run_emulated,
        tmp_path,
        "print(every.ulms_grant(0, ctypes.c_uint64(MIB)))",
        memory="40MiB",
        ULMS_BACKEND="observe",
    )
    assert told == "0\n"


ELSEWHERE = (
    GRANTS
    + f"""
parts = [allocated(SIZE) for _ in range({BLOCKS})]
sweep(parts, 1)
other = ctypes.c_void_p()


def grant():
    if WHERE == "other device":
        call("cuDevicePrimaryCtxRetain", ctypes.byref(other), 1)
        call("cuCtxSetCurrent", other)
    assert every.ulms_grant(0, {MEMORY_MIB} * MIB)


thread = threading.Thread(target=grant)
thread.start()
thread.join()
least = ({BLOCKS} * {SIZE_MIB} - {MEMORY_MIB}) * MIB
seconds_until(lambda: counter("evicted_bytes") + counter("dropped_bytes") >= least)
sweep(parts, 5)
assert right(parts, 5)
assert not rests()
assert counter("move_failures") == 0
print("moves")
"""
)


@pytest.mark.parametrize("where", ["no context", "other device"])
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_any_thread_may_grant(
    run_emulated: RunEmulated, tmp_path: Path, backend: str, where: str
) -> None:
    text = f"WHERE = {where!r}\n" + ELSEWHERE
    more = {"ULMS_BACKEND": backend, "EMU_DEVICES": "2"}
    assert run_small(run_emulated, tmp_path, text, memory="160MiB", **more) == "moves\n"


ENDED = (
    GRANTS
    + """
other = ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(other), 1)
first = [allocated(SIZE) for _ in range(16)]
sweep(first, 100)
sweep(first, 200)
call("cuCtxSetCurrent", other)
parts = [allocated(SIZE) for _ in range(16)]
sweep(parts, 300)
for part in parts[4:]:
    call("cuMemFree_v2", part)
call("cuCtxSetCurrent", context)
driver.emu_fail(b"cuEventRecord:sticky,cuEventCreate:sticky")
driver.cuMemsetD32_v2(first[0], ctypes.c_uint(200), ctypes.c_size_t(SIZE // 4))
driver.emu_fail(None)
time.sleep(1.5)
assert right(first, 200)
print("same")
"""
)


def test_a_device_that_fits_again_leaves_one_that_gave_up_alone(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    told = run_small(run_emulated, tmp_path, ENDED, memory="40MiB", EMU_DEVICES="2")
    assert told == "same\n"


GRAPH = (
    GRANTS
    + """
stream = new_stream()
for part in [allocated(SIZE) for _ in range(35)]:
    fill(part, 1, SIZE)
    parts = [part]
    call("cuMemFree_v2", part)
executable = graph_of(100 * MIB, stream)
call("cuGraphLaunch", executable, stream)
most = held()
call("cuStreamSynchronize", stream)
assert most <= 160 * MIB, most
print("ran")
"""
)


@pytest.mark.parametrize("device", ["160MiB", "1GiB"])
def test_frames_without_pages_make_room_for_a_graph(
    run_emulated: RunEmulated, tmp_path: Path, device: str
) -> None:
    told = run_small(run_emulated, tmp_path, GRAPH, memory="160MiB", EMU_MEMORY=device)
    assert told == "ran\n"


TRIMMED = (
    GRANTS
    + f"""
stream = new_stream()
executable = graph_of(16 * MIB, stream)
parts = [allocated(SIZE) for _ in range({BLOCKS})]
sweep(parts, 1)
sweep(parts, 2)
for turn in range(2):
    call("cuGraphLaunch", executable, stream)
    most = held()
    call("cuStreamSynchronize", stream)
    assert most <= {MEMORY_MIB} * MIB + SIZE, (turn, most)
    call("cuDeviceGraphMemTrim", 0)
    sweep(parts, 3)
    sweep(parts, 4)
assert right(parts, 4)
print("within")
"""
)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_pages_leave_for_a_graph_also_after_its_memory_was_trimmed(
    run_emulated: RunEmulated, tmp_path: Path, backend: str
) -> None:
    told = run_small(
        run_emulated, tmp_path, TRIMMED, memory=f"{MEMORY_MIB}MiB", ULMS_BACKEND=backend
    )
    assert told == "within\n"


REFUSED = (
    GRANTS
    + f"""
parts = [allocated(SIZE) for _ in range({BLOCKS})]
sweep(parts, 1)
for part in parts[{KEPT}:]:
    fill(part, 3, SIZE)
for part in parts[{KEPT}:]:
    call("cuMemFree_v2", part)
del parts[{KEPT}:]
driver.emu_fail(b"cuMemPrefetchAsync:sticky")
time.sleep(1.5)
assert counter("faulted_bytes") == 0
assert right(parts, 1)
print("same")
"""
)


def test_pages_that_cannot_come_do_not_count_as_here(
    run_emulated: RunEmulated, tmp_path: Path
) -> None:
    told = run_small(run_emulated, tmp_path, REFUSED, memory=f"{MEMORY_MIB}MiB", ULMS_BACKEND="um")
    assert told == "same\n"


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_launches_are_as_cheap_again(
    run_emulated: RunEmulated, compiled: Compile, emulator_dir: Path, tmp_path: Path, backend: str
) -> None:
    program = compiled("refit", str(emulator_dir / "libcuda.so.1"))
    counted = {}
    for when in ("before", "after"):
        counts = tmp_path / when
        env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "32MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
        tool = callgrind.tool(counts, "--toggle-collect=counted_launches")
        done = run_emulated([*tool, program, when], env)
        assert done.returncode == 0, done.stderr
        counted[when] = callgrind.instructions_in(counts, "ulms.so")
    assert counted["before"] > 256 * 20
    assert counted["after"] <= 1.01 * counted["before"], counted
