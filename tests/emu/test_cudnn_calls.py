"""Every legacy function of cuDNN that the tables describe, called at random on the look-alike.

What is recorded of each call is compared with sizes and directions computed without the tables.
"""

import json
import sys
from pathlib import Path

import pytest

from pump.trace import OpKind, read
from tests.conftest import ROOT, RunEmulated

sys.path.insert(0, str(ROOT))

from hooks.gen import shipped
from hooks.generator.row import Told

pytestmark = pytest.mark.emu

CALLER = Path(__file__).with_name("cudnn_caller.py")
LIBRARY = 1  # enum touch_source
# They take descriptors of a graph or a pack: tests of their own.
GRAPHS = {
    "cudnnBackendExecute",
    "cudnnBackendPopulateCudaGraph",
    "cudnnBackendUpdateCudaGraph",
    "cudnnFusedOpsExecute",
}
BLOCKS = {
    "cudnnCTCLoss_v8",
    "cudnnSpatialTfGridGeneratorForward",
    "cudnnSpatialTfGridGeneratorBackward",
}
SYMBOLS = sorted(
    row.symbol
    for row in shipped().rows
    if row.library == "cudnn" and isinstance(row.treatment, Told) and row.symbol not in GRAPHS
)


def test_there_are_all_of_them() -> None:
    """The tables describe as many functions as the vendor has that compute."""
    assert len(SYMBOLS) == 79


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("how", ["shown", "hidden"])
def test_extents_and_directions(
    run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path, version: int, how: str
) -> None:
    """One launch a call; whether its kernel shows its pointers or hides them, all is recorded."""
    command = [sys.executable, CALLER, f"libcudnn.so.{version}", version, 8, *SYMBOLS]
    environment = {
        "ULMS_TRACE": str(tmp_path / "trace"),
        "EMU_LIBRARY": how,
        "LD_LIBRARY_PATH": f"{emulator_dir}:{emulator_dir}/library/{version}",
    }
    done = run_emulated(command, environment, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(calls) == 8 * len(SYMBOLS)
    trace = read(tmp_path / "trace")
    launches = [op for op in trace.operations if op["kind"] == OpKind.LAUNCH]
    assert len(launches) == len(calls)
    for (symbol, expected), op in zip(calls, launches, strict=True):
        touches = trace.touches_of(op)
        found = sorted([int(t["start"]), int(t["bytes"]), int(t["mode"])] for t in touches)
        assert found == expected, symbol
        if symbol not in BLOCKS:
            assert {int(t["source"]) for t in touches} <= {LIBRARY}, symbol
