"""What few programs do: it goes as natively while memory moves."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

PARTS = ["crossed", "spawned", "cancelled", "timed", "awaited", "freed", "replaced", "contexts"]
PARTS += ["pieces", "many"]
MOVING = {"ULMS_GPU_MEMORY": "24MiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_MANAGED_LIMIT": "1GiB"}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_it_goes_as_natively(
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    backend: str,
    part: str,
) -> None:
    command = [compiled("unusual", str(emulator_dir / "libcuda.so.1")), part]
    environment = {"ULMS_BACKEND": backend, "ULMS_STATS": "on"}
    environment |= MOVING if backend != "observe" else {}
    native = run_native(command)
    under = run_emulated(command, environment)
    assert native.returncode == 0
    assert (under.returncode, under.stdout, under.stderr) == (0, native.stdout, "")
