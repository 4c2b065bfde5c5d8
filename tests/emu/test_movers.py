"""Movers of managed memory: how many contexts of ours they issue into, and what is left without."""

from pathlib import Path

import pytest

from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
ROUNDS, SIZE_MIB, PARTS, MEMORY_MIB = 4, 4, 16, 32
PROGRAM = f"""
driver.emu_calls.restype = ctypes.c_uint64
before = driver.emu_calls(b"cuCtxCreate_v2")
parts = [allocated({SIZE_MIB} * MIB) for _ in range({PARTS})]
for round in range({ROUNDS}):
    for i, part in enumerate(parts):
        fill(part, round + i, {SIZE_MIB} * MIB)
    for i, part in enumerate(parts):
        assert words_of(part, 4096) == {{round + i}}
print(driver.emu_calls(b"cuCtxCreate_v2") - before, counter("evicted_bytes"))
"""
ALL_BUSY = """
driver.emu_calls.restype = ctypes.c_uint64
before = driver.emu_calls(b"cuCtxCreate_v2")
parts = [allocated({PART_MIB} * MIB) for _ in range(3)]
for round in range(2):
    for i, part in enumerate(parts):
        fill(part, round + i, {PART_MIB} * MIB)
print(driver.emu_calls(b"cuCtxCreate_v2") - before, counter("evicted_bytes"))
"""
"""Each operation makes all that is there leave, many moves at a time."""
SLOW_OUT = {"EMU_TIME": "1", "EMU_PREFETCH_OUT_NS": "5"}
"""2 MiB take the calling thread 10 ms."""


def moved(
    tmp_path: Path,
    run_emulated: RunEmulated,
    gib: int,
    backend: str = "um",
    fail: str = "",
    *,
    busy: bool = True,
) -> tuple[int, int]:
    """Contexts that were asked for as memory was short, and bytes that left the device.

    The program may use so many GiB, and pages one per cent of it.
    """
    env = {"EMU_MEMORY": "96GiB", "EMU_FAIL": fail, "ULMS_BACKEND": backend}
    env |= {"ULMS_GPU_MEMORY_FACTOR": "1", **(SLOW_OUT if busy else {})}
    part = gib * 1024 // 100 // 2 * 2
    program = ALL_BUSY.replace("{PART_MIB}", str(part)) if busy else PROGRAM
    told = run_small(run_emulated, tmp_path, program, memory=f"{gib}GiB", **env)
    contexts, left = map(int, told.split())
    return contexts, left


@pytest.mark.parametrize(("gib", "contexts"), [(1, 2), (2, 4), (4, 8), (16, 8)])
def test_who_may_use_much_memory_has_room_for_more_contexts(
    gib: int, contexts: int, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """On the same device."""
    made, left = moved(tmp_path, run_emulated, gib)
    assert made == contexts
    assert left > 0


def test_movers_that_are_not_needed_do_not_begin(tmp_path: Path, run_emulated: RunEmulated) -> None:
    made, left = moved(tmp_path, run_emulated, 3, busy=False)
    assert made < 8
    assert left > 0


def test_vmm_has_none(tmp_path: Path, run_emulated: RunEmulated) -> None:
    made, left = moved(tmp_path, run_emulated, 8, "vmm")
    assert made == 0
    assert left > 0


@pytest.mark.parametrize("fail", ["sticky", "after=1:sticky", "after=1"])
def test_without_a_context_another_is_shared(
    fail: str, tmp_path: Path, run_emulated: RunEmulated
) -> None:
    asked, left = moved(tmp_path, run_emulated, 1, fail=f"cuCtxCreate_v2:{fail}")
    assert asked == 2
    assert left > 0


SLOW_IN = {
    "EMU_TIME": "1",
    "EMU_PREFETCH_GBS": "0.1",
    "EMU_PREFETCH_BOTH_GBS": "10",
    "EMU_PREFETCH_CALL_NS": "0",
    "EMU_PREFETCH_IN_NS": "0",
}
"""So many GB/s that 8 MiB take 84 ms, which none of a call's time is."""
FEW = f"""
parts = [allocated({SIZE_MIB} * MIB) for _ in range({PARTS})]
for i, part in enumerate(parts):
    fill(part, i, {SIZE_MIB} * MIB)


def counted():
    return [counter(name) for name in ("filled_bytes", "in_ns", "held_ns")]


least = float("inf")
for i in range({PARTS}):  # in the order in which they left: none comes early yet
    before = counted()
    assert words_of(parts[i], {SIZE_MIB} * MIB) == {{i}}
    came, waited, held = (now - then for now, then in zip(counted(), before))
    least = min(least, (waited + held) / came) if came else least
    if least < {{MOST}}:
        break
print(least)
"""


def test_a_mover_of_managed_memory_waits_for_no_bytes_that_come(
    tmp_path: Path, run_emulated: RunEmulated
) -> None:
    """Of what comes the shortest wait counts: what else the machine does makes it longer."""
    env = {"EMU_MEMORY": "96GiB", "ULMS_BACKEND": "um", **SLOW_IN}
    most = 1 / 0.1 / 2
    text = FEW.replace("{MOST}", str(most))
    least = run_small(run_emulated, tmp_path, text, memory=f"{MEMORY_MIB}MiB", **env)
    assert float(least) < most
