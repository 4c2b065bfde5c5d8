"""Children of a program that uses CUDA, in which it does not work: they are none of ours."""

from pathlib import Path

import pytest

from pump.trace import read
from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

CHILDREN = "60"
MOVING = {"ULMS_GPU_MEMORY": "24MiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_MANAGED_LIMIT": "1GiB"}


@pytest.mark.parametrize("how", ["fork", "clone"])
@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_the_driver_alone_answers_a_child(
    compiled: Compile,
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    emulator_dir: Path,
    tmp_path: Path,
    backend: str,
    how: str,
) -> None:
    """Other threads have any lock of ours meanwhile. The child's end is not the parent's: counters
    and trace go on."""
    command = [compiled("left", str(emulator_dir / "libcuda.so.1")), how, CHILDREN]
    files = {"ULMS_STATS": str(tmp_path / "stats"), "ULMS_TRACE": str(tmp_path / "trace")}
    native = run_native(command)
    more = {**MOVING, "ULMS_STATS": files["ULMS_STATS"]} if backend != "observe" else files
    under = run_emulated(command, {"ULMS_BACKEND": backend, **more})
    assert native.returncode == 0
    assert f"{how}: {CHILDREN} ended well; counters: 1\n" in native.stdout
    assert (under.returncode, under.stdout) == (0, native.stdout)
    assert not (tmp_path / "stats").exists()
    if backend == "observe":
        trace = read(tmp_path / "trace")
        assert (trace.losses, trace.closed) == ([], True)
