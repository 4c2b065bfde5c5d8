"""The plan of a period in plain Python: chosen and carried out (docs/plan.md).

The same choices and moves as csrc/engine/plan.c and plan_run.c (tests/unit/test_plan.py), written
for reading: lists are searched where those keep heaps and trees.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

from bench.bound.core import Period

ABSENT, COMING, RESIDENT, QUEUED, LEAVING = range(5)
FRESH_AHEAD = 4  # operations ahead for which a dead page gets its frame
FREE_FRAMES = 16  # with so many free ones no page leaves without bytes
Step = tuple[int, bool] | None  # a page, and whether its bytes go over the link


@dataclass
class Gaps:
    """The gaps of a period: gap i lies between touch i and the next touch of its page."""

    period: Period

    @cached_property
    def touches(self) -> list[tuple[int, int]]:
        """Operation and page of each touch."""
        return [(k, t.page) for k, op in enumerate(self.period.operations) for t in op]

    @cached_property
    def next(self) -> list[int]:
        """The touch that ends each gap."""
        n = len(self.touches)
        return [
            next(j % n for j in range(i + 1, i + n + 1) if self.touches[j % n][1] == page)
            for i, (_, page) in enumerate(self.touches)
        ]

    @cached_property
    def dies(self) -> list[bool]:
        return [touch.dies for op in self.period.operations for touch in op]

    @cached_property
    def first(self) -> list[int]:
        """The first touch of each operation, and the end."""
        sizes = [len(op) for op in self.period.operations]
        return [sum(sizes[:k]) for k in range(len(sizes) + 1)]

    def length(self, i: int) -> int:
        """Operations from touch to touch, 1 to the period's."""
        apart = self.touches[self.next[i]][0] - self.touches[i][0]
        return apart if apart > 0 else apart + len(self.period.operations)

    def inside(self, i: int) -> list[int]:
        """The operations between the touches."""
        n, k = len(self.period.operations), self.touches[i][0]
        return [j % n for j in range(k + 1, k + self.length(i))]

    def base(self, away: list[bool]) -> list[int]:
        """Pages held at each operation."""
        held = [len(op) for op in self.period.operations]
        for i, gone in enumerate(away):
            for k in self.inside(i):
                held[k] += not gone and not self.dies[i]
        return held


def choose(gaps: Gaps, budget: int, start: int) -> list[bool] | None:
    """Which gaps are away after the sweep from operation `start`; None: one operation is too large.

    A gap that is open across the start stands for the one of the round before and for this round's.
    """
    n = len(gaps.period.operations)
    away = [False] * len(gaps.touches)
    images = {i for i in range(len(away)) if start in gaps.inside(i)}
    for place in range(n):
        k = (start + place) % n
        while gaps.base(away)[k] > budget:
            open_gaps = []
            for i, (op, _) in enumerate(gaps.touches):
                began = (op - start) % n
                if away[i] or gaps.dies[i] or k not in gaps.inside(i):
                    continue
                if began < place:
                    open_gaps.append((-(began + gaps.length(i)), i))
                elif i in images:
                    open_gaps.append((-(began + gaps.length(i) - n), i))
            if not open_gaps:
                return None
            away[min(open_gaps)[1]] = True
    return away


def prune(gaps: Gaps, budget: int, away: list[bool]) -> list[bool]:
    """Takes back the gaps that everything fits without, the shortest first."""
    away = list(away)
    for _, i in sorted((gaps.length(i), i) for i, gone in enumerate(away) if gone):
        held = gaps.base(away)
        away[i] = any(held[k] >= budget for k in gaps.inside(i))
    return away


def plan(period: Period, budget: int, start: int) -> tuple[list[bool], list[int]] | None:
    """Which gaps are away, and what is held; None: one operation is too large."""
    gaps = Gaps(period)
    away = choose(gaps, budget, start)
    if away is None:
        return None
    away = prune(gaps, budget, away)
    return away, gaps.base(away)


# --- carried out ---


class Mover(ABC):
    """What decides moves in virtual time."""

    @abstractmethod
    def start(self) -> bool:
        """The waiting operation may run; it does."""

    @abstractmethod
    def retired(self) -> None:
        """It has run."""

    @abstractmethod
    def out(self, bytes_too: bool) -> Step:
        """The next page to leave."""

    @abstractmethod
    def into(self, bytes_too: bool) -> Step:
        """The next page to come."""

    @abstractmethod
    def left(self, page: int) -> None:
        """It has left."""

    @abstractmethod
    def came(self, page: int) -> None:
        """It has come."""


@dataclass
class Page:
    need: int = 0  # the operation of its next touch
    state: int = ABSENT
    host: bool = False
    dead: bool = False
    dirty: bool = False
    kept: bool = False  # in the gap that ends there


@dataclass
class Run(Mover):
    """A plan carried out from before `operation` on.

    `start_pages` has (resident, host's copy valid, dead) of each page; without it the device is
    empty and pages are dead where the plan has them so. With `tells` false, deaths are told of by
    `died` only, else when the operation before them retires.
    """

    gaps: Gaps
    budget: int
    away: list[bool]
    operation: int = 0
    start_pages: list[tuple[bool, bool, bool]] | None = None
    tells: bool = True
    bare: list[int] = field(default_factory=list)
    laden: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.base = self.gaps.base(self.away)
        self.held = list(self.base)
        self.frames = self.budget
        n = len(self.base)
        first = {page: i for i, (_, page) in reversed(list(enumerate(self.gaps.touches)))}
        self.pages: dict[int, Page] = {}
        for number, i in sorted(first.items()):
            touches = [i]
            while (after := self.gaps.next[touches[-1]]) != i:
                touches.append(after)
            ahead = {j: (self.gaps.touches[j][0] - self.operation) % n for j in touches}
            next_one = min(touches, key=lambda j: ahead[j])
            gap = touches[touches.index(next_one) - 1]
            dead = self.gaps.dies[gap]
            resident, host, gone = False, not dead, dead
            if self.start_pages:
                resident, host, gone = self.start_pages[number]
            page = Page(self.operation + ahead[next_one], host=host and not gone, dead=gone)
            page.kept = not dead and not self.away[gap]
            self.pages[number] = page
            if resident:
                self.frames -= 1
                page.state = RESIDENT
                if not page.kept:
                    self.queue(number)
        self.wait()

    def queue(self, number: int) -> None:
        page = self.pages[number]
        page.state = QUEUED
        (self.bare if page.host or page.dead else self.laden).append(number)

    def died(self, number: int) -> None:
        """Nothing that runs or comes reads the page."""
        page = self.pages[number]
        if page.state == QUEUED and number in self.laden:
            self.laden.remove(number)
            self.bare.append(number)
        elif page.state == QUEUED and not page.dead:
            self.bare.remove(number)
            self.bare.append(number)
        page.dead, page.host = True, False

    def ready(self, operation: int) -> bool:
        """Its pages are resident and stay so until it has run."""
        n = len(self.base)
        wanted = {touch.page for touch in self.gaps.period.operations[operation % n]}
        if any(self.pages[number].state != RESIDENT for number in wanted):
            return False
        leaves = {
            self.gaps.touches[i][1]
            for x in range(self.operation, operation)
            for i in range(self.gaps.first[x % n], self.gaps.first[x % n + 1])
            if (self.away[i] or self.gaps.dies[i]) and self.gaps.length(i) > 1
        }
        return not wanted & leaves

    def now(self) -> list[int]:
        """The touches of the waiting operation."""
        k = self.operation % len(self.base)
        return list(range(self.gaps.first[k], self.gaps.first[k + 1]))

    def wait(self) -> None:
        for i in self.now():
            number = self.gaps.touches[i][1]
            if self.pages[number].state == QUEUED:
                self.stay(number)

    def stay(self, number: int) -> None:
        (self.bare if number in self.bare else self.laden).remove(number)
        self.pages[number].state = RESIDENT

    def start(self) -> bool:
        ready = self.ready(self.operation)
        if ready:
            self.admitted(self.operation)
        return ready

    def admitted(self, operation: int) -> None:
        """What its pages hold matters again."""
        for touch in self.gaps.period.operations[operation % len(self.base)]:
            self.pages[touch.page].dead = False

    def retired(self) -> None:
        k = self.operation % len(self.base)
        for i, touch in zip(self.now(), self.gaps.period.operations[k], strict=True):
            page = self.pages[touch.page]
            if self.tells and touch.dies:
                self.died(touch.page)
            page.host = page.host and not touch.writes
            page.need = self.operation + self.gaps.length(i)
            page.kept = not touch.dies and not self.away[i]
            if not page.kept and self.gaps.length(i) > 1:
                self.queue(touch.page)
        self.held[k] = self.base[k]
        self.operation += 1
        self.wait()

    def out(self, bytes_too: bool) -> Step:
        laden = not self.bare or self.frames >= FREE_FRAMES
        if laden and not (self.laden and bytes_too):
            return None
        number = (self.laden if laden else self.bare).pop(0)
        self.pages[number].state = LEAVING
        return number, laden

    def left(self, page: int) -> None:
        self.pages[page].state = ABSENT
        self.pages[page].host = not self.pages[page].dead
        self.frames += 1

    def come(self, number: int, laden: bool) -> Step:
        self.pages[number].state = COMING
        self.frames -= 1
        return number, laden

    def nearest(self, states: tuple[int, ...], dead: bool) -> tuple[Page, int] | None:
        """The page that is needed first, and its number."""
        found = [
            (page.need, number)
            for number, page in self.pages.items()
            if page.dead == dead and page.state in states
        ]
        return (self.pages[min(found)[1]], min(found)[1]) if found else None

    def grant(self, page: Page) -> bool:
        """Counts the page until its need, where there is room."""
        span = [k % len(self.held) for k in range(self.operation, page.need)]
        if page.kept or not span:
            return True
        if any(self.held[k] >= self.budget for k in span):
            return False
        for k in span:
            self.held[k] += 1
        return True

    def into(self, bytes_too: bool) -> Step:
        return (
            self.into_fresh(self.operation)
            or self.into_wanted(bytes_too)
            or self.into_fresh(self.operation + FRESH_AHEAD)
        )

    def into_fresh(self, last: int) -> Step:
        found = self.nearest((ABSENT,), dead=True)
        if found and found[0].need <= last and self.frames > 0 and self.grant(found[0]):
            return self.come(found[1], False)
        return None

    def into_wanted(self, bytes_too: bool) -> Step:
        while found := self.nearest((ABSENT, QUEUED, LEAVING), dead=False):
            page, number = found
            can = page.state == QUEUED or (page.state == ABSENT and bytes_too and self.frames > 0)
            if not can or not self.grant(page):
                return None
            if page.state == ABSENT:
                return self.come(number, True)
            self.stay(number)
        return None

    def came(self, page: int) -> None:
        self.pages[page].state = RESIDENT
