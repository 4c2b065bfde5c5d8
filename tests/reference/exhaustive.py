"""The least time of an iteration, by trying everything: for periods of a few pages and operations.

Time is whole ticks. At each, any page may begin to come or leave, any valid copy may be dropped,
and the operation may start or not; the least mean over all cycles of what then happens is found.
Where pages may be used in place an operation may start with some that only the host has: while it
runs their bytes go over the link, whose ways it then has for itself until they are there.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pump.predict.oracle import Use, uses_of
from pump.sim.period import Period

HOST, CLEAN, DIRTY, DEAD, COMING, LEAVING = range(6)
"""Of a page: only the host has it; the host has it too; only the device; nobody needs it."""


class State(NamedTuple):
    """Between two ticks."""

    operation: int
    left: int  # ticks of it; 0: not started
    pages: tuple[int, ...]
    into: int  # ticks of the page that comes
    out: int


class Search:
    """A period, a budget in pages, and the ticks a page takes in and out, in place, too."""

    def __init__(
        self, period: Period, budget: int, ticks: tuple[int, int], in_place: bool = False
    ) -> None:
        self.uses, self.durations = uses_of(period), period.durations
        self.budget, self.ticks, self.in_place = budget, ticks, in_place
        fresh: dict[int, bool] = {}
        for row in reversed(self.uses):
            fresh |= {use.page: use.fresh for use in row}
        pages = tuple(DEAD if fresh[p] else HOST for p in range(period.pages))
        self.first = State(0, 0, pages, 0, 0)

    def iterations(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Least ticks of an iteration from each state at its start to each at its end."""
        found, rows = {self.first: 0}, []
        queue = [self.first]
        for state in queue:
            ends = self.ends(state)
            for end in ends:
                if end not in found:
                    found[end] = len(found)
                    queue.append(end)
            rows.append({found[end]: ticks for end, ticks in ends.items()})
        matrix = np.full((len(rows), len(rows)), np.inf)
        for i, row in enumerate(rows):
            matrix[i, list(row)] = list(row.values())
        return matrix

    def ends(self, start: State) -> dict[State, int]:
        """States in which an iteration from here may end, and the least ticks to each."""
        best, ends = {start: 0}, dict[State, int]()
        queue = deque([(start, 0)])
        while queue:
            state, ticks = queue.popleft()
            if best[state] < ticks:
                continue
            for after, more in self.after(state):
                if after.operation == 0 and state.operation == len(self.uses) - 1:
                    ends[after] = min(ends.get(after, ticks + more), ticks + more)
                elif ticks + more < best.get(after, 1 << 30):
                    best[after] = ticks + more
                    (queue.append if more else queue.appendleft)((after, ticks + more))
        return ends

    def after(self, state: State) -> Iterator[tuple[State, int]]:
        """What may be done now, for nothing; or a tick."""
        row = self.uses[state.operation]
        busy = {use.page for use in row} if state.left else set()
        frames = sum(page not in (HOST, DEAD) for page in state.pages)
        for p, page in enumerate(state.pages):
            if page == HOST and not state.into and frames < self.budget and p not in busy:
                yield self.put(state, p, COMING)._replace(into=self.ticks[0]), 0
            if page == DIRTY and not state.out and p not in busy:
                yield self.put(state, p, LEAVING)._replace(out=self.ticks[1]), 0
            if page == CLEAN and p not in busy:
                yield self.put(state, p, HOST), 0
        fresh = sum(use.fresh for use in row)
        if not state.left and frames + fresh <= self.budget and self.ready(state, row):
            yield self.started(state, row), 0
        yield self.tick(state, row), 1

    @staticmethod
    def put(state: State, page: int, what: int) -> State:
        return state._replace(pages=(*state.pages[:page], what, *state.pages[page + 1 :]))

    def ready(self, state: State, row: list[Use]) -> bool:
        into, out = self.placed(state, row)
        if (into and state.into) or (out and state.out):
            return False
        usable = (CLEAN, DIRTY, HOST) if self.in_place else (CLEAN, DIRTY)
        return all(use.fresh or state.pages[use.page] in usable for use in row)

    def placed(self, state: State, row: list[Use]) -> tuple[int, int]:
        """Ticks that what it uses in place takes each way."""
        there = [use for use in row if state.pages[use.page] == HOST]
        return self.ticks[0] * len(there), self.ticks[1] * sum(use.writes for use in there)

    def started(self, state: State, row: list[Use]) -> State:
        into, out = self.placed(state, row)
        for use in row:
            if (use.writes or use.fresh) and state.pages[use.page] != HOST:
                state = self.put(state, use.page, DIRTY)
        left = max(self.durations[state.operation], into, out)
        return state._replace(left=left, into=into or state.into, out=out or state.out)

    def tick(self, state: State, row: list[Use]) -> State:
        for lane, under_way, then in (("into", COMING, CLEAN), ("out", LEAVING, HOST)):
            left = getattr(state, lane)
            if left == 1 and under_way in state.pages:  # else they are bytes of pages in place
                state = self.put(state, state.pages.index(under_way), then)
            state = state._replace(**{lane: max(0, left - 1)})
        if state.left == 1:
            for use in row:
                if use.dies:
                    state = self.put(state, use.page, DEAD)
            state = state._replace(operation=(state.operation + 1) % len(self.uses))
        return state._replace(left=max(0, state.left - 1))


def least_mean(matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
    """The least mean of a cycle of the graph with these lengths of edges (Karp)."""
    n = len(matrix)
    walks = np.full((n + 1, n), np.inf)
    walks[0, 0] = 0
    for k in range(n):
        walks[k + 1] = (walks[k][:, None] + matrix).min(axis=0)
    counts = (n - np.arange(n))[:, None]
    with np.errstate(invalid="ignore"):
        means = np.where(np.isfinite(walks[:n]), (walks[n] - walks[:n]) / counts, -np.inf)
    return float(np.min(means.max(axis=0)[np.isfinite(walks[n])]))


def least_of(matrix: np.ndarray[tuple[int, int], np.dtype[np.float64]], iterations: int) -> float:
    """The least length of so many edges in a row, from anywhere."""
    walk = np.zeros(len(matrix))
    for _ in range(iterations):
        walk = (walk[:, None] + matrix).min(axis=0)
    return float(walk.min())
