"""pump-bench share: virtual time beside what a GPU measured, and the picture."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.tenants import __main__ as on_gpu
from pump.bench import cli, share_looks
from pump.bench.share import NO_GPU, shown
from pump.bench.share_looks import Seen, played, recorded
from pump.bench.share_plot import moved
from pump.bench.share_row import BARS, apart, read_rows, row, to_json
from pump.bench.share_tests import MACHINE, TESTS, S, most_possible
from pump.predict.plots import can_plot
from pump.sim.resident import decoder, training
from pump.sizes import GIB

pytestmark = pytest.mark.unit

DRIVER = {"gpu": "a GPU", "driver": "1.2", "commit": "0123456789", "when": "2026-11-28T01:02"}
NOT_PLAYED = {"hand-over", "alone", "suspend"}
"""Times of real code."""


def test_both_name_tests_alike() -> None:
    assert {test.split()[0] for test, _ in BARS} == TESTS.keys() | NOT_PLAYED
    assert on_gpu.TESTS.keys() == TESTS.keys() - {"requests"} | NOT_PLAYED


def test_what_fits_is_all_possible() -> None:
    program = decoder(4 * GIB, 4e12)
    assert most_possible([program] * 3, 12 * GIB, S) == 1.0
    link = 8 * GIB / 2 / MACHINE.rate  # seconds: half of what lacks comes a turn
    assert most_possible([program] * 3, 4 * GIB, int(link * S) // 2) < 0.51
    sweep = training(4 * GIB, 40_000_000)
    v = (8 - 5) * GIB / MACHINE.rate - 0.04
    assert most_possible([sweep] * 2, 5 * GIB, S) == pytest.approx(1 / (1 + v))


@pytest.mark.slow
def test_the_command_plays_writes_and_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A token that was away takes as long as the link needs for what the other one had no room for,
    and nothing came before the turn.
    """
    mine = tmp_path / "mine.json"
    assert cli.main(["share", "first", "--json", str(mine), "--quiet"]) == 0
    _, [one] = read_rows(mine)
    assert one.figure == pytest.approx(one.ways["bound"], rel=0.02)
    assert one.held
    theirs = [row("first token", "15 GiB, away", [0.3, 0.31, 0.5])]
    gpu = tmp_path / "gpu.json"
    gpu.write_text(json.dumps(to_json(DRIVER, theirs)))
    capsys.readouterr()
    assert cli.main(["share", "--show", str(mine), "--show", str(gpu)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("a GPU, driver 1.2, commit 0123456, 2026-11-28.")
    assert told[-1].startswith("| first token, s: 15 GiB, away | 0.352 | 1.75 | 0.317 |")
    assert told[-1].endswith(f"| 0.31 ({apart(one, theirs[0]):.0%}) |")


def test_files_of_one_gpu_share_a_column_and_those_without_a_played_one_show_bars() -> None:
    played = {"gpu": NO_GPU, "commit": "0123456789"}, [row("requests", "lost", [1.0])]
    older = DRIVER, [row("requests", "lost", [3.0]), row("first token", "15 GiB, away", [0.3])]
    newer = DRIVER, [row("requests", "lost", [2.0])]
    assert shown([played, older, newer], ["requests"]).splitlines()[-1].endswith("| 2 (1%) |")
    [*_, last] = shown([older, newer], ["first"]).splitlines()
    assert last == "| 15 GiB, away | 0.3 s | ≤ 0.6 |"


def test_points_are_compared_as_such() -> None:
    lost, first = partial(row, "requests", "lost"), partial(row, "first token", "15 GiB, away")
    assert apart(lost([0.1]), lost([1.1])) == pytest.approx(0.01)
    assert apart(first([0.2]), first([0.4])) == pytest.approx(0.5)


@pytest.mark.slow
def test_limits_hold() -> None:
    assert all(one.held for one in TESTS["limits"][0]())


@pytest.mark.slow
def test_what_is_drawn_keeps_to_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_looks, "SPAN_NS", 3 * S)
    looks = played()
    assert max(sum(one.resident for one in look.tenants) for look in looks.every) == looks.budget
    turns = [sum(one.may_issue for one in look.tenants) for look in looks.every[1:]]
    assert turns[0] == 3
    assert turns[-1] <= 1


def line(tenant: int, at: float, **more: Any) -> str:
    """Of `pump top --json`."""
    status = {"gpu": "0a", "tenant": tenant, "pid": 7, "program": "", "group": f"g{tenant}"}
    status |= {"may_issue": 1, "in_flight": 0, "budget": 8 * GIB, "resident": GIB}
    return json.dumps({"time": at, "tenant": status | {"refilled": 0, "evicted": 0} | more})


def test_looks_of_a_gpu_are_drawn_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "looks.json"
    lines = [
        line(2, 5.0),
        line(1, 5.0, program="python"),
        line(1, 5.1, program="python", refilled=7),
        line(3, 5.1),
    ]
    file.write_text("\n".join([*lines, line(9, 5.1, gpu="0b"), '{"time": 1, "counted": {}}']))
    looks = recorded(file)
    assert looks.names == ["python (7)", "g2 (7)", "g3 (7)"]
    assert looks.budget == 16 * GIB
    assert [one.bytes_in for one in looks.every[1].tenants] == [7, 0, 0]
    assert looks.every[1].tenants[1] == Seen()
    first, last = looks.every
    assert moved(first, last, "bytes_in") == 7
    assert moved(last, first, "bytes_in") == 0, "a sum that went with its tenant"
    if can_plot():
        words = ["share", "--looks", str(file), "--plots", str(tmp_path / "new"), "--svg"]
        assert cli.main(words) == 0
        assert "sharing.svg" in capsys.readouterr().out
        assert "python" in (tmp_path / "new" / "sharing.svg").read_text()
