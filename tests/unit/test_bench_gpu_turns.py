"""Where processes that take turns run."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import programs, turns  # noqa: E402
from bench.gpu.paced import Paced  # noqa: E402

pytestmark = pytest.mark.unit

# Two threads; a step's numbers are the sums of 2^processor over those where each may run.
PROGRAM = """
import os, threading
import report

wanted, done = threading.Event(), threading.Event()
allowed = {}

def processors():
    return float(sum(1 << one for one in os.sched_getaffinity(0)))

def other():
    while wanted.wait():
        wanted.clear()
        allowed["other"] = processors()
        done.set()

threading.Thread(target=other, daemon=True).start()
numbers = []

def step():
    wanted.set()
    done.wait()
    done.clear()
    numbers.extend([processors(), allowed["other"]])

report.report(numbers, report.run_steps(step, lambda: None, 0, 0))
"""


def test_they_share_the_last_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the first step, which has all of them: programs start and compile before it."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    env = os.environ | {"PYTHONPATH": str(programs.TESTS / "programs")}
    monkeypatch.setattr(turns, "PROCESSORS", 1)
    all_of_them = sorted(os.sched_getaffinity(0))
    block_ms: turns.BlockMs = {"a": [], "b": []}
    processes = ((mode, Paced(mode, [sys.executable, str(script)], env)) for mode in block_ms)
    with turns.Turns(processes, block_ms) as group:
        steps = group.warm_up()
        group.take(0, steps)
        results = group.end()
    for result in results:
        numbers = [float.fromhex(number) for number in result.numbers]
        first, rest = numbers[:2], numbers[2:]
        assert first == [float(sum(1 << one for one in all_of_them))] * 2
        assert rest == [float(1 << all_of_them[-1])] * 2 * (turns.WARM + steps)
    assert sorted(os.sched_getaffinity(0)) == all_of_them
