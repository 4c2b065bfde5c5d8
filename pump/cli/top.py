"""`pump top`."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live

from pump import stats
from pump.cli import tenants
from pump.cli.quantities import MEMORY
from pump.cli.summary import time_text
from pump.share import broker
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.stats import Change, Counter, DeviceMemory, Held, Snapshot, StatsError
from pump.terminal.command import UsageError
from pump.terminal.number import number
from pump.terminal.render import Name, console
from pump.terminal.tables import table

SHORTEST_INTERVAL = 0.1  # seconds
HELD_SHOWN = 5
PAGING = (
    *("filled_bytes", "evicted_bytes", "file_in_bytes", "file_out_bytes", "paged_bytes"),
    *("late", "held_ns", "in_place_bytes"),
)
"""Counters that come first, each with its parts."""
PART = "of these, "
"""How the help of a counter begins that counts a part of what one before it counts."""
NOBODY = (
    "no program shares a GPU or shows counters: start one with `pump run --share NAME` or"
    " `pump run --stats`"
)


@dataclass(frozen=True)
class View:
    """A program now and, once there was a look before, what changed since."""

    now: Snapshot
    change: Change | None = None


@dataclass(frozen=True)
class Look:
    """All that is to be seen at one time."""

    views: list[View]
    shared: dict[str, Any] = field(default_factory=lambda: {"gpus": []})
    """The broker's status."""
    taken_ns: int = field(default_factory=time.monotonic_ns)


class Top:
    """Watch running programs.

    Shows those that share a GPU, and the counters of those that run with ULMS_STATS=on, or of the
    one with the process id given. On a terminal it answers keys if Textual is installed.
    """

    name = "top"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whose counters, and how often."""
        parser.add_argument("pid", nargs="?", type=int, metavar="PID", help="this process alone")
        parser.add_argument("--once", action="store_true", help="print once, in plain text")
        parser.add_argument(
            "--json", action="store_true", help="print an object a line: a program at each look"
        )
        parser.add_argument(
            "--interval",
            type=number(SHORTEST_INTERVAL),
            default=1.0,
            metavar="S",
            help="seconds between looks (1)",
        )

    def run(self, pid: int | None, before: Look | None = None) -> Look:
        """A look at the programs, compared with the one before. Raises StatsError for a PID
        that shows no counters."""
        earlier = {view.now.path: view.now for view in before.views} if before else {}
        found = stats.running() if pid is None else [stats.running_pid(pid)]
        views = [
            View(now, stats.change(earlier[now.path], now) if now.path in earlier else None)
            for now in found
        ]
        if pid is None:
            try:
                return Look(views, broker.status(broker.folder()))
            except ShareError:
                pass  # nobody shares
        return Look(views)

    def main(self, args: argparse.Namespace) -> int:
        """Prints once, or until interrupted or, with a PID, until that program ends."""
        out = console()
        try:
            look = self.run(args.pid)
        except StatsError as error:
            raise UsageError(str(error)) from error
        if args.json:
            self.print_objects(look, args)
            return 0
        if args.once or not out.is_terminal:
            out.print(page(look))
            return 0

        last = self.screen(args) if answers_keys() else self.watch(look, out, args)
        if last:
            out.print(page(last))
        return 0

    def screen(self, args: argparse.Namespace) -> Look | None:
        """Until somebody quits, or, with the last look, the one program has ended."""
        from pump.cli.screen.app import TopScreen

        def suspend(pid: int, suspended: bool) -> None:
            broker.suspend(broker.folder(), f"pid:{pid}", suspended=suspended)

        screen = TopScreen(lambda before: self.run(args.pid, before), args.interval, suspend)
        last: Look | None = screen.run()
        return last

    def watch(self, look: Look, out: Console, args: argparse.Namespace) -> Look:
        """Plain text, until the one program has ended. The last look."""

        def brief(look: Look) -> RenderableType:
            return page(look, brief=True)

        if out.is_dumb_terminal:  # nothing can be drawn over
            out.print(brief(look))
            for now in self.later(look, args):
                out.print(brief(now))
                look = now
            return look
        with Live(brief(look), console=out, screen=True, auto_refresh=False) as live:
            for now in self.later(look, args):
                live.update(brief(now), refresh=True)
                look = now
        return look

    def later(self, look: Look, args: argparse.Namespace) -> Iterator[Look]:
        """The looks after that one, until the one program has ended."""
        while True:
            time.sleep(args.interval)
            try:
                look = self.run(args.pid, look)
            except StatsError:
                return
            yield look

    def print_objects(self, look: Look, args: argparse.Namespace) -> None:
        """A line for each program of each look."""
        for each in chain([look], () if args.once else self.later(look, args)):
            for line in objects(each):
                print(line, flush=True)


def answers_keys() -> bool:
    """There are Textual and a terminal: Textual reads from standard input and writes to standard
    error.
    """
    streams = (sys.__stdin__, sys.__stderr__)
    if not all(stream and stream.isatty() for stream in streams):
        return False
    try:
        import textual  # noqa: F401
    except ImportError:
        return False
    return os.environ.get("TERM", "dumb") != "dumb"


def objects(look: Look) -> list[str]:
    """Tenants with what the broker says of them, then programs with their counters."""
    at = {"time": round(time.time(), 3)}
    found: list[dict[str, Any]] = [
        at | {"tenant": each} for each in tenants.counted(tenants.each(look.shared))
    ]
    for view in look.views:
        now = view.now
        counters = {name: counter.value for name, counter in now.counters.items()}
        memory = [asdict(each) for each in now.memory]
        what = {"pid": now.pid, "program": now.program, "counters": counters, "memory": memory}
        found.append(at | {"counted": what})
    return [json.dumps(each) for each in found]


def page(look: Look, *, brief: bool = False) -> RenderableType:
    """Those that share, then all programs, one under the other; in brief without what never
    happened.
    """
    parts = tenants.page(look.shared)
    parts += [program(view, brief=brief) for view in look.views]
    return Group(*parts) if parts else NOBODY


def program(view: View, *, brief: bool) -> RenderableType:
    """One program: who it is, its memory, its counters: those of pages first."""
    now = view.now
    started = datetime.fromtimestamp(now.opened).astimezone()
    title = f"{now.program} ({now.pid}), since {started:%H:%M:%S}, idle {now.idle_s:.1f} s"
    memory = [(each.device, *memory_texts(each)) for each in now.memory]
    groups = with_parts(c for c in now.counters.values() if c.value or not brief)
    paging = [c for name in PAGING for c in groups.pop(name, [])]
    others = [c for group in groups.values() for c in group]
    parts: list[RenderableType] = [
        title,
        table((">device", *(f">{quantity.heading}" for quantity in MEMORY)), memory),
    ]
    if paging:
        parts.append(counter_table("pages", paging, view.change))
    if now.held:
        names = (">held", ">times", ">waited for", "kernel or call")
        parts.append(table(names, map(held_row, now.held[:HELD_SHOWN])))
    parts.append(counter_table("counter", others, view.change))
    return Group(*parts)


def memory_texts(memory: DeviceMemory) -> list[str]:
    """One device's, as MEMORY has it."""
    texts = [quantity.text(getattr(memory, quantity.key)) for quantity in MEMORY]
    return texts if memory.capacity else [*texts[:-1], "none"]


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


def counter_table(title: str, counters: Iterable[Counter], change: Change | None) -> RenderableType:
    """A line a counter; with its help where there is room."""
    rows = [(c.name, amount(c, c.value), rate(c, change), c.help) for c in counters]
    return table((title, ">value", ">a second", "what"), rows, leaves=("what",))


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
