"""`pump top` as a screen: fed with looks that are made up, and told by keys."""

import asyncio
import html
import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pump import stats
from pump.cli import tenants
from pump.cli.screen import columns
from pump.cli.screen.history import LOOKS, History
from pump.cli.screen.rows import Rates, Row, rows
from pump.cli.top import Look, View
from pump.share.broker import ShareError
from pump.sizes import GIB
from pump.stats import Counter, DeviceMemory, StatsError
from tests.conftest import PATIENCE_S
from tests.unit.test_cli_top import EARLIER

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from pump.cli.screen.app import TopScreen

pytestmark = pytest.mark.unit

WIDTHS = (60, 80, 120, 200)
GPU = "0011223344556677889900aabbccddee"
STEERING = "\x1b]0;title\x07[red]"


def tenant(number: int, pid: int, **more: object) -> dict[str, Any]:
    """What the broker says of one."""
    names = "priority request limit hard memory_limit idle_s pin"
    names += " parked filed refilled evicted stalled_ns waited_ns turns"
    made: dict[str, Any] = dict.fromkeys([*names.split(), "switches"], 0) | {
        "tenant": number,
        "pid": pid,
        "group": f"g{number}",
    }
    made |= {"budget": 8 * GIB, "need": 8 * GIB, "resident": 2 * GIB, "used": 8 * GIB, "had": 500}
    return (
        made
        | {"suspended": False, "released": 0, "may_issue": 1, "wants": 1, "in_flight": 1}
        | more
    )


def look(second: int, *found: dict[str, Any], views: tuple[View, ...] = ()) -> Look:
    """At a time."""
    gpu = {"uuid": GPU, "capacity": 16 * GIB, "taking_turns": 1, "turns": 7, "tenants": [*found]}
    return Look([*views], {"gpus": [gpu] if found else []}, second * 10**9)


def counted(pid: int, *, moved: int = 0, paged: int = 0, memory: tuple[int, int] = (4, 0)) -> View:
    """A program with counters, a second after the look before if anything moved."""
    found = {"filled_bytes": moved, "evicted_bytes": 2 * moved, "paged_bytes": paged}
    found["held_ns"] = moved // 8

    def at(ns: int, times: int) -> stats.Snapshot:
        counters = {name: Counter(name, "", "", times * n) for name, n in found.items()}
        used, limit = (n * GIB for n in memory)
        device = DeviceMemory(0, used, used, limit)
        path = Path(f"ulms-{pid}")
        new: dict[str, Any] = {"taken_ns": ns, "heartbeat_ns": ns, "pid": pid}
        new |= {"memory": [device], "path": path}
        return replace(EARLIER, counters=counters, **new)

    now = at(2 * 10**9, 2)
    return View(now, stats.change(at(10**9, 1), now) if moved else None)


def test_a_tenant_has_the_rates_that_the_broker_tells() -> None:
    before = look(1, tenant(1, 7, refilled=GIB))
    more = {"refilled": 5 * GIB, "evicted": GIB, "stalled_ns": 10**9, "waited_ns": 2 * 10**8}
    now = look(3, tenant(1, 7, **more), tenant(2, 8))
    first, second = rows(now, before)
    assert first.rates == Rates(2 * GIB, GIB / 2, 0.5, 0.1)
    assert first.rates.waiting == pytest.approx(0.6)
    assert (first.share, first.part, second.rates) == ("g1", 0.25, None)
    assert [row.rates for row in rows(now, None)] == [None, None]


def test_counters_tell_of_every_move_unless_there_are_two_gpus() -> None:
    view = counted(7, moved=GIB)
    before, now = look(1, tenant(1, 7)), look(2, tenant(1, 7, waited_ns=10**8), views=(view,))
    (row,) = rows(now, before)
    assert row.rates == Rates(GIB, 2 * GIB, GIB // 8 / 1e9, 0.1)
    before, now = (look(at, tenant(1, 7), tenant(2, 7), views=(view,)) for at in (1, 2))
    assert [row.rates for row in rows(now, before)] == [Rates(0, 0, 0)] * 2


def test_another_broker_begins_its_sums_anew() -> None:
    (row,) = rows(look(2, tenant(1, 7)), look(1, tenant(1, 7, refilled=GIB, waited_ns=10**9)))
    assert row.rates == Rates(0, 0, 0)


def test_what_is_resident_of_a_program_that_does_not_share() -> None:
    """All until pages move, then what its limit allows; without a limit it is not known."""
    views = counted(1), counted(2, paged=1, memory=(4, 1)), counted(3, paged=1)
    found = rows(look(1, views=views), None)
    assert [(row.part, row.at_most) for row in found] == [(1, False), (0.25, True), (None, False)]
    assert [columns.bar(row) for row in found] == [
        "████████  100 %",
        "██░░░░░░ ≤ 25 %",
        "not known",
    ]


LAST = {20: "program", 60: "waits", 80: "pid", 120: "had 10 s", 200: "switches"}
"""The last column at each width."""


@pytest.mark.parametrize("width", LAST)
def test_columns_fit_and_those_that_matter_stay(width: int) -> None:
    drawn = columns.shown(width - 1)  # beside a scroll bar
    assert sum(room + columns.PADDING for _, room in drawn) <= width - 1
    assert drawn[-1][0].heading == LAST[width]
    assert [column for column, _ in drawn] == list(columns.COLUMNS[: len(drawn)])
    assert all(len(column.heading) <= room for column, room in drawn)
    bars = (columns.bar(row(part)) for part in (0, 0.5, 1))
    assert {len(text) for text in bars} == {columns.COLUMNS[1].least}


def row(part: float) -> Row:
    return Row("k", 7, "train", "runs", 100, round(100 * part), at_most=True)


def test_the_latest_stands_at_the_right_end() -> None:
    assert columns.spark([0, 1, 4, 8], 6) == "   ▂▅█"
    assert columns.spark([0, 1, 4, 8], 2) == "▅█"
    assert columns.spark([0.5], 1, 1) == "▅"
    assert (columns.spark([], 3), columns.spark([1], 0)) == ("   ", "")


def test_who_is_gone_is_forgotten() -> None:
    history = History()
    for _ in range(LOOKS + 5):
        history.add([replace(row(1), rates=Rates(1, 2, 0.5)), replace(row(1), key="other")])
    assert len(history.of("k")) == len(history.of(None)) == LOOKS
    assert history.of(None)[-1] == Rates(1, 2, 0.25)
    history.add([])
    assert (history.of("k"), history.of(None)[-1]) == ([], Rates(0, 0, 0))


Steps = Callable[["Hands"], Awaitable[None]]


class Driven:
    """The screen, with what is shown to it and what it asks of the broker."""

    def __init__(self, *looks: Look) -> None:
        self.looks = list(looks)
        self.asked: list[tuple[int, bool]] = []
        self.refuses = ""

    def look(self, before: Look | None) -> Look:
        """The next one; the last one stays."""
        del before
        if not self.looks:
            raise StatsError("it has ended")
        return self.looks.pop(0)

    def suspend(self, pid: int, suspended: bool) -> None:
        """As the broker does."""
        if self.refuses:
            raise ShareError(self.refuses)
        self.asked.append((pid, suspended))

    def run(self, keys: Steps, size: tuple[int, int] = (80, 24)) -> Look | None:
        """Shows it, until the steps are done. What the screen ended with."""
        from pump.cli.screen.app import TopScreen

        screen = TopScreen(self.look, PATIENCE_S, self.suspend)

        async def steps() -> None:
            async with screen.run_test(size=size, notifications=True) as pilot:
                await settled(pilot)
                await keys(Hands(screen, pilot))

        asyncio.run(steps())
        last: Look | None = screen.return_value
        return last


async def settled(pilot: "Pilot[Any]") -> None:
    """All looks were taken and drawn."""
    from textual.worker import WorkerCancelled

    with suppress(WorkerCancelled):  # the screen has ended
        await pilot.app.workers.wait_for_complete()
    await pilot.pause()


class Hands:
    """Who sits before it."""

    def __init__(self, screen: "TopScreen", pilot: "Pilot[Any]") -> None:
        self.screen, self.pilot = screen, pilot

    async def press(self, *keys: str) -> None:
        """One after the other."""
        await self.pilot.press(*keys)
        await settled(self.pilot)

    async def look(self) -> None:
        """As when the interval is over."""
        self.screen.tick()
        await settled(self.pilot)

    def text(self) -> str:
        """All that is to be seen."""
        drawn = self.screen.export_screenshot()
        words = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
        return html.unescape("".join(words)).replace("\xa0", " ")

    def programs(self) -> list[int]:
        """The processes, from top to bottom."""
        return [int(pid) for pid in re.findall(r"(?<!process) (7\d\d) ", self.text())]


def three(second: int, **more: object) -> Look:
    """Tenants that move differently much."""
    moves = {"resident": 3 * GIB, "refilled": GIB * second, "evicted": 3 * GIB * second}
    return look(
        second,
        tenant(1, 701, **moves),
        tenant(2, 702, **{"resident": 2 * GIB, "refilled": 3 * GIB * second, **more}),
        tenant(3, 703, resident=GIB, refilled=2 * GIB * second, evicted=GIB * second),
    )


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "program", lambda pid: f"train{pid % 10}{STEERING * (pid == 703)}")


@pytest.mark.parametrize("width", WIDTHS)
def test_all_is_on_the_screen(width: int) -> None:
    async def keys(hands: Hands) -> None:
        await hands.look()
        text = hands.text()
        for words in ("GPU-00112233: 16.0 GiB to share, turns (7 so far)", "all programs"):
            assert words in text
        for words in ("6.0 GiB", "4.0 GiB", "███░░░░░   38 %", "s Suspend", "r Resume", "q Quit"):
            assert words in text, words
        for words in ("train1, process 701 of g1: runs,", "38 % of 8.0 GiB"):
            assert words in text
        assert ("had 10 s" in text) == (width >= 120)
        assert "█" in text.split("to host/s")[1]
        assert "\x1b" not in text

    Driven(three(1), three(2)).run(keys, (width, 24))


def test_keys_sort_and_the_same_line_stays_selected() -> None:
    async def keys(hands: Hands) -> None:
        await hands.look()
        assert hands.programs() == [701, 702, 703]
        await hands.press("down")
        await hands.press("greater_than_sign")
        assert "in/s ▼" in hands.text()
        assert hands.programs() == [702, 703, 701]
        assert "train2, process 702" in hands.text()
        await hands.press("v")
        assert "in/s ▲" in hands.text()
        assert hands.programs() == [701, 703, 702]
        await hands.press("less_than_sign", "less_than_sign")
        assert "program▲" in hands.text()
        assert "train2, process 702" in hands.text()
        await hands.look()
        assert "train2, process 702" in hands.text()

    Driven(three(1), three(2), three(3)).run(keys)


def test_a_pause_takes_no_look_until_it_ends() -> None:
    driven = Driven(three(1), three(2), three(3))

    async def keys(hands: Hands) -> None:
        await hands.press("p")
        assert "all programs (paused)" in hands.text()
        await hands.look()
        assert len(driven.looks) == 2
        await hands.press("space")
        await hands.look()
        assert len(driven.looks) == 1
        assert "paused" not in hands.text()

    driven.run(keys)


def test_a_program_is_suspended_only_after_a_yes() -> None:
    driven = Driven(*[three(second) for second in range(1, 9)])

    async def keys(hands: Hands) -> None:
        await hands.press("down", "s")
        assert "Suspend train2, process 702?" in hands.text()
        assert "until it is resumed." in hands.text()
        for answer in ("n", "escape"):
            await hands.press(answer)
            assert "Suspend train2" not in hands.text()
            await hands.press("s")
        assert driven.asked == []
        await hands.press("y")
        assert driven.asked == [(702, True)]
        await hands.press("r")
        assert "train2, process 702 is not suspended" in hands.text()
        driven.refuses = "no broker serves /run/ulms"
        await hands.press("s", "y")
        assert "no broker serves /run/ulms" in hands.text()

    driven.run(keys, (120, 40))


def test_a_suspended_one_is_resumed() -> None:
    away = {"suspended": True, "away_ns": 5}
    driven = Driven(*[three(second, **away) for second in range(1, 9)])

    async def keys(hands: Hands) -> None:
        await hands.press("down", "s")
        assert "train2, process 702 is suspended" in hands.text()
        await hands.press("r")
        assert driven.asked == [(702, False)]
        assert "train2, process 702 goes on" in hands.text()

    driven.run(keys, (120, 40))


def test_one_that_does_not_share_is_not_suspended() -> None:
    async def keys(hands: Hands) -> None:
        await hands.press("s")
        assert "train, process 5 does not share: start it with" in hands.text()

    Driven(look(1, views=(counted(5),))).run(keys, (120, 40))


def test_where_nobody_runs_it_says_how_to_start_one() -> None:
    async def keys(hands: Hands) -> None:
        assert "no program shares a GPU or shows counters" in hands.text()
        await hands.press("s", "r", "v", "greater_than_sign")
        await hands.look()
        assert "train1, process 701" in hands.text()

    Driven(look(1), three(2)).run(keys, (120, 24))


def test_on_a_low_terminal_programs_are_what_is_left() -> None:
    async def keys(hands: Hands) -> None:
        assert hands.programs() == [701, 702, 703]
        assert "process 701" not in hands.text()

    Driven(three(1)).run(keys, (80, 12))


def test_it_ends_when_asked_or_with_what_it_watches() -> None:
    last = three(1)

    async def ends(hands: Hands) -> None:
        await hands.look()

    async def quits(hands: Hands) -> None:
        await hands.press("q")

    assert Driven(last).run(ends) is last
    assert Driven(last, three(2)).run(quits) is None


@contextmanager
def on_a_terminal(*words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command, and the other end of its terminal."""
    ours, its = pty.openpty()
    env = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(
        [sys.executable, *words], stdin=its, stdout=its, stderr=its, env=env
    ) as running:
        os.close(its)
        try:
            yield running, ours
        finally:
            running.kill()
            os.close(ours)


def seen(ours: int, words: bytes) -> None:
    """Reads until they came."""
    end, told = time.monotonic() + PATIENCE_S, b""
    while words not in told:
        assert time.monotonic() < end, told
        told += os.read(ours, 65536)


def test_a_terminal_gets_the_screen() -> None:
    with on_a_terminal("-m", "pump", "top") as (running, ours):
        seen(ours, b"Suspend")
        os.write(ours, b"q")
        seen(ours, b"\x1b[?1049l")  # the terminal is as before
        assert running.wait(PATIENCE_S) == 0


def test_without_the_library_a_terminal_gets_plain_text() -> None:
    code = "import sys; sys.modules['textual'] = None; from pump.cli import main; main(['top'])"
    with on_a_terminal("-c", code) as (_, ours):
        seen(ours, b"start one with")
