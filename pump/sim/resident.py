"""Which pages of one program are on the device: a cyclic sequence of operations, known exactly, and
Belady's rule within a budget.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from pump.sim.sequence import Operation, Sequence, pages_of
from pump.sizes import MIB

PAGE_BYTES = 64 * MIB
"""Coarse: runs of seconds are played, and operations touch hundreds of MiB."""
LEAST_NS = 500_000
"""Recorded operations are played together until they take so long."""


@dataclass(frozen=True)
class Work:
    """An operation: how long it takes alone, its pages by number, and those that it writes."""

    duration_ns: int
    pages: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Program:
    """Operations that repeat; after each round it pauses."""

    name: str
    work: tuple[Work, ...]
    pause_ns: int = 0

    @cached_property
    def uses(self) -> dict[int, list[int]]:
        """The operations of each page."""
        found: dict[int, list[int]] = {}
        for i, work in enumerate(self.work):
            for page in work.pages:
                found.setdefault(page, []).append(i)
        return found

    @property
    def need(self) -> int:
        """Bytes."""
        return len(self.uses) * PAGE_BYTES

    @property
    def works_ns(self) -> int:
        """What the operations of a round take."""
        return sum(work.duration_ns for work in self.work)

    @property
    def round_ns(self) -> int:
        """Alone, with all its pages there."""
        return self.works_ns + self.pause_ns


def decoder(size: int, rate: float, operations: int = 4) -> Program:
    """Reads so many bytes of weights for each token, at so many bytes a second."""
    count = size // PAGE_BYTES
    bounds = [count * i // operations for i in range(operations + 1)]
    return Program(
        f"decoder of {size / 1e9:.1f} GB",
        tuple(
            Work(int((end - begin) * PAGE_BYTES / rate * 1e9), tuple(range(begin, end)))
            for begin, end in pairwise(bounds)
        ),
    )


def training(size: int, step_ns: int, operations: int = 32) -> Program:
    """Sweeps there and back over so many bytes, and writes them all."""
    count = size // PAGE_BYTES
    bounds = [count * i // operations for i in range(operations + 1)]
    parts = [tuple(range(begin, end)) for begin, end in pairwise(bounds)]
    there = [Work(step_ns // (2 * operations), part, part) for part in parts]
    return Program(f"training of {size / 1e9:.1f} GB", (*there, *reversed(there)))


def recorded(name: str, sequence: Sequence) -> Program:
    """The last step of a sequence. Its blocks are never dead here, and pages are coarse."""
    work: list[Work] = []
    together: list[Operation] = []
    for event in (*sequence.steps[-1], None):
        if isinstance(event, Operation):
            together.append(event)
        ns = sum(one.duration_ns for one in together)
        if ns >= LEAST_NS or (event is None and ns):
            touches = [touch for one in together for touch in one.touches]
            pages = pages_of(touches, PAGE_BYTES)
            written = pages_of((touch for touch in touches if touch.writes), PAGE_BYTES)
            work.append(Work(ns, tuple(sorted(pages)), tuple(sorted(written))))
            together.clear()
    return Program(name, tuple(work))


class Resident:
    """The pages of a program. One that comes or leaves has its room meanwhile."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.here: set[int] = set()
        self.dirty: set[int] = set()
        self.coming: set[int] = set()
        self.leaving: set[int] = set()
        self.left: set[int] = set()  # were here before
        self.refilled = 0
        self.moved_in = self.moved_out = 0  # bytes

    @property
    def holds(self) -> int:
        """Bytes of the device that it takes."""
        return (len(self.here) + len(self.coming) + len(self.leaving)) * PAGE_BYTES

    def has(self, work: Work) -> bool:
        """All pages of an operation are here, to stay."""
        return self.here.issuperset(work.pages)

    def distance(self, page: int, at: int) -> int:
        """Operations until the page is touched."""
        uses = self.program.uses[page]
        i = bisect_left(uses, at)
        return uses[i] - at if i < len(uses) else uses[0] + len(self.program.work) - at

    def absent(self, at: int) -> Iterator[int]:
        """Pages to fill, the nearest touch first."""
        if self.holds == self.program.need:
            return
        work = self.program.work
        for i in range(len(work)):
            for page in work[(at + i) % len(work)].pages:
                if page not in self.here and page not in self.coming and page not in self.leaving:
                    yield page

    def farthest(self, at: int, pinned: tuple[int, ...] = ()) -> int | None:
        """The page to evict."""
        pages = self.here.difference(pinned)
        return max(pages, key=lambda page: (self.distance(page, at), page), default=None)

    def evict(self, page: int) -> bool:
        """True: its bytes must be copied out first."""
        self.here.remove(page)
        self.left.add(page)
        if page not in self.dirty:
            return False
        self.leaving.add(page)
        return True

    def gone(self, page: int) -> None:
        self.leaving.remove(page)
        self.dirty.discard(page)
        self.moved_out += PAGE_BYTES

    def fill(self, page: int) -> None:
        self.coming.add(page)

    def came(self, page: int) -> None:
        self.coming.remove(page)
        self.here.add(page)
        self.moved_in += PAGE_BYTES
        self.refilled += PAGE_BYTES if page in self.left else 0
