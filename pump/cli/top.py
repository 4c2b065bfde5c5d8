"""`pump top`."""

import argparse
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.live import Live

from pump import stats
from pump.cli.summary import time_text
from pump.sizes import format_size
from pump.stats import Change, Counter, Held, Snapshot, StatsError
from pump.terminal.command import UsageError
from pump.terminal.render import Name, console, table

SHORTEST_INTERVAL = 0.1  # seconds
HELD_SHOWN = 5
WIDE = 100  # columns: in fewer the counters' help is left out
PAGING = ("filled_bytes", "evicted_bytes", "paged_bytes", "late", "held_ns", "in_place_bytes")
"""Counters that come first, each with its parts."""
PART = "of these, "
"""How the help of a counter begins that counts a part of what one before it counts."""
NOBODY = "no program shows counters: start one with `pump run --stats` or ULMS_STATS=on"


@dataclass(frozen=True)
class View:
    """A program now and, once there was a look before, what changed since."""

    now: Snapshot
    change: Change | None = None


class Top:
    """Watch the counters of running programs.

    Shows the programs that run with ULMS_STATS=on, or the one with the process id given.
    """

    name = "top"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whose counters, and how often."""
        parser.add_argument("pid", nargs="?", type=int, metavar="PID", help="this process alone")
        parser.add_argument("--once", action="store_true", help="print once, in plain text")
        parser.add_argument(
            "--interval", type=float, default=1.0, metavar="S", help="seconds between looks (1)"
        )

    def run(self, pid: int | None, before: list[View] | None = None) -> list[View]:
        """A look at the programs, compared with the one before. Raises StatsError for a PID
        that shows no counters."""
        earlier = {view.now.path: view.now for view in before or []}
        views = []
        for path in stats.find() if pid is None else [stats.find_pid(pid)]:
            try:
                now = stats.read(path)
            except FileNotFoundError:
                continue  # it has just ended
            change = stats.change(earlier[path], now) if path in earlier else None
            views.append(View(now, change))
        return views

    def main(self, args: argparse.Namespace) -> int:
        """Prints once, or until interrupted or, with a PID, until that program ends."""
        if args.interval < SHORTEST_INTERVAL:
            raise UsageError(
                f"--interval {args.interval}: {SHORTEST_INTERVAL} s or more is accepted"
            )
        out = console()
        try:
            views = self.run(args.pid)
        except StatsError as error:
            raise UsageError(str(error)) from error
        if args.once or not out.is_terminal:
            out.print(page(views, wide=out.width >= WIDE))
            return 0

        def brief() -> RenderableType:
            return page(views, brief=True, wide=out.width >= WIDE)

        with Live(brief(), console=out, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(args.interval)
                try:
                    views = self.run(args.pid, views)
                except StatsError:
                    break  # the one program has ended
                live.update(brief(), refresh=True)
        out.print(page(views, wide=out.width >= WIDE))
        return 0


def page(views: list[View], *, brief: bool = False, wide: bool = True) -> RenderableType:
    """All programs, one under the other; in brief without what never happened."""
    return Group(*(program(view, brief=brief, wide=wide) for view in views)) if views else NOBODY


def program(view: View, *, brief: bool, wide: bool) -> RenderableType:
    """One program: who it is, its memory, its counters: those of pages first."""
    now = view.now
    started = datetime.fromtimestamp(now.opened).astimezone()
    title = f"{now.program} ({now.pid}), since {started:%H:%M:%S}, idle {now.idle_s:.1f} s"
    memory = [
        (
            m.device,
            *map(format_size, (m.used, m.peak)),
            format_size(m.capacity) if m.capacity else "none",
        )
        for m in now.memory
    ]
    groups = with_parts(c for c in now.counters.values() if c.value or not brief)
    paging = [c for name in PAGING for c in groups.pop(name, [])]
    others = [c for group in groups.values() for c in group]
    parts: list[RenderableType] = [
        title,
        table((">device", ">used", ">peak", ">limit"), memory),
    ]
    if paging:
        parts.append(counter_table("pages", paging, view.change, wide=wide))
    if now.held:
        names = (">held", ">times", ">waited for", "kernel or call")
        parts.append(table(names, map(held_row, now.held[:HELD_SHOWN])))
    parts.append(counter_table("counter", others, view.change, wide=wide))
    return Group(*parts)


def with_parts(counters: Iterable[Counter]) -> dict[str, list[Counter]]:
    """Counters by name, each with those that count a part of it: their help makes sense only behind
    it.
    """
    groups: dict[str, list[Counter]] = {}
    group: list[Counter] = []
    for counter in counters:
        if not (groups and counter.help.startswith(PART)):
            group = groups.setdefault(counter.name, [])
        group.append(counter)
    return groups


def counter_table(
    title: str, counters: Iterable[Counter], change: Change | None, *, wide: bool
) -> RenderableType:
    """A line a counter; wide: with its help."""
    rows = [(c.name, amount(c, c.value), rate(c, change), c.help) for c in counters]
    columns = (title, ">value", ">a second", "what")
    return table(columns, rows) if wide else table(columns[:-1], [row[:-1] for row in rows])


def held_row(held: Held) -> tuple[object, ...]:
    """One of those that were held longest."""
    name = Name(held.name)
    return f"{held.ns / 1e9:.3f} s", f"{held.times:,}", format_size(held.missing_bytes), name


def amount(counter: Counter, value: float) -> str:
    """A value in the counter's unit."""
    if counter.name.endswith("_ns"):
        return time_text(value)
    return format_size(value) if counter.unit == "B" else f"{value:,.0f}"


def rate(counter: Counter, change: Change | None) -> str:
    """How fast it grows; "" before the second look."""
    return "" if change is None else amount(counter, change.rate(counter.name))
