"""Backend `vmm` in trouble: the result is right, or the program gets the ordinary out-of-memory.

`vmm_trouble.c` checks every word that it keeps and does without memory that is refused. What of the
host is pinned is what the emulator counts.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MIB = 1 << 20
NEEDED = 80 * MIB
"""What `large` and `kernel` allocate, in 20 pieces; their budget is a tenth of it."""
OFTEN = [
    "cuMemCreate",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
    "cuMemcpyAsync",
    "cuStreamSynchronize",
]
OURS = {2: [*OFTEN, "cuMemAddressReserve"], 7: OFTEN}
"""Calls of ours on such memory, by how many `large` makes at least; the program's own are spared,
or are others."""

Trouble = Callable[..., dict[str, int]]


@pytest.fixture
def trouble(compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> Trouble:
    """Runs a part of vmm_trouble.c, which judges itself; returns what it counted."""
    binary = compiled("vmm_trouble", str(emulator_dir / "libcuda.so.1"))

    def run(*words: str, **env: str) -> dict[str, int]:
        settings = {
            "ULMS_BACKEND": "vmm",
            "ULMS_GPU_MEMORY": "8MiB",
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "1GiB",
            **env,
        }
        done = run_emulated([binary, *words], settings)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        lines = [line.removeprefix("counter ").split() for line in done.stdout.splitlines()]
        return {name: int(value) for name, value in reversed(lines)}  # its own `refused` is first

    return run


def every(n: int, call: str) -> str:
    """EMU_FAIL: every n-th of so many calls fails."""
    return ",".join(f"{call}:after={after}" for after in range(n - 1, 3000, n))


@pytest.mark.parametrize("devices", [1, 2])
def test_a_program_ten_times_the_budget(trouble: Trouble, devices: int) -> None:
    """No more is pinned than the limit allows all devices together."""
    env = {"EMU_DEVICES": str(devices), "ULMS_MANAGED_LIMIT": str(NEEDED)}
    seen = trouble("large", str(devices), **env)
    assert (seen["kept"], seen["refused"]) == (20, 0)
    assert seen["evicted_bytes"] > NEEDED
    assert seen["pinned"] <= NEEDED


def test_a_kernel_larger_than_the_budget(trouble: Trouble) -> None:
    """It uses in place what does not fit."""
    seen = trouble("kernel", ULMS_MANAGED_LIMIT=str(NEEDED))
    assert (seen["kept"], seen["refused"]) == (20, 0)
    assert seen["short_operations"] > 0
    assert seen["pinned"] <= NEEDED


def test_small_memory_takes_from_the_budget(trouble: Trouble) -> None:
    """It stays plain, in the driver's own packing; what fitted before leaves for it."""
    seen = trouble("small")
    assert (seen["kept"], seen["refused"]) == (66, 0)
    assert seen["evicted_bytes"] > 0


def test_what_is_held_without_use_is_given_back_for_plain_memory(trouble: Trouble) -> None:
    """The driver had no memory left: it is asked once more."""
    seen = trouble("idle", EMU_MEMORY="64MiB", ULMS_GPU_MEMORY="64MiB")
    assert (seen["kept"], seen["refused"]) == (12 + 768, 0)


@pytest.mark.parametrize(("steps", "limit"), [(2000, 1024), (500, 30)])
def test_an_allocation_storm(trouble: Trouble, steps: int, limit: int) -> None:
    seen = trouble("storm", str(steps), ULMS_MANAGED_LIMIT=str(limit * MIB))
    assert seen["kept"] + seen["refused"] == steps
    assert (seen["refused"] > 0) == (limit == 30)
    assert seen["evicted_bytes"] > 0
    assert seen["pinned"] <= limit * MIB


@pytest.mark.parametrize("limit", [1024, 110])
def test_allocation_storms_on_several_threads(trouble: Trouble, limit: int) -> None:
    """Pages that they share take long to be mapped, so that others come meanwhile."""
    slow = {"ULMS_PAGE": "4MiB", "EMU_FAIL": "cuMemSetAccess:sticky:delay=1"}
    memory = {"ULMS_GPU_MEMORY": "64MiB", "ULMS_MANAGED_LIMIT": str(limit * MIB)}
    seen = trouble("storms", "80", **slow, **memory)
    assert seen["kept"] + seen["refused"] == 4 * 80
    assert (seen["refused"] > 0) == (limit == 110)
    assert seen["evicted_bytes"] > 0
    assert seen["pinned"] <= limit * MIB


def test_the_limit_is_out_of_memory(trouble: Trouble) -> None:
    seen = trouble("large", ULMS_MANAGED_LIMIT=str(48 * MIB))
    assert (seen["kept"], seen["refused"]) == (12, 8)
    assert seen["pinned"] <= 48 * MIB


@pytest.mark.parametrize("part", ["large", "kernel", "storm"])
def test_the_host_has_no_more_memory(trouble: Trouble, part: str) -> None:
    """Then memory is plain, which takes from the budget, and in the end the device is full."""
    steps = ["500"] if part == "storm" else []
    seen = trouble(part, *steps, EMU_HOST_MEMORY="16MiB", EMU_MEMORY="32MiB")
    assert seen["pinned"] == 16 * MIB
    assert seen["move_failures"] > 0
    assert seen["refused"] > 0 or part == "storm"


@pytest.mark.parametrize(("call", "n"), [(call, n) for n in (2, 7) for call in OURS[n]])
def test_every_nth_call_of_ours_fails(trouble: Trouble, call: str, n: int) -> None:
    """Two threads make calls: all memory may be plain in a run, but not in all."""
    evicted = 0
    for _ in range(10):
        seen = trouble("large", EMU_FAIL=every(n, call), ULMS_MANAGED_LIMIT=str(2 * NEEDED))
        assert (seen["kept"], seen["refused"]) == (20, 0)
        assert seen["pinned"] <= 2 * NEEDED
        assert seen["failed"] > 0
        evicted = seen["evicted_bytes"]
        if evicted > 0:
            break
    assert evicted > 0


@pytest.mark.parametrize("call", ["cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemSetAccess"])
def test_calls_fail_in_a_storm(trouble: Trouble, call: str) -> None:
    assert trouble("storm", "500", EMU_FAIL=every(5, call))["move_failures"] > 0


def test_memory_is_not_given_back_in_a_storm(trouble: Trouble) -> None:
    assert trouble("storm", "500", EMU_FAIL=every(2, "cuMemRelease"))["failed"] > 0
