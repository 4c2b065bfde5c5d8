"""A handler of a signal that jumps out of a call of ours leaves no lock, and nothing half done."""

import re
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

ROUNDS = "4000"


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_a_program_that_jumps_out_of_calls_goes_on(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, backend: str
) -> None:
    """So does its other thread, and memory holds what both put there."""
    program = compiled("jumps", str(emulator_dir / "libcuda.so.1"))
    done = run_emulated([program, ROUNDS], {"ULMS_BACKEND": backend, "EMU_MEMORY": "1GiB"})
    assert (done.returncode, done.stderr) == (0, "")
    told = re.fullmatch(r"(\d+) jumps, (\d+) put off\n", done.stdout)
    assert told, done.stdout
    assert int(told[1]) > int(told[2]) > 0
