"""How overhead is measured: programs in turn, without a GPU and with a clock of their own."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import foundation, machine, programs, turns  # noqa: E402

pytestmark = pytest.mark.unit

# A step takes 10 ms of the program's own clock, 2 % more when observed; the machine becomes slower
# by 1 % of that with every block that any process has run.
PROGRAM = """
import os, subprocess, sys, time
from pathlib import Path
import report

log = Path(sys.argv[1])
ill, where = sys.argv[2].split("@")
observe = os.environ.get("ULMS_BACKEND") == "observe"
cost = {"driver": 1.01}.get(os.environ.get("ULMS_HOOKS"), 1.02) if observe else 1.0
now = 0.0
taken = 0
last = None

def step():
    global now, taken, last
    before = log.read_text().splitlines() if log.exists() else []
    if not before or before[-1].split()[1] != str(os.getpid()):
        with log.open("a") as out:
            print("observe" if observe else "native", os.getpid(), file=out)
    taken += 1
    if taken == int(where) and observe:
        print("all is lost", file=sys.stderr, flush=True)
        child = subprocess.Popen(["sleep", "100"])
        with log.open("a") as out:
            print("child", child.pid, file=out)
        if ill == "dies":
            child.kill()
            os._exit(3)
        time.sleep(100)
    now += 0.01 * cost * (1 + 0.01 * len(before))

report.time.perf_counter = lambda: now
warm, timed = int(sys.argv[3]), int(sys.argv[4])
print("some words of its own")
times = report.run_steps(step, lambda: None, 0, timed)
report.report([1.0, float(len(times))], times)
"""


class Bench:
    """Programs that are well, or fall ill at a step; what they wrote into their log."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "log"
        script = folder / "program.py"
        script.write_text(PROGRAM, encoding="utf-8")
        for name, ill in {"well": "never@0", "dying": "dies@40", "hanging": "hangs@40"}.items():
            command = [sys.executable, str(script), str(self.log), ill]
            monkeypatch.setitem(programs.PROGRAMS, name, command)
            monkeypatch.setitem(foundation.BOUNDS, name, 1.03)
            monkeypatch.setitem(foundation.MEMORY_GIB, name, 1)
        monkeypatch.setenv("PYTHONPATH", str(programs.TESTS / "programs"))
        monkeypatch.setattr(programs, "library", lambda: "")

    def overhead(self, name: str, repeats: int = 2, rounds: int = 6) -> dict[str, Any]:
        self.log.unlink(missing_ok=True)
        return foundation.overhead(name, self.folder, repeats, rounds)

    def said(self) -> list[tuple[str, int]]:
        lines = (line.split() for line in self.log.read_text(encoding="utf-8").splitlines())
        return [(mode, int(process)) for mode, process in lines]

    def alive(self) -> set[int]:
        """Processes of the log that still run, after some seconds: who is killed ends when he is
        scheduled. One that nobody waited for is not counted."""
        for _ in range(100):
            if not self.running():
                break
            time.sleep(0.1)
        return self.running()

    def running(self) -> set[int]:
        found = set()
        for _, process in self.said():
            stat = Path(f"/proc/{process}/stat")
            if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
                found.add(process)
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_processes_take_turns(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    row = bench.overhead("well")
    assert "failed" not in row
    assert row["numbers_equal"]
    assert 3 <= row["steps"] < 12
    assert {mode: np.shape(blocks) for mode, blocks in row["block_ms"].items()} == {
        "native": (2, 6),
        "observe": (2, 6),
    }
    # Where one process ends a round and begins the next, the log has it once.
    first, *rest = bench.said()
    assert first[0] == "native"
    assert {process for _, process in rest[:3]} | {first[1]} == {p for _, p in bench.said()}
    forward = [process for _, process in [first, *rest[:3]]]
    modes = {process: mode for mode, process in bench.said()}
    assert [modes[process] for process in forward] == ["native", "observe"] * 2
    turns = [forward] * 2 + [forward[:: -1 if at % 2 else 1] for at in range(6)]
    order = [process for turn in turns for process in turn]
    once = [p for at, p in enumerate(order) if at == 0 or order[at - 1] != p]
    assert [process for _, process in bench.said()] == once
    # The machine slowed down by a quarter meanwhile.
    native = np.array(row["block_ms"]["native"])
    assert native[0, -1] > 1.15 * native[0, 0]
    assert row["ratio"] == pytest.approx(1.02, abs=1e-3)
    assert row["interval"][0] <= row["ratio"] <= row["interval"][1]
    assert bench.alive() == set()
    told = capsys.readouterr().out
    assert "round 5/6" in told
    assert "round 6/6" in told


def test_a_program_runs_what_it_is_asked_to(bench: Bench) -> None:
    with foundation.started("well", bench.folder, "observe", 0) as process:
        blocks = [process.block(steps, 60) for steps in (3, 1, 5)]
        result = process.end(60)
    assert [len(block) for block in blocks] == [3, 1, 5]
    assert result.step_ms == [ms for block in blocks for ms in block]
    assert result.step_ms[0] == pytest.approx(10.2)
    assert result.numbers == [(1.0).hex(), (9.0).hex()]
    assert bench.alive() == set()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("dying", "ended with status 3"), ("hanging", "no answer within 10 s")],
)
def test_what_fails_is_told_and_leaves_nobody(
    bench: Bench, name: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "hanging":
        monkeypatch.setattr(turns, "ANSWER_S", 10.0)  # others need far less on a busy machine, too
    row = bench.overhead(name)
    assert row["failed"] == f"{name} observe 0: {reason}"
    assert row["stderr"] == "all is lost\n"
    assert len(row["block_ms"]["native"][0]) > len(row["block_ms"]["observe"][0]) > 0
    assert len({process for _, process in bench.said()}) == 5
    assert bench.alive() == set()


def test_every_program_is_written_at_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bench.folder / "a.json"
    written: list[list[str]] = []
    measure = foundation.overhead

    def overhead(*asked: Any) -> dict[str, Any]:
        rows = json.loads(path.read_text())["overhead"] if path.exists() else []
        written.append([row["program"] for row in rows])
        return measure(*asked)

    monkeypatch.setattr(foundation, "overhead", overhead)
    monkeypatch.setattr(machine, "refuse_unless_safe", lambda: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    words = ["--skip-check", "--json", str(path), "--programs", "dying,well"]
    monkeypatch.setattr(sys, "argv", ["foundation", *words, "--repeats", "1", "--rounds", "10"])
    with pytest.raises(SystemExit, match="not measured: dying"):
        foundation.main()
    assert written == [[], ["well"]]
    kept = json.loads(path.read_text())
    assert [("failed" in row, row["program"]) for row in kept["overhead"]] == [
        (False, "well"),
        (True, "dying"),
    ]
    assert kept["machine"]
    assert "dying observe 0: ended with status 3" in capsys.readouterr().out


def test_fewer_processes_where_memory_is_short(bench: Bench) -> None:
    foundation.MEMORY_GIB["well"] = 26
    row = bench.overhead("well", repeats=4, rounds=1)
    assert np.shape(row["block_ms"]["native"]) == (1, 1)
    assert len({process for _, process in bench.said()}) == 2


def test_hooks_are_told_apart(bench: Bench) -> None:
    modes = ("native", "observe", "observe-driver")
    row = foundation.overhead("well", bench.folder, 2, 6, modes)
    assert {mode: np.shape(blocks) for mode, blocks in row["block_ms"].items()} == dict.fromkeys(
        modes, (2, 6)
    )
    found = {mode: ratio for mode, (ratio, *_) in row["ratios"].items()}
    assert found == pytest.approx({"observe": 1.02, "observe-driver": 1.01}, abs=1e-3)
    assert row["ratio"] == found["observe"]


@given(st.integers(1, 5), st.integers(1, 9), st.floats(0.5, 2), st.integers(0, 2**32 - 1))
def test_what_both_modes_share_does_not_count(
    pairs: int, rounds: int, ratio: float, seed: int
) -> None:
    native = np.random.default_rng(seed).uniform(1, 100, (pairs, rounds))
    assert turns.overhead_of(native, ratio * native) == pytest.approx((ratio,) * 3)


def test_neither_bursts_nor_a_slow_process_move_the_ratio() -> None:
    draw = np.random.default_rng(1)
    drift = 1 + 0.3 * draw.random((1, 40))
    native, observe = (drift * draw.normal(4, 0.02, (4, 40)) for _ in range(2))
    observe *= 1.01
    for blocks in (native, observe):
        blocks[draw.random(blocks.shape) < 0.1] *= 1.5
    observe[2] *= 1.05
    ratio, low, high = turns.overhead_of(native, observe)
    assert ratio == pytest.approx(1.01, abs=0.003)
    assert low <= 1.01 <= high


def test_every_bound_has_its_memory() -> None:
    assert foundation.BOUNDS.keys() == foundation.MEMORY_GIB.keys() <= programs.PROGRAMS.keys()
    for name, memory in foundation.MEMORY_GIB.items():
        assert 0 < 2 * memory <= foundation.ROOM_GIB, name


@pytest.mark.parametrize(
    ("numbers", "equal"),
    [
        ([["0x1.8p+1", "0x0.0p+0"]] * 2, True),
        ([["0x1.8p+1"], ["0x1.8000000000001p+1"]], False),
        ([[], []], False),
        ([["0x1.8p+1", "nan"]] * 2, False),
        ([["-inf"]] * 3, False),
    ],
)
def test_equal_numbers_are_finite(numbers: list[list[str]], equal: bool) -> None:
    results = [programs.Result(status=0, numbers=these) for these in numbers]
    assert programs.numbers_equal(results) is equal


def test_what_a_checked_program_should_not_show() -> None:
    row = {"program": "resnet", "status": [0, 0], "numbers_equal": True, "seen": 7, "profiled": 7}
    assert foundation.wrong_in(row) is None
    assert foundation.wrong_in(row | {"seen": 6}) == "kernels of resnet"
    assert foundation.wrong_in(row | {"numbers_equal": False}) == "numbers of resnet"
    assert foundation.wrong_in(row | {"status": [0, 1]}) == "resnet failed"
