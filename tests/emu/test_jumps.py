"""A handler of a signal that jumps out of a call of ours leaves no lock, and nothing half done."""

import re
from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

MOVING = {"ULMS_GPU_MEMORY": "8MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
"""Room for four of the program's ten blocks."""


@pytest.mark.parametrize(
    ("backend", "rounds", "room"),
    [
        ("observe", 4000, {}),
        ("um", 4000, {}),
        ("vmm", 4000, {}),
        ("um", 1000, MOVING),
        ("vmm", 1000, MOVING),
    ],
)
def test_a_program_that_jumps_out_of_calls_goes_on(
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    backend: str,
    rounds: int,
    room: dict[str, str],
) -> None:
    """So does its other thread, and memory holds what both put there."""
    program = compiled("jumps", str(emulator_dir / "libcuda.so.1"))
    settings = {"ULMS_BACKEND": backend, "EMU_MEMORY": "1GiB", **room}
    done = run_emulated([program, str(rounds)], settings)
    assert (done.returncode, done.stderr) == (0, "")
    told = re.fullmatch(r"(\d+) jumps, (\d+) put off\n", done.stdout)
    assert told, done.stdout
    assert int(told[1]) >= int(told[2]) > (0 if room else -1)
