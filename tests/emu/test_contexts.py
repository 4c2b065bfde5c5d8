"""Programs with two contexts that take turns: streams of ours are made once a context."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
TURNS, SIZE_MIB, MEMORY_MIB = 24, 4, 40
PROGRAM = f"""
other = ctypes.c_void_p()
call("cuCtxCreate_v2", ctypes.byref(other), 0, 0)
driver.emu_calls.restype = ctypes.c_uint64
parts = []
for turn in range({TURNS}):
    call("cuCtxSetCurrent", (context, other)[turn % 2])
    parts.append(allocated({SIZE_MIB} * MIB))
    for i, part in enumerate(parts):
        if i % 2 == turn % 2:
            fill(part, i, {SIZE_MIB} * MIB)
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i}} for i, part in enumerate(parts))
made, gone = (driver.emu_calls(name) for name in (b"cuStreamCreate", b"cuStreamDestroy_v2"))
print(made - gone, counter("evicted_bytes") + counter("faulted_bytes"))
"""


@pytest.mark.parametrize(("backend", "policy"), [("um", "ahead"), ("um", "pump"), ("vmm", "ahead")])
def test_streams_do_not_pile_up(
    backend: str, policy: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    memory = f"{MEMORY_MIB}MiB"
    env = {"ULMS_BACKEND": backend, "ULMS_POLICY": policy}
    told = run_small(run_emulated, tmp_path, PROGRAM, memory=memory, **env)
    streams, moved = map(int, told.split())
    assert streams <= 8
    assert moved > 0


REFERENCES = f"""
import time
flags, active, again = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
gone = ctypes.c_uint64()


def is_active():
    call("cuDevicePrimaryCtxGetState", 0, ctypes.byref(flags), ctypes.byref(active))
    return active.value


def streams():
    return driver.emu_calls(b"cuStreamCreate") - driver.emu_calls(b"cuStreamDestroy_v2")


driver.emu_calls.restype = ctypes.c_uint64
parts = [allocated({SIZE_MIB} * MIB) for _ in range({TURNS})]
before, took = 0, 0
for turn in range(20):
    for i, part in enumerate(parts):
        words = ctypes.c_size_t({SIZE_MIB} * MIB // 4)
        call("cuMemsetD32Async", part, ctypes.c_uint(i), words, None)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(again), 0)
    began = time.monotonic()
    call("cuDevicePrimaryCtxRelease_v2", 0)
    took += time.monotonic() - began
    before = before or streams()
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i}} for i, part in enumerate(parts))
grown = streams() - before
END
assert not is_active()
assert driver.cuMemAlloc_v2(ctypes.byref(gone), ctypes.c_size_t(MIB)) in (201, 709)
call("cuDevicePrimaryCtxRetain", ctypes.byref(again), 0)
call("cuCtxSetCurrent", again)
parts = [allocated({SIZE_MIB} * MIB) for _ in range({TURNS})]
for i, part in enumerate(parts):
    fill(part, i + 7, {SIZE_MIB} * MIB)
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i + 7}} for i, part in enumerate(parts))
print(grown, round(took * 1000))
"""
ENDS = {
    "released": 'call("cuDevicePrimaryCtxRelease_v2", 0)',
    "reset": 'call("cuDevicePrimaryCtxReset_v2", 0)',
    "reset, with more references": 'call("cuDevicePrimaryCtxRetain", ctypes.byref(again), 0)\n'
    'call("cuDevicePrimaryCtxReset_v2", 0)',
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("backend", ["um", "vmm", "observe"])
def test_a_primary_context_goes_with_its_last_reference(
    backend: str, end: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """A reference that is given back before costs nothing, and nothing is made anew."""
    memory = "8GiB" if backend == "observe" else f"{MEMORY_MIB}MiB"
    program = REFERENCES.replace("END", ENDS[end])
    told = run_small(run_emulated, tmp_path, program, memory=memory, ULMS_BACKEND=backend)
    grown, ms = map(int, told.split())
    assert grown <= 8
    assert ms < 200


DETACHED = f"""
other, same = ctypes.c_void_p(), ctypes.c_void_p()
used = [allocated({SIZE_MIB} * MIB) for _ in range(4)]
for round in range(3):
    call("cuCtxCreate_v2", ctypes.byref(other), 0, 0)
    parts = [allocated({SIZE_MIB} * MIB) for _ in range({TURNS})]
    for i, part in enumerate(parts):
        fill(part, i, {SIZE_MIB} * MIB)
    call("cuCtxAttach", ctypes.byref(same), 0)
    call("cuCtxDetach", other)
    assert all(words_of(part, {SIZE_MIB} * MIB) == {{i}} for i, part in enumerate(parts))
    call("cuCtxDetach", other)
    call("cuCtxSetCurrent", context)
    call("cuCtxDetach", context)
    for i, part in enumerate(used):
        fill(part, i + round, {SIZE_MIB} * MIB)
assert all(words_of(part, {SIZE_MIB} * MIB) == {{i + 2}} for i, part in enumerate(used))
bytes_now, every_byte = ctypes.c_size_t(), ctypes.c_size_t()
call("cuMemGetInfo_v2", ctypes.byref(bytes_now), ctypes.byref(every_byte))
print("detached")
"""


@pytest.mark.parametrize("backend", ["um", "vmm", "observe"])
def test_a_context_goes_with_the_last_that_is_detached(
    backend: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """And its memory with it, also from what counts against the limit of managed memory."""
    memory = "8GiB" if backend == "observe" else f"{MEMORY_MIB}MiB"
    env = {"ULMS_BACKEND": backend, "ULMS_MANAGED_LIMIT": "128MiB"}
    assert run_small(run_emulated, tmp_path, DETACHED, memory=memory, **env) == "detached\n"
