"""Memory in segments that grow moves under `vmm`, at the addresses that the program chose.

`segments.c` does what PyTorch does with `expandable_segments:True`: it reserves a range of
addresses, maps handles of one size there one after the other, and unmaps those in the middle on
which nothing lies any more. Its tensors lie across handles.
"""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

LAYERS, TENSOR_MIB, STEPS = "4", "5.5", "4"
"""70 MiB: nearly twice the budget."""
BUDGET = "38MiB"
DEVICE = {"EMU_MEMORY": "1GiB"}


@pytest.mark.parametrize("page", ["2MiB", "8MiB"])
@pytest.mark.parametrize("handle_mib", ["2", "6", "20"])
@pytest.mark.parametrize("blocks", ["told", "untold"])
def test_segments_move(
    blocks: str,
    handle_mib: str,
    page: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
) -> None:
    """Whether or not the framework tells which tensors there are: what lies side by side is one."""
    binary = compiled("segments", str(emulator_dir / "libcuda.so.1"))
    command = [binary, LAYERS, TENSOR_MIB, STEPS, handle_mib, blocks]
    env = {"ULMS_BACKEND": "vmm", "ULMS_GPU_MEMORY": BUDGET, "ULMS_PAGE": page, "ULMS_VERIFY": "1"}
    outside = run_native(command, DEVICE)
    under = run_emulated(command, {**DEVICE, **env})
    computed = [line for line in under.stdout.splitlines() if not line.startswith("counter ")]
    assert (outside.returncode, outside.stderr) == (0, "")
    assert (under.returncode, under.stderr) == (0, "")
    assert computed == outside.stdout.splitlines()
    counters = counters_in(under.stdout)
    assert min(counters["filled_bytes"], counters["evicted_bytes"]) > 0
    assert counters["violations"] == counters["move_failures"] == 0


def test_a_segment_that_fits_does_not_move(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    binary = compiled("segments", str(emulator_dir / "libcuda.so.1"))
    command = [binary, LAYERS, TENSOR_MIB, STEPS, "20", "told"]
    done = run_emulated(command, {**DEVICE, "ULMS_BACKEND": "vmm", "ULMS_PAGE": "8MiB"})
    counters = counters_in(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert counters["paged_bytes"] == counters["moves"] == 0
    assert counters["placed_bytes"] > 0
