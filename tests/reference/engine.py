"""The engine in plain Python: pages, operations and the events common to all policies.

`docs/engine-rules.md` has the rules; `held.py` and `ordered.py` follow those of their policies. It
gives the same answers to the same events as the compiled engine (tests/unit/test_engine.py).

`struct ulms_engine_stats` (csrc/ulms.h) says what each sum is. When it grows, where that is not
plain:

- late operations: an operation is held for the first time
- short operations: admitted; under an ordered policy issued
- faulted pages: the operation is admitted; with `none` issued; with `pump` never
- pages used in place, and of these those written: the operation is admitted: every page of its own
  that stays absent, unless it is sparse for it
- a useless page (held policy): a page that came with bytes leaves, or its memory goes, before an
  operation was admitted that touches it
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, takewhile
from typing import Any

from sortedcontainers import SortedList

from pump.sim.engine import (
    CLEAN,
    DEAD,
    EVICT,
    KEEP,
    READ,
    SCRATCH,
    SPARSE,
    Move,
    Settings,
    Stats,
    Touch,
)

ABSENT, FILLING, RESIDENT, EVICTING = range(4)
MODES, FADE, MUCH = 7, 8, 32  # what an operation does to a page: modes; it dies; not only sparse
FAILURES_MOST = 3


@dataclass(eq=False, slots=True)
class Page:
    """A page of the program's memory."""

    number: int
    state: int = ABSENT
    live: bool = False
    dirty: bool = False
    allocated: bool = True  # there is memory
    pins: int = 0
    touched: int = 0  # serial of the last operation that touches it
    failures: int = 0
    blocks: int = 0
    untouched: bool = False  # filled with bytes, and not touched since
    in_place: bool = False  # it left so that kernels may use it where it lies
    move: int = 0  # under way
    waiting: list[int] = field(default_factory=list)  # operations that touch it, first to last
    leaves: tuple[Any, ...] | None = None  # its place among those that may leave
    comes: tuple[Any, ...] | None = None  # its place among those that are wanted
    counts: tuple[bool, bool, bool] = (False, False, False)  # in what is counted of all

    def may_leave(self) -> bool:
        return self.state == RESIDENT and not self.pins and self.failures < FAILURES_MOST


@dataclass(eq=False)
class Operation:
    """An operation issued and not retired; `does` is in order of address."""

    serial: int
    key: int
    does: dict[Page, int]
    late: bool = False
    short: bool = False
    wait: int = 0

    def pages(self) -> list[Page]:
        """Those whose memory is still there."""
        return [page for page in self.does if page.allocated]


class Reference:
    """Pages, operations, counts. A policy says when operations run and what moves."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.size = settings.page_bytes
        self.run = max(1, settings.run_bytes // self.size)
        self.shed = max(self.run, settings.shed_bytes // self.size)
        self.pages: dict[int, Page] = {}
        self.count = [0] * 4  # pages by state
        self.untouched: set[Page] = set()
        self.leaving: SortedList[tuple[Any, ...]] = SortedList()
        self.operations: dict[int, Operation] = {}
        self.serials = count(1)
        self.moves: dict[int, Move] = {}  # given out and not done
        self.ids = count(1)
        self.sums = Stats()
        self.holder_of: Callable[[int], int] | None = None
        self.allowed = settings.in_place  # what kernels may do to pages on the host
        self.budget(settings.budget)

    # --- what the policies share ---

    @property
    def used(self) -> int:
        return sum(self.count) - self.count[ABSENT]

    def put(self, page: Page, state: int) -> None:
        self.count[page.state] -= 1
        self.count[state] += 1
        page.state = state

    def span(self, start: int, size: int) -> Iterator[Page]:
        """The pages of a range that hold memory, in order."""
        for number in range(start // self.size, -(-(start + size) // self.size)):
            if number in self.pages:
                yield self.pages[number]

    def leave_key(self, page: Page) -> tuple[Any, ...]:
        """Pages that may leave go in this order; the number is last."""
        return page.touched, page.number

    def settle(self, page: Page) -> None:
        """Every change of a page ends here: its place among those that may leave, or are ready."""
        key = self.leave_key(page) if page.allocated and page.may_leave() else None
        if key != page.leaves:
            if page.leaves:
                self.leaving.remove(page.leaves)
            if key:
                self.leaving.add(key)
            page.leaves = key
        if page.allocated and page.untouched:
            self.untouched.add(page)
        else:
            self.untouched.discard(page)

    def gather(self, touches: Sequence[Touch]) -> dict[Page, int]:
        """What an operation does to each page: the union of modes, FADE, MUCH."""
        does: dict[Page, int] = {}
        for start, size, mode in touches:
            for page in self.span(start, size) if size else ():
                first = page.number * self.size
                covers = start <= first and first + self.size <= start + size
                fade = FADE if covers and mode == SCRATCH else 0
                much = 0 if mode == READ | SPARSE else MUCH
                does[page] = does.get(page, 0) | mode & MODES | fade | much
        for page, done in does.items():
            if done & MODES != SCRATCH:
                does[page] &= ~FADE
        return dict(sorted(does.items(), key=lambda item: item[0].number))

    def mark(self, operation: Operation) -> None:
        """What the operation makes of its pages, once it is sure to run."""
        for page in operation.pages():
            done = operation.does[page]
            page.live = not done & FADE
            here = page.live and page.state != ABSENT
            page.dirty = here and (page.dirty or done & MODES != READ)
            page.untouched = False
            self.settle(page)

    def fill_flags(self, page: Page, done: int) -> int:
        if not page.live:
            return DEAD
        return KEEP if self.settings.keeps and done & MODES == READ else 0

    def evict_flags(self, page: Page) -> int:
        if not page.live:
            return DEAD
        return CLEAN if self.settings.keeps and not page.dirty else 0

    def following(self, page: Page, step: int = 1) -> Iterator[Page]:
        """The page and those that follow it in memory, or with -1 those before it."""
        numbers = takewhile(self.pages.__contains__, count(page.number, step))
        return map(self.pages.__getitem__, numbers)

    def count_move(self, move: Move, size: int) -> None:
        if move.flags & DEAD:
            self.sums.dead_bytes += size
        elif move.flags & CLEAN:
            self.sums.dropped_bytes += size
        elif move.kind == EVICT:
            self.sums.evicted_bytes += size
        else:
            self.sums.filled_bytes += size

    # --- events ---

    def in_place(self, mode: int) -> None:
        self.allowed = mode

    def eager(self, eager: bool) -> None:
        pass

    def budget(self, size: int) -> None:
        self.sums.budget_bytes = size
        self.frames = size // self.size

    def holder(self, holder: Callable[[int], int]) -> None:
        self.holder_of = holder

    def allocated(self, start: int, size: int) -> bool:
        if not size or start % self.size or size % self.size:
            return False
        for number in range(start // self.size, (start + size) // self.size):
            if number not in self.pages:
                page = self.pages[number] = Page(number)
                self.count[ABSENT] += 1
                self.settle(page)
        return True

    def freed(self, start: int, size: int) -> None:
        for page in list(self.span(start, size)) if size else ():
            self.sums.useless_bytes += self.size * page.untouched
            self.count[page.state] -= 1
            page.allocated = False
            self.dies(page)
            self.settle(page)
            del self.pages[page.number]

    def placed(self, start: int, size: int) -> None:
        for page in self.span(start, size) if size else ():
            if page.state == ABSENT:
                self.put(page, RESIDENT)
                page.in_place = False
                self.settle(page)

    def block(self, start: int, size: int, live: bool) -> None:
        for page in self.span(start, size) if size else ():
            if live:
                page.blocks += 1
            elif page.blocks:
                page.blocks -= 1
                if not page.blocks:
                    self.dies(page)
                    self.settle(page)

    def dies(self, page: Page) -> None:
        """By an event of memory."""
        page.live = page.dirty = False

    def issued(self, key: int, touches: Sequence[Touch]) -> int:
        does = self.gather(touches)
        if not does:
            return 0
        operation = Operation(next(self.serials), key, does)
        self.sums.operations += 1
        self.sums.touched_bytes += self.size * len(does)
        self.sums.hit_bytes += self.size * sum(page.state == RESIDENT for page in does)
        self.decide(operation)
        self.operations[operation.serial] = operation
        return operation.serial

    def decide(self, operation: Operation) -> None:
        """What the policy makes of an operation when it is issued."""
        raise NotImplementedError

    def stats(self) -> Stats:
        return replace(self.sums, resident_bytes=self.size * self.count[RESIDENT])
