"""`bench.gpu.fits` from end to end: programs on the emulated device that fit, grow, and do not."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import fits, machine, programs, turns  # noqa: E402

pytestmark = pytest.mark.emu

PROGRAMS = {"fitting": ["16", "0"], "growing": ["16", "4"], "unfit": ["16", "many"]}


class Bench:
    """The command, with made-up programs and short blocks."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.target = folder / "result.json"

    def run(self, *words: str) -> dict[str, dict[str, Any]]:
        """What was written, by program. Raises SystemExit as the command does."""
        command = ["fits", "--json", str(self.target), "--rounds", "3", *words]
        self.monkeypatch.setattr(sys, "argv", command)
        fits.main()
        return self.rows()

    def rows(self) -> dict[str, dict[str, Any]]:
        result = json.loads(self.target.read_text(encoding="utf-8"))
        assert result["machine"]
        return {row["program"]: row for row in result["programs"]}


@pytest.fixture
def bench(emulator_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    for name, words in PROGRAMS.items():
        command = [sys.executable, str(ROOT / "tests/emu/paced_program.py"), *words]
        monkeypatch.setitem(programs.PROGRAMS, name, command)
    monkeypatch.setattr(turns, "BLOCK_MS", 0.0)
    monkeypatch.setattr(fits, "BOUND", 100.0)  # times of the emulated device do not matter here
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("PYTHONPATH", str(programs.TESTS / "programs"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(emulator_dir))
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "1GiB")
    monkeypatch.setenv("ULMS_PAGE", "2MiB")
    return Bench(tmp_path, monkeypatch)


def test_where_everything_fits_nothing_moves(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    row = bench.run("--programs", "fitting", "--repeats", "2")["fitting"]
    assert "failed" not in row
    assert (row["wrong"], row["numbers_equal"]) == ([], [True, True])
    assert {mode: np.shape(blocks) for mode, blocks in row["block_ms"].items()} == {
        "native": (2, 3),
        "control": (2, 3),
        "um": (2, 3),
        "vmm": (2, 3),
    }
    assert row["counters"].keys() == {"um", "vmm"}
    assert row["ratios"].keys() == {"control", "um", "vmm"}
    for low, ratio, high in ((low, ratio, high) for ratio, low, high in row["ratios"].values()):
        assert 0 < low <= ratio <= high
    still = dict.fromkeys(fits.STILL, 0)
    for processes in row["counters"].values():
        for counters in processes:
            # What is no counter never grows: it must be seen to have been 0 before.
            assert counters["before"] == still | {"placed_bytes": 16 << 20, "allocations": 4}
            assert counters["timed"] == still | {"placed_bytes": 0, "allocations": 0}
    told = capsys.readouterr().out
    assert "round 6/6" in told
    assert "held_ns 0" in told


def test_a_bound_that_is_passed_is_told(bench: Bench) -> None:
    bench.monkeypatch.setattr(fits, "BOUND", 0.0)
    with pytest.raises(SystemExit, match="above its bound: fitting"):
        bench.run("--programs", "fitting", "--repeats", "1")
    assert bench.rows()["fitting"]["wrong"] == []


def test_new_memory_is_placed_and_nothing_else(bench: Bench) -> None:
    row = bench.run("--programs", "growing", "--repeats", "1")["growing"]
    assert row["wrong"] == []
    steps = 1 + turns.WARM + 3 * turns.LEAST_STEPS
    still = dict.fromkeys(fits.STILL, 0)
    for (counters,) in row["counters"].values():
        placed = {"placed_bytes": steps * (4 << 20), "allocations": steps}
        assert counters["timed"] == still | placed


def test_what_was_measured_is_kept_whenever_processes_have_ended(
    bench: Bench, emulator_dir: Path, tmp_path: Path
) -> None:
    kept: list[str] = []
    fits.measure("fitting", tmp_path, 2, 3, ["um"], lambda row: kept.append(json.dumps(row)))
    first, last = map(json.loads, kept)
    assert [len(row["block_ms"]["um"]) for row in (first, last)] == [1, 2]
    assert [len(row["counters"]["um"]) for row in (first, last)] == [1, 2]


def test_what_does_not_fit_is_told(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """When timed steps begin, half of the pages have gone to the host, to be used there."""
    bench.monkeypatch.setenv("ULMS_GPU_MEMORY", "8MiB")
    with pytest.raises(SystemExit, match="not as it should be: fitting"):
        bench.run("--programs", "fitting", "--repeats", "1")
    row = bench.rows()["fitting"]
    assert row["numbers_equal"] == [True]
    told = capsys.readouterr().out
    for mode in fits.BACKENDS:
        (counters,) = row["counters"][mode]
        grown = f"{mode}: paged_bytes grew by {counters['timed']['paged_bytes']}"
        assert counters["timed"]["paged_bytes"] > 0
        assert grown in row["wrong"]
        assert grown in told


def test_what_moves_is_told(bench: Bench) -> None:
    bench.monkeypatch.setenv("ULMS_GPU_MEMORY", "8MiB")
    bench.monkeypatch.setenv("ULMS_POLICY", "pump")
    with pytest.raises(SystemExit, match="not as it should be: fitting"):
        bench.run("--programs", "fitting", "--repeats", "1", "--backends", "um")
    wrong = " ".join(bench.rows()["fitting"]["wrong"])
    for name in ("moves", "filled_bytes", "evicted_bytes"):
        assert f"um: {name} grew by" in wrong


def test_who_replaces_nothing_is_told(bench: Bench) -> None:
    bench.monkeypatch.setenv("ULMS_PLAIN", "libffi,_ctypes,python")
    with pytest.raises(SystemExit, match="not as it should be: fitting"):
        bench.run("--programs", "fitting", "--repeats", "1", "--backends", "um")
    assert bench.rows()["fitting"]["wrong"] == ["um: no memory was replaced"]


def test_what_else_is_wrong() -> None:
    before, still = {"placed_bytes": 1}, dict.fromkeys(fits.COUNTERS, 0)
    facts: dict[str, object] = {"counters_before": before, "counters": still | {"placed_bytes": 5}}
    row: dict[str, Any] = {"program": "a", "wrong": [], "numbers_equal": []}
    row |= {"counters": {"um": []}, "ulms": {"um": []}}
    results = {"native": programs.Result(0, ["0x1"]), "um": programs.Result(0, ["0x2"], [], facts)}
    fits.judge(row, results)
    assert row["wrong"] == ["numbers differ", "um: placed_bytes grew by 5"]
    assert row["numbers_equal"] == [False]


def test_a_program_that_fails_keeps_none_from_its_turn(bench: Bench) -> None:
    with pytest.raises(SystemExit, match=r"not as it should be: unfit$"):
        bench.run("--programs", "unfit,fitting", "--repeats", "1", "--backends", "vmm")
    rows = bench.rows()
    assert rows["unfit"]["failed"] == "unfit native 0: ended with status 1"
    assert "ValueError" in rows["unfit"]["stderr"]
    assert rows["fitting"]["block_ms"].keys() == {"native", "control", "vmm"}


def test_refuses_where_managed_memory_is_not_limited(bench: Bench) -> None:
    bench.monkeypatch.delenv("ULMS_MANAGED_LIMIT")
    with pytest.raises(SystemExit, match="ULMS_MANAGED_LIMIT"):
        bench.run()
    assert not bench.target.exists()


def test_backends_are_known_and_each_runs_once_at_a_time(bench: Bench) -> None:
    with pytest.raises(SystemExit):
        bench.run("--backends", "um,observe")
    asked: list[Any] = []

    def measure(*words: Any) -> dict[str, Any]:
        asked.append(words[4])
        return {"program": words[0], "wrong": [], "ratios": {}, "counters": {}}

    bench.monkeypatch.setattr(fits, "measure", measure)
    bench.run("--backends", "vmm,um,vmm", "--programs", "fitting")
    assert asked == [["vmm", "um"]]


def test_only_managed_memory_is_held_to_the_guard(bench: Bench) -> None:
    limits = {mode: fits.environment(mode)["ULMS_MANAGED_LIMIT"] for mode in fits.BACKENDS}
    assert limits == {"um": "1GiB", "vmm": str(4 * machine.LIMIT)}
    for mode in (turns.NATIVE, turns.CONTROL):
        assert not {"LD_PRELOAD", "ULMS_BACKEND"} & fits.environment(mode).keys()


def test_programs_are_named_and_what_managed_memory_may_not_be_is_left_out(
    bench: Bench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit):
        bench.run("--help")
    told = " ".join(capsys.readouterr().out.split())
    within, beyond = told.partition("under vmm alone")[::2]
    assert "resnet, gpt2-half, decode" not in beyond
    assert all(f" {name}" in within for name in ("resnet", "gpt2-half", "decode", "fitting"))
    assert all(f" {name}" in beyond for name in ("gpt2-medium", "gpt2", "bert"))
    command = programs.command("gpt2-medium", tmp_path, 10, 0)
    assert command[1:] == ["-m", "bench.gpu.workloads", "gpt2-medium", "10", "0"]
    assert fits.fitting("gpt2-medium", ["um", "vmm"]) == ["vmm"]
    assert "gpt2-medium: um is left out" in capsys.readouterr().err
    assert fits.fitting("resnet", ["um", "vmm"]) == ["um", "vmm"]
    assert capsys.readouterr().err == ""
