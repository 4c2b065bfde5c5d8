"""Calls in contexts and streams that are gone, lost or none go as natively while memory moves."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

PARTS = ["destroyed", "poisoned", "nowhere", "reset", "streams", "threads"]
FITS = {"ULMS_GPU_MEMORY": "1GiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_MANAGED_LIMIT": "1GiB"}
MOVES = FITS | {"ULMS_GPU_MEMORY": "24MiB"}
SETUPS = {
    "observe": {"ULMS_BACKEND": "observe"},
    "um": MOVES | {"ULMS_BACKEND": "um"},
    "um-none": MOVES | {"ULMS_BACKEND": "um", "ULMS_POLICY": "none"},
    "um-fits": FITS | {"ULMS_BACKEND": "um"},
    "vmm": MOVES | {"ULMS_BACKEND": "vmm"},
    "vmm-fits": FITS | {"ULMS_BACKEND": "vmm"},
}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("setup", SETUPS)
def test_it_goes_as_natively(
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    setup: str,
    part: str,
) -> None:
    """In a context that is lost to an error nothing moves any more, which is told."""
    command = [compiled("lost", str(emulator_dir / "libcuda.so.1")), part]
    native = run_native(command)
    under = run_emulated(command, SETUPS[setup])
    assert native.returncode == 0, native.stderr
    assert (under.returncode, under.stdout) == (0, native.stdout)
    told = [line for line in under.stderr.splitlines() if "its memory " not in line]
    assert not (told if part == "poisoned" else under.stderr)
