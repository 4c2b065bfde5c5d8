"""CUDA before and after a fork: the program sees what it would have seen without ulms.so."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu


@pytest.mark.parametrize("order", ["before", "after"])
def test_fork(order: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path) -> None:
    program = compiled("forks", str(emulator_dir / "libcuda.so.1"))
    plain = run_emulated([program, order], preloaded=False)
    assert plain.returncode == 0
    assert ("child: 3" in plain.stdout) == (order == "before")
    observed = run_emulated([program, order])
    assert (observed.stdout, observed.stderr, observed.returncode) == (
        plain.stdout,
        plain.stderr,
        0,
    )


def test_the_child_does_not_speak_for_its_parent(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    program = compiled("forks", str(emulator_dir / "libcuda.so.1"))
    trace = tmp_path / "trace"
    env = {
        "ULMS_LOG_LEVEL": "INFO",
        "ULMS_TRACE": str(trace),
        "ULMS_STATS": str(tmp_path / "stats"),
    }
    done = run_emulated([program, "before"], env)
    assert done.stderr.count("ulms 0") == 1
    assert done.stderr.count("INFO: device 0:") == 1
    assert trace.stat().st_size > 0
