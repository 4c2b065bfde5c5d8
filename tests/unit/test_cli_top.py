"""`pump top`: what a look at counters is rendered to."""

import io
import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from pump import stats
from pump.cli import main
from pump.cli.top import NOBODY, Look, Top, View, page
from pump.stats import Counter, DeviceMemory, Held, Snapshot
from pump.terminal.render import console

pytestmark = pytest.mark.unit

STATS = Path(__file__).parents[2] / "csrc" / "observe" / "stats.h"
EARLIER = Snapshot(
    path=Path("/dev/shm/ulms-7-1"),
    pid=7,
    program="train",
    opened=0.0,
    alive=True,
    nearby=True,
    taken_ns=1_000_000_000,
    heartbeat_ns=500_000_000,
    counters={
        "kernels": Counter("kernels", "", "kernels run", 1000),
        "copied_bytes": Counter("copied_bytes", "B", "bytes copied", 1 << 20),
    },
    memory=[DeviceMemory(0, 3 << 20, 4 << 20, 0), DeviceMemory(1, 0, 1 << 20, 8 << 30)],
    held=[],
)
LATER = replace(
    EARLIER,
    taken_ns=3_000_000_000,
    counters={
        "kernels": Counter("kernels", "", "kernels run", 5000),
        "copied_bytes": Counter("copied_bytes", "B", "bytes copied", 5 << 20),
    },
)


def text(views: list[View]) -> list[list[str]]:
    """The page, split into words."""
    out = io.StringIO()
    console(out).print(page(Look(views)))
    return [line.split() for line in out.getvalue().splitlines() if line.strip()]


def test_a_terminal_that_draws_nothing_over_is_told_each_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(Top, "later", lambda *_: iter([Look([View(LATER)])]))
    out = console(io.StringIO())
    out._force_terminal = True
    assert Top().watch(Look([View(EARLIER)]), out, Namespace()).views == [View(LATER)]
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue().count("train (7), since ") == 2


def test_a_first_look_shows_values() -> None:
    lines = text([View(EARLIER)])
    assert lines[0][:2] == ["train", "(7),"]
    assert lines[0][-3:] == ["idle", "0.5", "s"]
    assert ["0", "3.0", "MiB", "4.0", "MiB", "none"] in lines
    assert ["1", "0", "B", "1.0", "MiB", "8.0", "GiB"] in lines
    assert ["kernels", "1,000", "kernels", "run"] in lines


def test_a_second_look_shows_how_fast_they_grow() -> None:
    lines = text([View(LATER, stats.change(EARLIER, LATER))])
    assert ["kernels", "5,000", "2,000", "kernels", "run"] in lines
    assert ["copied_bytes", "5.0", "MiB", "2.0", "MiB", "bytes", "copied"] in lines


def test_pages_come_first_and_times_have_units() -> None:
    counters = {
        name: Counter(name, unit, "some help", value)
        for name, unit, value in (
            ("kernels", "", 5),
            ("in_place_bytes", "B", 1 << 20),
            ("held_ns", "", 2_500_000_000),
            ("filled_bytes", "B", 3 << 30),
        )
    }
    view = View(replace(EARLIER, counters=counters))
    names = [words[0] for words in text([view]) if words[0] in counters]
    assert names == ["filled_bytes", "held_ns", "in_place_bytes", "kernels"]
    assert ["held_ns", "2.50", "s", "some", "help"] in text([view])
    out = io.StringIO()
    narrow = console(out)
    narrow.width = 40
    narrow.print(page(Look([view])))
    assert out.getvalue().count("some help") == 1  # of "kernels", which is short
    assert "no room for: what\n" in out.getvalue()


@pytest.mark.parametrize("brief", [False, True])
def test_what_counts_a_part_stands_behind_its_whole(brief: bool) -> None:
    """As in the table of the counters, which says in their help what they are a part of."""
    table = STATS.read_text(encoding="utf-8")
    rows = re.findall(r'^ {4}X\((\w+), "(B?)", "(.*)"\)', table, flags=re.MULTILINE)
    counters = {name: Counter(name, unit, what, 1) for name, unit, what in rows}
    out = io.StringIO()
    console(out).print(page(Look([View(replace(EARLIER, counters=counters))]), brief=brief))
    words = [line.split() for line in out.getvalue().splitlines() if line.strip()]
    shown = [line[0] for line in words if line[0] in counters]
    assert sorted(shown) == sorted(counters)
    parts = [name for name in counters if counters[name].help.startswith("of these, ")]
    assert {"early_bytes", "useless_bytes", "in_place_written_bytes"} < set(parts)
    wholes = before(list(counters), parts)
    assert before(shown, parts) == wholes
    assert wholes["useless_bytes"] == "filled_bytes"


def before(names: list[str], parts: list[str]) -> dict[str, str]:
    """Of each part, the last name before it that is none."""
    found, whole = {}, ""
    for name in names:
        if name in parts:
            found[name] = whole
        else:
            whole = name
    return found


def test_those_held_longest_are_shown() -> None:
    held = [Held(f"_Z7kernel{i}v", 10**9 * (9 - i), 1000 + i, 3 << 29) for i in range(9)]
    lines = text([View(replace(EARLIER, held=held))])
    shown = [words for words in lines if words[-1].startswith("kernel") and words[1] == "s"]
    assert shown[0] == ["9.000", "s", "1,000", "1.5", "GiB", "kernel0"]
    assert [words[-1] for words in shown] == [f"kernel{i}" for i in range(5)]
    assert not any("call" in words for words in text([View(EARLIER)]))


def test_without_programs_it_says_how_to_start_one() -> None:
    assert text([]) == [NOBODY.split()]


def test_a_process_without_counters_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "1", "--once"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pump: process 1 shows no counters")
