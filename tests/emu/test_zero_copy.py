"""What pump-bench calls zero-copy on a GPU, on the emulated device: all is used where it lies."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu.budget import Budget, environment  # noqa: E402
from tests.conftest import Compile, RunEmulated  # noqa: E402
from tests.emu.counters import counters_in  # noqa: E402

pytestmark = pytest.mark.emu

MIB = 1 << 20
LAYERS, LAYER_MIB, STEPS = 6, 4, 6
NONE = ("filled_bytes", "placed_bytes", "evicted_bytes", "faulted_bytes", "held_ns")


@pytest.fixture
def run(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> Callable[[str, str], tuple[list[str], dict[str, int]]]:
    """A shape of steps.c under a system: what it computed, and the counters."""
    binary = compiled("steps", str(emulator_dir / "libcuda.so.1"))

    def once(shape: str, system: str) -> tuple[list[str], dict[str, int]]:
        budget = None if system == "native" else Budget(64 * MIB, 128 * MIB)
        env = {k: v for k, v in environment(system, budget).items() if k.startswith("ULMS_")}
        command = [binary, shape, str(LAYERS), str(LAYER_MIB), str(STEPS)]
        done = run_emulated(command, env, preloaded=budget is not None)
        assert (done.returncode, done.stderr) == (0, "")
        lines = [line.split() for line in done.stdout.splitlines()]
        told = [" ".join(line) for line in lines if line[0] not in ("counter", "driver")]
        return told, counters_in(done.stdout)

    return once


@pytest.mark.parametrize("shape", ["train", "infer", "threads"])
def test_no_page_comes_to_the_device(
    shape: str, run: Callable[[str, str], tuple[list[str], dict[str, int]]]
) -> None:
    told, counters = run(shape, "zero-copy")
    assert told == run(shape, "native")[0]
    assert {name: counters[name] for name in NONE} == dict.fromkeys(NONE, 0)
    assert counters["in_place_bytes"] == counters["touched_bytes"] > 0
    # where there is a budget they come, though all would fit
    assert run(shape, "vmm")[1]["placed_bytes"] > 0
