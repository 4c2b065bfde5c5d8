"""What ulms.so extracts of real training steps, against what the framework says they touch."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.touches import audit

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", audit.PROGRAMS)
def test_nothing_missed_and_little_too_much(name: str, tmp_path: Path) -> None:
    run = audit.record(name, "all", tmp_path)
    assert run["status"] == 0, run["stderr"]
    found = audit.compared(name, "all", tmp_path)
    assert found["trace_complete"], found["trace_notes"]
    assert (found["history_agrees"], found["unplaced"]) == (True, 0)  # else the truth is none
    assert found["truth"]
    for wrong in ("missed", "read_only", "overwritten"):
        assert found[wrong] == 0, found["worst"]
    assert found["surplus"] <= 0.02 * found["truth"], found["worst"]
