"""The ordered policies in plain Python."""

from collections import Counter, deque

from pump.sim.engine import (
    EVICT,
    FILL,
    LANE_IN,
    LANE_OUT,
    RUN,
    RUN_SHORT,
    Move,
    Settings,
)
from tests.reference.engine import ABSENT, RESIDENT, Operation, Page, Reference


class Ordered(Reference):
    """Everything is decided when an operation is issued; the device keeps the order."""

    def __init__(self, settings: Settings, *, fills: bool, lean: bool, lanes: bool) -> None:
        super().__init__(settings)
        self.fills = fills
        self.lean = lean  # no bytes where they are not needed
        self.out = LANE_OUT if lanes else LANE_IN
        self.window: dict[int, Operation] = {}
        self.windowed: Counter[Page] = Counter()  # how many of the window's operations touch it
        self.lanes: tuple[deque[Move], deque[Move]] = (deque(), deque())

    def decide(self, operation: Operation) -> None:
        after = self.enter_window(operation) if self.fills else 0
        missing = [page for page in operation.does if page.state == ABSENT]
        want = max(0, self.used + len(missing) - self.frames)
        leaving = [self.pages[key[-1]] for key in self.leaving]
        victims = [page for page in leaving if page not in operation.does][:want]
        operation.short = len(victims) < want
        evicts = Chain(self, EVICT)
        freed = []
        for page in victims:
            last = page.touched if page.touched in self.operations else 0
            flags = self.evict_flags(page) if self.lean else 0
            freed.append(evicts.extend(page, flags, max(after, last), 0))
            self.put(page, ABSENT)
            page.dirty = False
            self.settle(page)
        frames = [0] * (len(missing) - want) + freed[max(0, want - len(missing)) :]
        fills = Chain(self, FILL)
        for i, page in enumerate(missing):
            if i >= len(frames) and not self.settings.faults:
                continue
            flags = self.fill_flags(page, operation.does[page]) if self.lean else 0
            if self.fills:
                fills.extend(page, flags, after, frames[i] if i < len(frames) else 0)
            else:
                self.sums.faulted_bytes += self.size
            self.put(page, RESIDENT)
        made = evicts.moves + fills.moves
        for move in made:
            lane = self.out if move.kind == EVICT else LANE_IN
            self.lanes[lane].append(move)
        operation.wait = made[-1].id if made else 0
        for page in operation.does:
            page.touched = operation.serial
        self.mark(operation)
        self.sums.short_operations += operation.short

    def enter_window(self, operation: Operation) -> int:
        """Step 1: the serial of the last operation that leaves the window now; 0: none does."""
        after = 0
        self.windowed.update(operation.does.keys())
        while self.window and len(self.windowed) > self.frames:
            after = next(iter(self.window))
            self.leave_window(after)
        self.window[operation.serial] = operation
        return after

    def leave_window(self, serial: int) -> None:
        for page in self.window.pop(serial).pages():
            self.windowed[page] -= 1
            if not self.windowed[page]:
                del self.windowed[page]

    def freed(self, start: int, size: int) -> None:
        for page in self.span(start, size) if size else ():
            self.windowed.pop(page, None)
        super().freed(start, size)

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        operation = self.operations.get(serial)
        if not operation:
            return RUN, 0
        return RUN_SHORT if operation.short else RUN, operation.wait

    def retired(self, serial: int, now: int = 0) -> None:
        if self.operations.pop(serial, None) and serial in self.window:
            self.leave_window(serial)

    def next(self, lane: int) -> Move | None:
        if not self.lanes[lane]:
            return None
        move = self.lanes[lane].popleft()
        self.moves[move.id] = move
        return move

    def moved(self, move: int, ok: bool = True) -> None:
        done = self.moves.pop(move, None)
        if done and ok:
            self.count_move(done, done.bytes)


class Chain:
    """The moves of one kind that an operation makes; pages in a row become one."""

    def __init__(self, engine: Ordered, kind: int) -> None:
        self.engine = engine
        self.kind = kind
        self.moves: list[Move] = []

    def extend(self, page: Page, flags: int, after: int, needs: int) -> int:
        """Takes a page into the last move or a new one. Returns the move's id."""
        size, start = self.engine.size, page.number * self.engine.size
        if self.moves:
            last = self.moves[-1]
            alike = (last.start + last.bytes, last.flags, last.after) == (start, flags, after)
            linked = needs == last.needs or (last.needs and needs == last.needs + 1)
            if alike and linked and last.bytes < self.engine.run * size:
                self.moves[-1] = last._replace(bytes=last.bytes + size, needs=needs)
                return last.id
        move = Move(next(self.engine.ids), start, size, after, needs, self.kind, flags)
        self.moves.append(move)
        return move.id
