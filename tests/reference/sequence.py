"""The sequence learnt: what the program will touch next (csrc/engine/README.md, "The sequence")."""

from bisect import bisect_right
from collections.abc import Collection
from typing import NamedTuple

OPERATIONS_MOST = 1 << 18
TOUCHED_MOST = 1 << 22
COMMON_MOST = 16
CANDIDATES = 64
FURTHER = 64
INSERTED_MOST = 16
SEARCH_EVERY = 64


class Past(NamedTuple):
    """An operation of the history. `does`: what it does to each page, by number."""

    key: int
    does: dict[int, int]

    @property
    def weak(self) -> tuple[int, int]:
        return self.key, len(self.does)

    @property
    def strong(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        return self.key, tuple(self.does.items())


class Sequence:
    """The history, and where in it the program is: p, or None when off track."""

    def __init__(self) -> None:
        self.past: dict[int, Past] = {}  # by position, oldest first
        self.touched = 0  # pages of all of them
        self.touches: dict[int, list[int]] = {}  # page -> positions
        self.same: dict[tuple[int, tuple[tuple[int, int], ...]], list[int]] = {}
        self.p: int | None = None
        self.inserted = 0
        self.search_at = 0
        self.predicted = 0
        self.surprises = 0

    def next(self, page: int) -> int | None:
        """The position that the next touch of a page repeats; None: unknown."""
        if self.p is None:
            return None
        positions = self.touches.get(page, [])
        i = bisect_right(positions, self.p)
        return positions[i] if i < len(positions) else None

    def issued(self, now: int, key: int, does: dict[int, int]) -> Collection[int] | None:
        """Enters an operation. The pages whose next touch may be another now; None: of all."""
        kept = self.append(now, Past(key, does))
        lost = self.p is not None and (not kept or self.p not in self.past)
        if lost:
            self.p = None
        changed = self.follow(now) if kept else ()
        return None if lost else changed

    def append(self, now: int, past: Past) -> bool:
        """False: it alone is more than the history holds, which is empty then."""
        while self.past and len(self.past) >= OPERATIONS_MOST:
            self.drop()
        while self.past and self.touched + len(past.does) > TOUCHED_MOST:
            self.drop()
        if len(past.does) > TOUCHED_MOST:
            return False
        self.past[now] = past
        self.touched += len(past.does)
        self.same.setdefault(past.strong, []).append(now)
        for page in past.does:
            self.touches.setdefault(page, []).append(now)
        return True

    def drop(self) -> None:
        """Forgets the oldest operation."""
        position = next(iter(self.past))
        past = self.past.pop(position)
        self.touched -= len(past.does)
        self.same[past.strong].remove(position)
        for page in past.does:
            self.touches[page].remove(position)

    def equal(self, a: int, b: int) -> bool:
        """Strongly."""
        return self.past[a] == self.past[b]

    def common(self, a: int, b: int) -> int:
        """The common past of two positions, a before b."""
        n = 0
        while n < COMMON_MOST and a - n in self.past and self.equal(a - n, b - n):
            n += 1
        return n

    def search(self, now: int, longer: int) -> int | None:
        """The position with the longest common past with now, if that is longer."""
        found = None
        for position in reversed(self.same[self.past[now].strong][:-1][-CANDIDATES:]):
            common = self.common(position, now)
            if common > longer:
                found, longer = position, common
        return found

    def look_further(self, p: int, now: int) -> int | None:
        """The first of p + 2 to p + 65 that the operation at now repeats."""
        positions = range(p + 2, min(p + 2 + FURTHER, now))
        return next((position for position in positions if self.equal(position, now)), None)

    def follow(self, now: int) -> Collection[int] | None:
        """The five rules. Returns what `issued` does."""
        p, this = self.p, self.past[now]
        strong = p is not None and self.equal(p + 1, now)
        weak = p is not None and self.past[p + 1].weak == this.weak
        found = None
        if p is not None and not weak:
            self.surprises += 1
            found = self.look_further(p, now)
        if not strong and found is None and now >= self.search_at:
            start = self.search(now, 0 if p is None else self.common(p, now - 1))
            if start is not None:
                self.p, self.inserted, self.search_at = start, 0, now + SEARCH_EVERY
                return None
        if p is None:
            return ()
        if weak:
            self.predicted += 1
            found = p + 1
        if found is None:
            self.inserted += 1
            if self.inserted == INSERTED_MOST:
                self.p, self.inserted = None, 0
                return None
            return this.does
        self.p, self.inserted = found, 0
        passed = range(p + 1, found + 1)
        return {page for i in passed for page in self.past[i].does} | set(this.does)
