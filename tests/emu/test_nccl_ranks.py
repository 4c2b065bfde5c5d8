"""Ranks that reduce and exchange memory of which only a part is on their devices.

Kernels of the ranks wait for one another, and use one another's buffers in place.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import BUILD, Compile, RunEmulated, made_once
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

LIBRARY = "libnccl.so.2"
LAYERS, MIB, STEPS, RANKS = 6, 4, 2, 2
CALLS = 4 * LAYERS * STEPS
"""Groups of calls; a copy and a memset come before four of them, on each device."""
NEEDS = 2 * LAYERS * MIB
Run = Callable[..., str]
SETUPS = {
    "um": {"ULMS_BACKEND": "um"},
    "vmm": {"ULMS_BACKEND": "vmm"},
    "verify": {"ULMS_BACKEND": "vmm", "ULMS_VERIFY": "1"},
}


@pytest.fixture(scope="module")
def library(common_folder: Path, compiled: Compile) -> Path:
    folder = common_folder / "ranks-libraries"
    folder.mkdir(exist_ok=True)
    driver = str(BUILD / "emulator" / "libcuda.so.1")
    library = compiled("ranks_nccl", driver, f"-Wl,-soname,{LIBRARY}", shared=True)
    return made_once(folder / LIBRARY, lambda target: target.symlink_to(library))


@pytest.fixture(scope="module")
def program(compiled: Compile, library: Path) -> Path:
    return compiled("ranks", str(library.resolve()), str(BUILD / "emulator" / "libcuda.so.1"))


@pytest.fixture
def run(program: Path, library: Path, run_emulated: RunEmulated) -> Run:
    """What the program prints under these settings; None: natively."""

    def run(env: dict[str, str] | None, *words: str) -> str:
        folders = {"LD_LIBRARY_PATH": f"{library.parent}:{BUILD / 'emulator'}"}
        done = run_emulated(
            [program, LAYERS, MIB, STEPS, *words],
            folders | {"EMU_DEVICES": "2", "ULMS_MANAGED_LIMIT": "1GiB"} | (env or {}),
            preloaded=env is not None,
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        return done.stdout

    return run


def sums(output: str) -> list[str]:
    return [line for line in output.splitlines() if " of " in line]


@pytest.mark.parametrize(
    ("setup", "budget"),
    [*((setup, NEEDS // 2) for setup in SETUPS), ("um", 3 * MIB // 2), ("vmm", 3 * MIB // 2)],
)
def test_a_group_is_one_operation_of_each_device(run: Run, setup: str, budget: int) -> None:
    """Numbers are the native ones, and no kernel keeps memory from moving that it does not use."""
    env = SETUPS[setup] | {"ULMS_GPU_MEMORY": f"{budget}MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
    output = run(env)
    counters = counters_in(output)
    assert sums(output) == sums(run(None)) != []
    assert counters["launches"] == CALLS * RANKS
    learnt = counters["predicted"] + counters["surprises"]
    assert learnt <= (CALLS + CALLS // 2 + 4 * LAYERS) * RANKS  # the last: at the start and end
    assert counters["evicted_bytes"] > 0
    assert (counters["opaque"], counters["violations"]) == (0, 0)
    assert (counters["short_operations"] > 0) == (budget < 2 * MIB)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_what_nobody_looked_at_may_be_anything(run: Run, backend: str) -> None:
    """Pages begin to move in the middle of a group, of which calls have passed."""
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": f"{NEEDS * 4 // 3}MiB"}
    output = run(env | {"ULMS_GPU_MEMORY_FACTOR": "100"}, "late")
    counters = counters_in(output)
    assert sums(output) == sums(run(None, "late")) != []
    assert counters["evicted_bytes"] > 0
    assert (counters["opaque"] > 0) == (backend == "vmm")
