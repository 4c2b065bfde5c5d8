"""Builds of ulms.so beside each other, with processes that answer at once."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import budget, run  # noqa: E402
from bench.gpu.counters import EXPLAIN  # noqa: E402
from bench.gpu.report import Report  # noqa: E402
from lab import builds  # noqa: E402

pytestmark = pytest.mark.unit

NEEDS = ROOT / "bench" / "results" / "h200-vmm-systems.json"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, str]]:
    """What was run: workload, build, budget. Build `b` takes twice as long."""
    found: list[tuple[str, str, str]] = []

    def process(_: object, name: str, system: str, env: dict[str, str], end: float) -> Report:
        build = Path(env["LD_PRELOAD"]).parent.name
        assert system == env["ULMS_BACKEND"]
        assert env["ULMS_PAGE"] == ("16MiB" if build == "b" else "4MiB")
        found.append((name, build, env["ULMS_GPU_MEMORY"]))
        if len(found) == 7:
            raise run.OverError
        counters = dict.fromkeys(env["REPORT_COUNTERS"].split(","), 4_000_000)
        step_ms = [10.0, 12.0] if build == "a" else [20.0, 24.0]
        return Report(["0x1"], step_ms, 0, 0, counters)

    for build in "ab":
        (tmp_path / build).mkdir()
        (tmp_path / build / "ulms.so").write_text(build, encoding="utf-8")
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    monkeypatch.setattr("bench.gpu.budget.library", lambda: Path("ulms.so"))
    monkeypatch.setattr(run.Programs, "machine", lambda *_: {"gpu": "none"})
    monkeypatch.setattr(run.Programs, "run", process)
    pages = {"a": "4MiB", "b": "16MiB"}
    words = [f"{x}={tmp_path / x / 'ulms.so'},ULMS_PAGE={page}" for x, page in pages.items()]
    words += ["--needs", str(NEEDS), "--workloads", "resnet50", "--ratios", "1.5,2"]
    monkeypatch.setattr(sys, "argv", ["builds", *words, "--json", str(tmp_path / "out.json")])
    return found


def test_builds_take_turns(
    asked: list[tuple[str, str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builds.main()
    assert [build for _, build, _ in asked] == ["a", "b", "a", "b", "b", "a", "b"]
    needs = builds.needs_of(NEEDS)["resnet50"]
    capacities = [budget.capacity_at(needs, ratio) for ratio in (1.5, 2.0)]
    budgets = [budget.memory_at(capacity)["ULMS_GPU_MEMORY"] for capacity in capacities]
    assert [budget for *_, budget in asked] == [budgets[at] for at in (0, 0, 1, 1, 0, 0, 1)]
    told = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert set(told["builds"]) == {"a", "b"}
    assert told["options"]["b"] == {"ULMS_PAGE": "16MiB"}
    assert [row["system"] for row in told["rows"]] == ["vmm"] * 6
    assert told["rows"][0]["counters"] == dict.fromkeys(EXPLAIN, 2_000_000)
    shown = capsys.readouterr().out
    assert "stopped after 540 s" in shown
    assert "| resnet50 | 1.5 | a | 11.0 | 1.000 | 2.0 |" in shown
    assert "| resnet50 | 1.5 | b | 22.0 | 2.000 | 2.0 |" in shown


def test_other_numbers_are_a_failure(
    asked: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run.Programs.run

    def other(
        self: run.Programs, name: str, system: str, env: dict[str, str], end: float
    ) -> Report:
        told = before(self, name, system, env, end)
        return Report([str(len(asked))], told.step_ms, 0, 0, told.counters)

    monkeypatch.setattr(run.Programs, "run", other)
    with pytest.raises(SystemExit, match="numbers differ"):
        builds.main()


def test_managed_memory_is_for_what_is_within_its_limit(
    asked: list[tuple[str, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--system", "um"])
    builds.main()
    assert len(asked) == 7
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--workloads", "resnet50,gpt2-medium"])
    with pytest.raises(SystemExit):
        builds.main()
    assert "gpt2-medium: it needs 10454 MiB, too near" in capsys.readouterr().err
    assert len(asked) == 7


def test_what_is_not_known_is_told(
    asked: list[tuple[str, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--workloads", "resnet50,mine"])
    with pytest.raises(SystemExit):
        builds.main()
    assert "does not have mine" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["builds", "a=missing.so", "--needs", str(NEEDS)])
    with pytest.raises(SystemExit):
        builds.main()
    assert "invalid named value: 'a=missing.so'" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["builds", f"a={NEEDS},ULMS_PAGE", "--needs", str(NEEDS)])
    with pytest.raises(SystemExit):
        builds.main()
    assert "ULMS_PAGE'" in capsys.readouterr().err
    assert asked == []


def test_what_was_written_is_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def row(build: str, ms: float) -> builds.Row:
        counters = dict.fromkeys(builds.SHOWN, 2_000_000)
        kept = {"workload": "w", "oversubscription": 2.0, "build": build, "step_ms": [ms]}
        return kept | {"counters": counters}

    rows = [row("a", 10.0), row("b", 30.0), row("b", 20.0), row("b", 5.0)]
    path = tmp_path / "seen.json"
    path.write_text(json.dumps({"builds": {"a": "", "b": ""}, "rows": rows}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["builds", "--show", str(path)])
    builds.main()
    assert "| w | 2 | b | 20.0 | 2.000 | 2.0 |" in capsys.readouterr().out


def test_without_builds_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["builds", "--needs", str(NEEDS)])
    with pytest.raises(SystemExit):
        builds.main()
