"""What becomes a node of a graph is mapped while it does, as the driver looks."""

from pathlib import Path

import pytest

from tests.conftest import Compile, RunEmulated

pytestmark = pytest.mark.emu

ROUNDS = "60"
MOVING = {"ULMS_BACKEND": "vmm", "ULMS_GPU_MEMORY": "20MiB", "ULMS_GPU_MEMORY_FACTOR": "100"}
"""Half of the program's ten blocks."""
SLOW = {"EMU_FAIL": "cuMemMap:sticky:delay=3"}
"""A page that moves is unmapped for so many milliseconds."""


@pytest.mark.parametrize("hidden", ["any", "followed"])
def test_copies_and_memsets_become_nodes_while_their_pages_move(
    compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path, hidden: str
) -> None:
    program = compiled("still", str(emulator_dir / "libcuda.so.1"))
    native = run_emulated([program, ROUNDS], preloaded=False)
    under = run_emulated([program, ROUNDS], {**MOVING, **SLOW, "ULMS_HIDDEN": hidden})
    assert (native.returncode, under.returncode) == (0, 0), under.stderr
    assert under.stdout == native.stdout
