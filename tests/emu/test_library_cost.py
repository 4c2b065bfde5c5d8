"""How many instructions the hook of a library's call adds: a bound that no load can move."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import library_cost  # noqa: E402

pytestmark = pytest.mark.emu
TIMES = 512
MOST = 5000
"""300 ns, at the 17 instructions a nanosecond that test_library_bench.py saw."""


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
def test_instructions_of_calls(tmp_path: Path, ulms_so: Path, emulator_dir: Path) -> None:
    program = library_cost.build(tmp_path, emulator_dir)
    costs = library_cost.instructions(program, ulms_so, TIMES)
    assert min(cost.over for cost in costs.values()) > 100  # the hooked ones are hooked
    assert {name: cost.over for name, cost in costs.items() if cost.over > MOST} == {}
