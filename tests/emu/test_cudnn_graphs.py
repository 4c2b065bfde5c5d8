"""Operation graphs of cuDNN, run on the look-alike under ulms.so."""

import json
import sys
from pathlib import Path

import pytest

from pump.trace import OpKind, read
from tests.conftest import RunEmulated

pytestmark = pytest.mark.emu

PROGRAM = Path(__file__).with_name("cudnn_graphs.py")


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("how", ["shown", "hidden"])
def test_what_graphs_touch(
    run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path, version: int, how: str
) -> None:
    """Each execution is one launch, whose kernel shows no pointer: all comes from the graph.

    What is made part of a CUDA graph is several kernels: the others touch again what the first one
    does, as it stands for the call.
    """
    environment = {
        "ULMS_TRACE": str(tmp_path / "trace"),
        "EMU_LIBRARY": how,
        "LD_LIBRARY_PATH": f"{emulator_dir}:{emulator_dir}/library/{version}",
    }
    done = run_emulated([sys.executable, PROGRAM, f"libcudnn.so.{version}"], environment)
    assert (done.returncode, done.stderr) == (0, "")
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    trace = read(tmp_path / "trace")
    launches = [op for op in trace.operations if op["kind"] in {OpKind.LAUNCH, OpKind.GRAPH}]
    assert len(expected) == 18
    for (name, touches), op in zip(expected, launches, strict=True):
        found = [(int(t["start"]), int(t["bytes"]), int(t["mode"])) for t in trace.touches_of(op)]
        if op["kind"] == OpKind.GRAPH:
            assert {*found} == {*map(tuple, touches)}, name
        else:
            assert sorted(found) == sorted(map(tuple, touches)), name


def test_the_program_sees_no_difference(run_emulated: RunEmulated, emulator_dir: Path) -> None:
    """The same program without ulms.so."""
    environment = {
        "EMU_LIBRARY": "shown",
        "LD_LIBRARY_PATH": f"{emulator_dir}:{emulator_dir}/library/9",
    }
    command = [sys.executable, PROGRAM, "libcudnn.so.9"]
    done = run_emulated(command, environment, preloaded=False)
    assert (done.returncode, done.stderr) == (0, "")
