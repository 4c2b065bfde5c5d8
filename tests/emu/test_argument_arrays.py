"""Arrays of pointers inside a parameter: what a launch touches of them is exactly what it uses."""

from pathlib import Path

import pytest

from pump.trace import read
from tests.conftest import Compile, RunEmulated
from tests.emu.test_touches import Run, parse

pytestmark = pytest.mark.emu


def test_only_the_places_in_use_are_touched(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, tmp_path: Path
) -> None:
    program = compiled("argument_arrays", str(emulator_dir / "libcuda.so.1"))
    done = run_emulated([program], {"ULMS_TRACE": str(tmp_path / "trace")})
    assert (done.returncode, done.stderr) == (0, "")
    steps, blocks = parse(done.stdout)
    used = {}
    for step, touches in Run(steps, blocks, read(tmp_path / "trace"), done.stdout).pairs():
        true = {(start, size) for _, start, size in step.true}
        assert {(start, size) for _, start, size in touches} == true, step.name
        used[step.name] = len(true)
    assert used == {
        "launch": 6,
        "launch-extra": 4,
        "launch-ex": 6,
        "launch-cooperative": 2,
        "graph-captured": 6,
        "graph-by-hand": 6,
        "graph-node-set": 4,
        "concatenation": 5,
    }
