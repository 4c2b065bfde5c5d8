"""Farthest next touch with full knowledge: what whole pages and no guess reach, both ways at once.

- *Lane in*: the absent page that is needed first comes, if until its need every page that appears
  without bytes (its old content is dead) still finds a frame.
- *Lane out*: when a page may not come, or pages that appear will lack frames, the page leaves whose
  next touch is farthest, if that lies beyond. Dead pages and valid host copies leave at no cost.
- An operation starts as soon as its pages are resident. Moves cost their bytes and nothing else.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sortedcontainers import SortedList

from pump.sim.period import PageTimes, Period

ITERATIONS, WARM = 6, 2
"""Played in all, and those before what counts."""

Numbers = npt.NDArray[np.int64]
LEAST = 1e-6  # shorter than anything here takes, in pages and nanoseconds


class Schedule(NamedTuple):
    """An iteration in the steady state; pages are those whose bytes went over the link."""

    ns: float
    pages_in: float
    pages_out: float


class Use(NamedTuple):
    """A touch of a page, with all that follows."""

    page: int
    writes: bool
    dies: bool
    fresh: bool  # its content before is of no use
    gap: int  # operations to the page's next touch


@dataclass
class Lane:
    """A direction: the page under way, and the share of it that is left."""

    page: int | None = None
    left: float = 0.0


def uses_of(period: Period) -> list[list[Use]]:
    """Every operation's touches, knowing what comes."""
    n = len(period.operations)
    places: dict[int, list[tuple[int, int]]] = {}
    for k, touches in enumerate(period.operations):
        for i, touch in enumerate(touches):
            places.setdefault(touch.page, []).append((k, i))
    uses: list[list[Use | None]] = [[None] * len(touches) for touches in period.operations]
    for found in places.values():
        last = period.operations[found[-1][0]][found[-1][1]]
        fresh = last.dies
        for (k, i), (after, _) in pairwise([*found, (found[0][0] + n, 0)]):
            touch = period.operations[k][i]
            uses[k][i] = Use(*touch, fresh, after - k)
            fresh = touch.dies
    return [[use for use in row if use] for row in uses]


def oracle(period: Period, budget: int, times: PageTimes) -> Schedule:
    """The steady state with `budget` pages. Raises ValueError where an operation needs more."""
    if period.largest > budget:
        raise ValueError("an operation touches more pages than the budget has")
    return Oracle(period, budget, times).run()


class Oracle:
    """One run. Positions count operations from the start of the first iteration."""

    def __init__(self, period: Period, budget: int, times: PageTimes) -> None:
        self.n, self.budget, self.times = len(period.operations), budget, times
        self.uses, self.durations = uses_of(period), period.durations
        self.fresh = [[use.page for use in row if use.fresh] for row in self.uses]
        self.clean = np.ones(period.pages, dtype=np.bool_)  # the host's copy is valid
        self.here = np.zeros(period.pages, dtype=np.bool_)
        self.resident: SortedList[tuple[int, int]] = SortedList()  # next touch, page; not in use
        self.absent: SortedList[tuple[int, int]] = SortedList()  # with bytes that are needed
        self.next = np.zeros(period.pages, dtype=np.int64)
        self.at, self.running, self.end = 0, False, 0.0
        self.held = 0  # frames, but those of a page that leaves
        self.into, self.out = Lane(), Lane()
        self.pages_in = self.pages_out = 0
        self.now = 0.0
        seen: set[int] = set()
        for k, row in enumerate(self.uses):
            for use in row:
                if use.page not in seen and not use.fresh:
                    self.absent.add((k, use.page))
                    self.next[use.page] = k
                seen.add(use.page)
        self.births, self.deaths = self._sums("fresh"), self._sums("dies")

    def _sums(self, what: str) -> Numbers:
        """How many touches before a position are fresh, or die."""
        one = [sum(getattr(use, what) for use in row) for row in self.uses]
        return np.concatenate([[0], np.cumsum(np.tile(one, ITERATIONS + 2))]).astype(np.int64)

    def run(self) -> Schedule:
        """Plays. Raises RuntimeError should nothing be possible: a fault of these rules."""
        marks: list[tuple[float, int, int]] = []
        while True:
            while self.start() or self.come() or self.leave():
                pass
            self.advance()
            if self.running and self.end <= self.now + LEAST:
                self.finish()
                if self.at in (WARM * self.n, ITERATIONS * self.n):
                    marks.append((self.now, self.pages_in, self.pages_out))
                if self.at == ITERATIONS * self.n:
                    before, after = marks
                    each = ITERATIONS - WARM
                    return Schedule(*((b - a) / each for a, b in zip(before, after, strict=True)))

    # --- the device ---

    def start(self) -> bool:
        """True: the operation starts."""
        fresh = self.fresh[self.at % self.n]
        if self.running or self.frames() + len(fresh) > self.budget or self.waits():
            return False
        row = self.uses[self.at % self.n]
        for use in row:
            if not use.fresh:
                self.resident.remove((self.at, use.page))
        self.here[fresh] = True
        self.held += len(fresh)
        self.running, self.end = True, self.now + self.durations[self.at % self.n]
        return True

    def waits(self) -> bool:
        """A page of the operation is absent or under way."""
        moving = (self.into.page, self.out.page)
        return bool(self.absent and self.absent[0][0] == self.at) or any(
            page is not None and self.next[page] == self.at for page in moving
        )

    def finish(self) -> None:
        for use in self.uses[self.at % self.n]:
            if use.writes or use.fresh:
                self.clean[use.page] = False
            self.next[use.page] = self.at + use.gap
            if use.dies:
                self.here[use.page] = False
                self.held -= 1
            else:
                self.resident.add((self.at + use.gap, use.page))
        self.running = False
        self.at += 1

    # --- the lanes ---

    def frames(self) -> int:
        """In use."""
        return self.held + (self.out.page is not None)

    def wanted(self, count: int) -> Numbers:
        """Frames in use at so many positions from now on, if nothing leaves or comes."""
        first = self.at + self.running
        born = self.births[first + 1 : first + count + 1] - self.births[first]
        died = self.deaths[first : first + count] - self.deaths[self.at]
        frames: Numbers = born - died + self.held
        return frames

    def come(self) -> bool:
        """True: a page begins to come."""
        if self.into.page is not None or not self.absent or self.frames() >= self.budget:
            return False
        need, page = self.absent[0]
        if self.lacks(need):
            return False
        del self.absent[0]
        self.into = Lane(page, 1.0)
        self.held += 1
        return True

    def lacks(self, need: int) -> bool:
        """A position before `need` has no frame to spare."""
        wanted = self.wanted(min(self.n, max(0, need - self.at - self.running)))
        return len(wanted) > 0 and int(wanted.max()) >= self.budget

    def short(self) -> int | None:
        """The first position for which a page has to leave."""
        wanted, first = self.wanted(self.n), self.at + self.running
        worst = int(wanted.argmax())
        found = None
        if wanted[worst] > self.budget:
            found = first + int((wanted > self.budget).argmax())
        if self.absent:
            need = self.absent[0][0]
            if (found is None or need < found) and (self.held >= self.budget or self.lacks(need)):
                return int(need)
        return found

    def leave(self) -> bool:
        """True: a page leaves, or begins to."""
        if self.out.page is not None or not self.resident:
            return False
        touched, page = self.resident[-1]
        place = self.short()
        if place is None or touched <= place:
            return False
        del self.resident[-1]
        self.here[page] = False
        self.held -= 1
        if self.clean[page]:
            self.absent.add((touched, page))
        else:
            self.out = Lane(page, 1.0)
        return True

    # --- time ---

    def advance(self) -> None:
        """To the next moment at which something ends."""
        lanes = [(self.into, self.times.in_ns, self.times.in_both_ns)]
        lanes += [(self.out, self.times.out_ns, self.times.out_both_ns)]
        both = all(lane.page is not None for lane, _, _ in lanes)
        busy = [(lane, two if both else one) for lane, one, two in lanes if lane.page is not None]
        moments = [lane.left * ns for lane, ns in busy]
        moments += [self.end - self.now] if self.running else []
        if not moments:
            raise RuntimeError(f"operation {self.at} cannot start, and nothing moves")
        step = max(0.0, min(moments))
        self.now += step
        for lane, ns in busy:
            lane.left -= step / ns
        if self.into.page is not None and self.into.left < LEAST:
            self.arrive(self.into.page)
        if self.out.page is not None and self.out.left < LEAST:
            self.depart(self.out.page)

    def arrive(self, page: int) -> None:
        self.into = Lane()
        self.pages_in += 1
        self.here[page] = self.clean[page] = True
        self.resident.add((int(self.next[page]), page))

    def depart(self, page: int) -> None:
        self.out = Lane()
        self.pages_out += 1
        self.clean[page] = True
        self.absent.add((int(self.next[page]), page))
