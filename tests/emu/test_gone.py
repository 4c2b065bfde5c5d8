"""What goes with something else is not kept in mind (`gone.c`)."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
@pytest.mark.parametrize("what", ["arrays", "old", "fork"])
def test_programs_see_what_the_driver_answers(
    what: str,
    backend: str,
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
) -> None:
    """Twelve arrays of 8 MiB, one at a time, in 64; what a child is told of its parent's memory."""
    binary = compiled("gone", str(emulator_dir / "libcuda.so.1"))
    env = {"ULMS_BACKEND": backend, "ULMS_GPU_MEMORY": "64MiB"}
    under = run_emulated([binary, what], env)
    outside = run_emulated([binary, what], preloaded=False)
    assert (outside.returncode, outside.stdout.splitlines()[-1]) == (0, "done")
    assert (under.returncode, under.stdout) == (0, outside.stdout), under.stderr
