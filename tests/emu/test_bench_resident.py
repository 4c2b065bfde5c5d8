"""`bench.gpu.resident` and what it asks NVML, on the emulated device."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, clean_environment

pytestmark = pytest.mark.emu

ARRAYS, MIB, LIMIT = 8, 4, 24
BUDGET = LIMIT * 9 // 10


@pytest.fixture
def told(ulms_so: Path, emulator_dir: Path, tmp_path: Path) -> dict[str, Any]:
    """What the command wrote, by case."""
    path = tmp_path / "resident.json"
    words = ["--arrays", ARRAYS, "--mib", MIB, "--limit", LIMIT, "--steps", 4, "--probe", 8]
    command = [sys.executable, "-P", "-m", "bench.gpu.resident", ulms_so, "--emulated"]
    command += [*words, "--only", "native,um,driver", "--json", path]
    env = {"LD_LIBRARY_PATH": str(emulator_dir), "ULMS_MANAGED_LIMIT": "1GiB"}
    done = subprocess.run(
        [str(word) for word in command],
        env={**clean_environment(), "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return {each["name"]: each for each in json.loads(path.read_text())}


def test_what_it_tells(told: dict[str, Any]) -> None:
    """Without `ulms.so` all is there, with it the budget at most, and what is freed is gone."""
    assert {case["status"] for case in told.values()} == {0}
    assert told["native"]["peak"] == ARRAYS * MIB
    assert MIB <= told["um"]["peak"] <= BUDGET
    assert told["um"]["stayed"] == 0
    moved = [step["in MiB"] for step in told["um"]["steps"] if step["step"] in (2, 3)]
    assert all(mib >= ARRAYS * MIB - BUDGET for mib in moved)
    assert max(call["used"] for call in told["driver"]["calls"]) == 8 << 20
