"""The ordered policies in plain Python, and their rules.

`docs/engine-rules.md` has the terms. Everything is decided when an operation is issued.

The fill window is the operations issued and not retired, without those that left it by step 1. At
the issue of X:

1. The window (`pump`). While its pages together with X's are more than the budget and it is
   not empty, its oldest operation leaves. `after` is the serial of the last that left now; 0 if
   none did, and with `none`. Then X enters.
2. The moves. m is how many pages of X are missing (absent); w = frames in use + m - budget, at
   least 0.
   - Who leaves: w of the resident pages that X does not touch, least recently touched first, then
     lowest address. If there are fewer, fewer leave, and X is short.
   - Evict moves: their `after` is the later of the page's last touch (if that operation is not
     retired) and step 1's `after`.
   - Who comes: the missing pages, in order of address.
   - Fill moves: their `after` is step 1's. A page for which there is no frame, as too few left,
     comes with `faults` 1, and stays absent with `faults` 0.
   - `none` gives no fill moves: every page that comes counts as faulted.
   - Several pages are one move, up to `run_pages`, if each follows the one before in memory, and
     `after` is equal.
   - Numbers (ids) go first to the evict moves, in the order in which pages leave, then to the
     fills.
3. From then on the pages that came are resident, those that left absent and not dirty. X's pages
   are live, dirty and dead as by admission, now. `wait` is the last number given for X, 0 if none
   was.

`admit` says run, or run short if X is short, and `wait`. All moves go to the lane in, in order,
without flags. `moved` only counts bytes. Memory freed meanwhile stays in the moves that were made.
"""

from collections import Counter, deque

from pump.sim.engine import (
    EVICT,
    FILL,
    LANE_IN,
    RUN,
    RUN_SHORT,
    Move,
    Settings,
)
from tests.reference.engine import ABSENT, RESIDENT, Operation, Page, Reference


class Ordered(Reference):
    """Everything is decided when an operation is issued; the device keeps the order."""

    def __init__(self, settings: Settings, *, fills: bool) -> None:
        super().__init__(settings)
        self.fills = fills
        self.window: dict[int, Operation] = {}
        self.windowed: Counter[Page] = Counter()  # how many of the window's operations touch it
        self.lane: deque[Move] = deque()

    def decide(self, operation: Operation) -> None:
        after = self.enter_window(operation) if self.fills else 0
        missing = [page for page in operation.does if page.state == ABSENT]
        want = max(0, self.used + len(missing) - self.frames)
        leaving = [self.pages[key[-1]] for key in self.leaving]
        victims = [page for page in leaving if page not in operation.does][:want]
        operation.short = len(victims) < want
        evicts = Chain(self, EVICT)
        for page in victims:
            last = page.touched if page.touched in self.operations else 0
            evicts.extend(page, max(after, last))
            self.put(page, ABSENT)
            page.dirty = False
            self.settle(page)
        frames = len(victims) + len(missing) - want
        fills = Chain(self, FILL)
        for i, page in enumerate(missing):
            if i >= frames and not self.settings.faults:
                continue
            if self.fills:
                fills.extend(page, after)
            else:
                self.sums.faulted_bytes += self.size
            self.put(page, RESIDENT)
        made = evicts.moves + fills.moves
        self.lane.extend(made)
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
        if lane != LANE_IN or not self.lane:
            return None
        move = self.lane.popleft()
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

    def extend(self, page: Page, after: int) -> None:
        """Takes a page into the last move or a new one."""
        size, start = self.engine.size, page.number * self.engine.size
        if self.moves:
            last = self.moves[-1]
            alike = (last.start + last.bytes, last.after) == (start, after)
            if alike and last.bytes < self.engine.run * size:
                self.moves[-1] = last._replace(bytes=last.bytes + size)
                return
        self.moves.append(Move(next(self.engine.ids), start, size, after, self.kind, 0))
