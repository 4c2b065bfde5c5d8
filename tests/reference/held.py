"""The held policy `ahead` in plain Python."""

from typing import Any

from sortedcontainers import SortedList

from pump.sim.engine import (
    DEAD,
    EARLY,
    EVICT,
    FILL,
    HOLD,
    LANE_IN,
    RUN,
    RUN_SHORT,
    Move,
    Settings,
    Stats,
)
from tests.reference.engine import (
    ABSENT,
    EVICTING,
    FAILURES_MOST,
    FILLING,
    RESIDENT,
    Operation,
    Page,
    Reference,
)
from tests.reference.sequence import Sequence

WAITING, PREDICTED, UNKNOWN = range(3)
Time = tuple[int, int]  # a serial, a position of the history, or nothing


class Held(Reference):
    """Operations wait for their pages; the sequence learnt says what comes next."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.sequence = Sequence()
        self.waiting: dict[int, Operation] = {}  # in the order in which they were issued
        self.running = 0
        self.coming: SortedList[tuple[Any, ...]] = SortedList()  # time and number
        self.near = max(1, settings.ahead_bytes // self.size)

    def time(self, page: Page) -> Time:
        """The next touch."""
        if page.waiting:
            return WAITING, page.waiting[0]
        position = self.sequence.next(page.number)
        return (UNKNOWN, 0) if position is None else (PREDICTED, position)

    def leave_key(self, page: Page) -> tuple[Any, ...]:
        kind, when = self.time(page)
        return page.live, -kind, -when, page.touched, page.number

    def come_key(self, page: Page) -> tuple[Any, ...] | None:
        time = self.time(page)
        most = {WAITING: FAILURES_MOST, PREDICTED: 1, UNKNOWN: 0}[time[0]]  # failures
        wanted = page.held and page.state == ABSENT and not page.pins and page.failures < most
        return (*time, page.number) if wanted else None

    def settle(self, page: Page) -> None:
        super().settle(page)
        key = self.come_key(page)
        if key != page.comes:
            if page.comes:
                self.coming.remove(page.comes)
            if key:
                self.coming.add(key)
            page.comes = key

    def first_to_leave(self, after: Time) -> Page | None:
        """Of the pages whose next touch is after that time: dead ones first."""
        for live in (False, True):
            i = self.leaving.bisect_left((live,))
            page = self.pages[self.leaving[i][-1]] if i < len(self.leaving) else None
            if page and page.live == live and self.time(page) > after:
                return page
        return None

    # --- operations ---

    def decide(self, operation: Operation) -> None:
        does = {page.number: done for page, done in operation.does.items()}
        changed = self.sequence.issued(operation.serial, operation.key, does)
        self.waiting[operation.serial] = operation
        for page in operation.does:
            page.waiting.append(operation.serial)
            page.touched = operation.serial
            self.settle(page)
        for number in self.pages if changed is None else changed:
            if number in self.pages:
                self.settle(self.pages[number])

    def stop_waiting(self, operation: Operation) -> None:
        del self.waiting[operation.serial]
        for page in operation.pages():
            page.waiting.remove(operation.serial)
            self.settle(page)

    def is_stuck(self, operation: Operation) -> bool:
        """Nothing can change any more for the first waiting operation."""
        first = next(iter(self.waiting)) == operation.serial
        busy = self.moves or self.running or self.used < self.frames
        return first and not busy and self.first_to_leave((WAITING, operation.serial)) is None

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        operation = self.waiting.get(serial)
        if not operation:
            return RUN, 0
        missing = [page for page in operation.pages() if page.state != RESIDENT]
        moving = any(page.state != ABSENT for page in missing)
        hopeless = all(page.failures >= FAILURES_MOST for page in missing)
        if missing and (moving or not (at_once or hopeless or self.is_stuck(operation))):
            self.sums.late_operations += not operation.late
            operation.late = True
            return HOLD, 0
        self.stop_waiting(operation)
        for page in operation.pages():
            if page.state == ABSENT and self.settings.faults:
                self.put(page, RESIDENT)
                self.sums.faulted_bytes += self.size
            page.failures = 0
            page.pins += 1
        self.mark(operation)
        self.running += 1
        self.sums.short_operations += bool(missing)
        return RUN_SHORT if missing else RUN, 0

    def retired(self, serial: int, duration_ns: int = 0) -> None:
        operation = self.operations.pop(serial, None)
        if not operation:
            return
        if serial in self.waiting:
            self.stop_waiting(operation)
            return
        self.running -= 1
        for page in operation.pages():
            page.pins -= 1
            self.settle(page)

    # --- moves ---

    def next(self, lane: int) -> Move | None:
        return self.fill() if lane == LANE_IN else self.evict()

    def fill(self) -> Move | None:
        if self.used >= self.frames or not self.coming:
            return None
        page = self.pages[self.coming[0][-1]]
        time = self.time(page)
        flags = self.coming_flags(page, time)
        most = min(self.run, self.frames - self.used)
        pages: list[Page] = []
        for other in self.following(page):
            wanted = other.comes and self.time(other) == time
            if len(pages) == most or not wanted or self.coming_flags(other, time) != flags:
                break
            pages.append(other)
        return self.give_out(pages, FILL, flags, time)

    def coming_flags(self, page: Page, time: Time) -> int:
        kind, when = time
        if kind == WAITING:
            return self.fill_flags(page, self.waiting[when].does[page], True)
        return self.fill_flags(page, self.sequence.past[when].does[page.number], False)

    def evict(self) -> Move | None:
        spare = self.frames - (self.used - self.count[EVICTING])
        if spare >= min(self.near, len(self.coming)):
            return None
        first: Time = WAITING, next(iter(self.waiting), 0)
        wanted = first if spare < 0 else self.coming[spare][:2]
        page = self.first_to_leave(wanted)
        if not page:
            return None

        def kind(other: Page) -> tuple[object, ...]:
            return other.may_leave(), self.time(other), other.live, other.dirty

        pages: list[Page] = []
        for other in self.following(page):
            if len(pages) == self.run or kind(other) != kind(page):
                break
            pages.append(other)
        return self.give_out(pages, EVICT, self.evict_flags(page), wanted)

    def give_out(self, pages: list[Page], kind: int, flags: int, wanted: Time) -> Move:
        flags |= EARLY if wanted[0] == PREDICTED else 0
        start, size = pages[0].number * self.size, len(pages) * self.size
        move = Move(next(self.ids), start, size, 0, 0, kind, flags)
        self.moves[move.id] = move
        for page in pages:
            self.put(page, FILLING if kind == FILL else EVICTING)
            page.move = move.id
            self.settle(page)
        return move

    def moved(self, move: int, ok: bool = True) -> None:
        done = self.moves.pop(move, None)
        if not done:
            return
        pages = [page for page in self.span(done.start, done.bytes) if page.move == move]
        for page in pages:
            page.move = 0
            self.put(page, RESIDENT if (done.kind == FILL) == ok else ABSENT)
            page.failures = 0 if ok else page.failures + 1
            if ok:
                page.dirty = False
                if done.kind == EVICT:
                    self.sums.useless_bytes += self.size * page.untouched
                    page.untouched = False
                elif done.flags & DEAD:
                    page.live = False
                else:
                    page.untouched = True
            self.settle(page)
        if ok:
            size = self.size * len(pages)
            self.count_move(done, size)
            if done.flags & EARLY and done.kind == FILL and not done.flags & DEAD:
                self.sums.early_bytes += size

    def stats(self) -> Stats:
        sums = super().stats()
        sums.predicted, sums.surprises = self.sequence.predicted, self.sequence.surprises
        return sums
