"""Devices that use one another's memory, all of which moves.

`peers.c` judges itself. What the driver lets a device use is its own word: the emulated one ends
the context of who uses memory that it has no access to.
"""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

SETUPS = {
    "um": {"ULMS_BACKEND": "um"},
    "vmm": {"ULMS_BACKEND": "vmm"},
    "verify": {"ULMS_BACKEND": "vmm", "ULMS_VERIFY": "1"},
    "known": {"ULMS_BACKEND": "vmm", "ULMS_HIDDEN": "known"},
}
BUDGETS = {
    "EMU_DEVICES": "2",
    "ULMS_GPU_MEMORY": "8MiB",
    "ULMS_GPU_MEMORY_FACTOR": "100",
    "ULMS_MANAGED_LIMIT": "1GiB",
}
"""A third of what each device needs."""


@pytest.mark.parametrize("part", ["kernels", "copies"])
@pytest.mark.parametrize("setup", [None, *SETUPS])
def test_results_are_right(
    setup: str | None,
    part: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
) -> None:
    binary = compiled("peers", str(emulator_dir / "libcuda.so.1"))
    env = BUDGETS | (SETUPS[setup] if setup else {})
    done = run_emulated([binary, part], env, preloaded=setup is not None)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    if setup:
        counters = counters_in(done.stdout)
        assert counters["evicted_bytes"] > 48 << 20  # more than one device has in all
        assert counters["violations"] == 0
