"""CUDA before and after a fork: the program sees what it would have seen without ulms.so."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

IN_USE = ("parent before", "parent after")
WITHOUT = ("at first", "child at first", "child")


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


def threads(output: str) -> dict[str, int]:
    """How many there were, by the moment."""
    lines = (line.split(": ") for line in output.splitlines() if line.endswith(" threads"))
    return {when: int(count.split()[0]) for when, count in lines}


@pytest.mark.parametrize("backend", ["observe", "um", "vmm"])
def test_threads_of_ours_live_where_cuda_is_in_use(
    backend: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    """None before it is initialised, and none in the child of a fork."""
    command = [compiled("forks", str(emulator_dir / "libcuda.so.1")), "before"]
    plain = threads(run_emulated(command, preloaded=False).stdout)
    trace = str(tmp_path / "trace")
    under = threads(run_emulated(command, {"ULMS_BACKEND": backend, "ULMS_TRACE": trace}).stdout)
    assert under.keys() == plain.keys() == {*IN_USE, *WITHOUT}
    assert {when: under[when] for when in WITHOUT} == {when: plain[when] for when in WITHOUT}
    assert all(under[when] > plain[when] for when in IN_USE)


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
