"""What happens when in a simulated run: residency over time, and a timeline for ui.perfetto.dev."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pump.sim.engine import CLEAN, DEAD, FILL, CompiledEngine, Move, Settings
from pump.sim.link import Link
from pump.sim.result import Result
from pump.sim.sequence import Block, Sequence, pages_of
from pump.sim.simulator import STEADY, Issued, Simulator
from pump.sizes import MIB
from pump.whole import write_whole

PROCESS = 1
DEVICE, LANES = 0, (1, 2)
THREADS = {DEVICE: "device", LANES[0]: "lane in", LANES[1]: "lane out"}


class Span(NamedTuple):
    """Something that took time."""

    name: str
    thread: int
    begin_ns: float
    end_ns: float
    bytes: int  # over the link


class Level(NamedTuple):
    """Bytes in pages at a moment. A page lives while the program holds a block on it."""

    ns: float
    live: int  # resident
    dead: int  # resident
    away: int  # live, in host memory


@dataclass
class Timeline:
    """The last steady step, from the end of the one before to its own."""

    spans: list[Span] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    budget: int = 0
    page_bytes: int = 0


def thinned(levels: list[Level], places: int) -> list[Level]:
    """Of each of so many stretches of time the level with most resident, and the last of all.
    levels: some, in order.
    """
    begin, end = levels[0].ns, levels[-1].ns
    best: dict[int, Level] = {}
    for level in levels:
        place = int((level.ns - begin) / (end - begin or 1) * places)
        known = best.setdefault(place, level)
        if level.live + level.dead > known.live + known.dead:
            best[place] = level
    chosen = [*best.values()]
    return chosen if chosen[-1].ns == end else [*chosen, levels[-1]]


def joined(spans: Iterable[tuple[float, float]], gap: float) -> list[tuple[float, float]]:
    """Beginnings and ends, in order: spans that are not further apart than the gap are one."""
    found: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if found and begin - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


class Pages:
    """Which pages live and which are resident, from what the engine is told and tells."""

    def __init__(self, page_bytes: int) -> None:
        self.size = page_bytes
        self.blocks: Counter[int] = Counter()
        self.here: set[int] = set()
        self.live_here = self.live = 0

    def block(self, block: Block, live: bool) -> None:
        """The framework gives out a block, or takes it back."""
        for page in pages_of([block], self.size):
            before = self.blocks[page] > 0
            self.blocks[page] += 1 if live else -1
            change = (self.blocks[page] > 0) - before
            self.live += change
            self.live_here += change if page in self.here else 0

    def moved(self, move: Move) -> None:
        """A move is done."""
        come = move.kind == FILL
        for page in pages_of([Block(move.start, move.bytes)], self.size):
            if come != (page in self.here):
                (self.here.add if come else self.here.discard)(page)
                self.live_here += (1 if come else -1) * (self.blocks[page] > 0)

    def level(self, ns: float) -> Level:
        """Now."""
        counts = (self.live_here, len(self.here) - self.live_here, self.live - self.live_here)
        return Level(ns, *(count * self.size for count in counts))


class Watched(CompiledEngine):
    """Tells of blocks."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.pages = Pages(settings.page_bytes)

    def block(self, start: int, size: int, live: bool) -> None:
        super().block(start, size, live)
        self.pages.block(Block(start, size), live)


class Recorder(Simulator):
    """A simulator that keeps what happened; for policies that hold, whose moves are all told."""

    def __init__(self, link: Link, settings: Settings, sequence: Sequence) -> None:
        watched = Watched(settings)
        super().__init__(watched, link, settings.policy)
        self.pages = watched.pages
        self.names = sequence.names
        self.spans: list[Span] = []
        self.levels: list[Level] = []
        self.begun: dict[int, float] = {}  # moves under way
        self.ended = [0.0, 0.0]  # the last of each lane

    def retire(self, done: Issued) -> None:
        name = self.names.get(done.key, f"operation {done.key}")
        self.spans.append(Span(name, DEVICE, self.end_ns - done.duration_ns, self.end_ns, 0))
        super().retire(done)
        self.levels.append(self.pages.level(self.now))

    def begin(self, number: int, move: Move) -> None:
        self.begun[move.id] = self.now
        super().begin(number, move)

    def end(self, number: int, move: Move) -> None:
        """What is set up while another's bytes go is shown from then on: spans do not overlap."""
        super().end(number, move)
        begin = max(self.begun.pop(move.id), self.ended[number])
        self.ended[number] = self.now
        moved = self.link.carried(move)
        self.spans.append(Span(describe(move), LANES[number], begin, self.now, moved))
        self.pages.moved(move)
        self.levels.append(self.pages.level(self.now))


def describe(move: Move) -> str:
    """A move in words."""
    way = "fill" if move.kind == FILL else "evict"
    kind = "dead " if move.flags & DEAD else "clean " if move.flags & CLEAN else ""
    return f"{way} {kind}{move.bytes // MIB} MiB"


def record(sequence: Sequence, link: Link, settings: Settings) -> tuple[Result, Timeline]:
    """Plays, and keeps the last steady step; its times count from its begin. The first is not
    typical: a system that has just tried both ways goes on from the second.
    """
    played = Recorder(link, settings, sequence)
    result = played.run(sequence)
    last = played.warm + STEADY - 1
    begin, end = (mark.ns for mark in played.marks[last - 1 : last + 1])
    spans = [
        span._replace(begin_ns=max(span.begin_ns, begin) - begin, end_ns=span.end_ns - begin)
        for span in played.spans
        if begin < span.end_ns <= end
    ]
    levels = [one._replace(ns=one.ns - begin) for one in played.levels if begin <= one.ns <= end]
    return result, Timeline(spans, levels, settings.budget, settings.page_bytes)


def write_timeline(path: Path, timeline: Timeline, title: str) -> None:
    """Writes Chrome's trace format: microseconds, a thread a lane. Raises OSError."""
    events: list[dict[str, Any]] = [_named("process_name", DEVICE, title)]
    events += [_named("thread_name", thread, name) for thread, name in THREADS.items()]
    for span in timeline.spans:
        events.append(
            {
                "ph": "X",
                "pid": PROCESS,
                "tid": span.thread,
                "name": span.name,
                "ts": span.begin_ns / 1e3,
                "dur": (span.end_ns - span.begin_ns) / 1e3,
                "args": {"bytes": span.bytes},
            }
        )
    for level in timeline.levels:
        counted = {name: value / MIB for name, value in level._asdict().items() if name != "ns"}
        events.append(
            {"ph": "C", "pid": PROCESS, "name": "MiB", "ts": level.ns / 1e3, "args": counted}
        )
    told = {"traceEvents": events, "displayTimeUnit": "ms"}
    write_whole(path, json.dumps(told))


def _named(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": PROCESS, "tid": thread, "name": what, "args": {"name": name}}
