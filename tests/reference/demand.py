"""Who comes, and how much of what is live: next touches, demand, and what is expected of both."""

from typing import Any

from sortedcontainers import SortedList

from pump.sim.engine import READ, SCRATCH, Settings
from tests.reference.depth import Depth
from tests.reference.engine import (
    ABSENT,
    FAILURES_MOST,
    FILLING,
    MODES,
    MUCH,
    RESIDENT,
    Page,
    Reference,
)
from tests.reference.sequence import Sequence
from tests.reference.trial import Trial

WAITING, PREDICTED, UNKNOWN = range(3)
Time = tuple[int, int]  # a serial, a position of the history, or nothing
NEVER: Time = (UNKNOWN, 0)
NEAR_OPERATIONS = 32  # so long before an operation runs the places of its dead pages are made
# Demand: of waiting operations; predicted, of dead pages, of live ones, of those that rest.
SURE, PLACE, BYTES, RESTING = range(4)


class Demand(Reference):
    """The pages that are demanded, in order; the sequence learnt says when."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.sequence = Sequence()
        self.trial = Trial()
        self.near = max(1, settings.ahead_bytes // self.size)
        self.depth = Depth(self.run + self.near)
        self.demand: tuple[SortedList[tuple[Any, ...]], ...] = tuple(
            SortedList() for _ in (SURE, PLACE, BYTES, RESTING)
        )
        self.sent_at = 0  # the serial issued last when a page left last with its bytes
        self.carried = [False] * 64  # of the live pages that left last: with their bytes
        self.live = self.away = self.idle = 0
        self.serial = 0  # of the operation issued last
        self.died: dict[int, int] = {}  # page: the serial issued last when it died last

    def time(self, page: Page) -> Time:
        """The next touch."""
        if page.waiting:
            return WAITING, page.waiting[0]
        position = self.sequence.next(page.number)
        return NEVER if position is None else (PREDICTED, position)

    def is_streamed(self, page: Page) -> bool:
        """Touched once in the period, in a way that may be done where it lies."""
        past = self.sequence.once(page.number)
        if not (self.allowed and page.live and past):
            return False
        done = past.does[page.number]
        if not done & MUCH:
            return True
        allowed = done & MODES == READ or (self.allowed > 1 and not done & SCRATCH)
        return self.trial.leave_streamed and allowed

    def rests(self, page: Page) -> bool:
        """Absent, and used where it lies."""
        return page.state == ABSENT and page.in_place and self.is_streamed(page)

    def dies(self, page: Page) -> None:
        if page.live:
            self.died[page.number] = self.serial
        super().dies(page)

    def is_born(self, page: Page) -> bool:
        """The operation that is being issued touches it first after its death."""
        died, seen = self.died.get(page.number, 0), self.sequence.latest.get(page.number, 0)
        return not page.live and 0 < died >= seen

    def leave_time(self, page: Page) -> Time:
        """The next touch; but what will die before it goes one way only."""
        if page.waiting:
            return self.time(page)
        if self.is_streamed(page):
            return NEVER
        born = self.sequence.births.get(page.number)
        if page.live and born and born == self.sequence.next(page.number):
            return PREDICTED, (self.died[page.number] + born) // 2
        return self.time(page)

    def leave_key(self, page: Page) -> tuple[Any, ...]:
        kind, when = self.leave_time(page)
        return page.live, -kind, -when, page.touched, page.number

    def come_key(self, page: Page) -> tuple[Any, ...] | None:
        time = self.time(page)
        most = {WAITING: FAILURES_MOST, PREDICTED: 1, UNKNOWN: 0}[time[0]]  # failures
        wanted = page.allocated and page.state == ABSENT and not page.pins and page.failures < most
        kind = SURE if time[0] == WAITING else BYTES if page.live else PLACE
        if self.rests(page):
            wanted, kind = wanted and kind == BYTES, RESTING
        return (kind, *time, page.number) if wanted else None

    def counts(self, page: Page) -> tuple[bool, bool, bool]:
        """Live; live, and neither here nor coming; dead and here for nobody who waits."""
        here = page.state in (RESIDENT, FILLING)
        return (
            page.allocated and page.live,
            page.allocated and page.live and not here and (not page.waiting or self.rests(page)),
            page.allocated and not page.live and page.state == RESIDENT and not page.waiting,
        )

    def settle(self, page: Page) -> None:
        super().settle(page)
        counts = self.counts(page)
        self.live += counts[0] - page.counts[0]
        self.away += counts[1] - page.counts[1]
        self.idle += counts[2] - page.counts[2]
        page.counts = counts
        key = self.come_key(page)
        if key != page.comes:
            if page.comes:
                self.demand[page.comes[0]].remove(page.comes)
            if key:
                self.demand[key[0]].add(key)
            page.comes = key

    # --- how many pages there will be ---

    def room(self, position: int) -> int:
        """Live pages that may still come before that one, beside those which become live."""
        assert self.sequence.p is not None
        live = max(self.sequence.live(self.sequence.p, position))
        return max(0, self.frames - (live - self.away))

    @property
    def ready(self) -> int:
        """Pages that came, or come, and are not touched yet."""
        return len(self.untouched) + self.count[FILLING]

    def crowded(self) -> Time:
        """The first predicted operation at which too many pages would be live."""
        p = self.sequence.p
        if p is not None:
            lives = self.sequence.live(p + 1, self.sequence.newest + 1)
            for position, live in enumerate(lives, p + 1):
                if live - self.away > self.frames:
                    return PREDICTED, position
        return NEVER

    def peak(self) -> Time:
        """The last predicted operation at which most pages will be live."""
        p = self.sequence.p
        if p is None or p == self.sequence.newest:
            return NEVER
        lives = enumerate(self.sequence.live(p + 1, self.sequence.newest + 1), p + 1)
        return PREDICTED, max((live, position) for position, live in lives)[1]

    def quietly(self, pages: int) -> int:
        """So many; half of them while it is quiet."""
        quiet = self.sequence.p is not None and self.sent_at < self.sequence.p
        return max(1, pages // 2 if quiet else pages)

    @property
    def run_pages(self) -> int:
        return self.quietly(self.run)

    @property
    def near_pages(self) -> int:
        return self.quietly(self.near)

    @property
    def soon(self) -> Time:
        return PREDICTED, (self.sequence.p or 0) + NEAR_OPERATIONS

    def wanted_at(self, kind: int, k: int) -> Time:
        """When the page number k (from 0) is wanted."""
        demand = self.demand[kind]
        return demand[k][1:3] if k < len(demand) else NEVER
