"""The sequence learnt: what the program will touch next, and the rules for it.

`docs/engine-rules.md` has the terms.

The history holds the last 2^18 operations at most, and 2^22 pages touched by them at most; older
ones are dropped. An operation with more pages than that empties it. Of an operation it has the
key, and what was done to which page.

- of one kind: two operations with equal keys.
- age of a page, at an operation: how many operations ago it was touched (whether the history still
  has that one or not); 65 if more, or never. Rare page: of age 65.
- telling run, of an operation: of its runs of adjacent pages the one with most rare pages; of
  these the one with the oldest page; of these the longest; of these the first.
- alike: two operations of one kind whose telling runs begin at the same page. (The C compares a
  hash of both.)
- likeness, of a position a with a later b: a sum over a - n and b - n, for n from 0 to 63, as long
  as both are of one kind and the history has them. If they are alike, the one at b - n counts 64
  for every rare page of its telling run, or 1 if it has none; else 0.

A candidate is one of the latest 16 positions before now that are alike the operation at now. A
candidate is *as good as* a likeness k if its own with now is at least k - k/8. The best likeness
is the greatest of the candidates'.

If p has been dropped from the history, or it was emptied: off track. Then at an operation:

1. Not of one kind with the one after p, on track: a surprise. The first of p + 2 to p + 65 (before
   now) that is alike the operation at now is the new p.
2. A search, if 1 found none, and the operation is not alike the one after p (or the engine is off
   track); but not if this rule made one at the 15 operations before. (One off track that found
   nothing does not count.) The latest candidate that is as good as the best, and on track good
   enough, is the new p, a start. Good enough is what exceeds the likeness t of the track:
   - If the operation is of one kind with the one after p, t is the likeness of p + 1 with now. The
     candidate's must be more than t + t/8 + 63: by an eighth and a rare page.
   - Else t is the likeness of p with the operation before now. The candidate's must be more than t
     + t/8.
3. A nearer period: else, if on track, alike the one after p, and exactly 64, 128, 256 and so on
   (powers of two) operations before it were predicted in a row, by rule 4, since the track began.
   The latest candidate that is as good as the best, and as good as the likeness of p + 1 with now,
   is the new p, a start, if that is not p + 1.
4. Expected: else, on track and of one kind with the one after p: p + 1 is the new p, and the
   operation was predicted.
5. Inserted: else, on track: p stays. After 16 such in a row, with none of 1 to 4 finding a new p
   between: off track, and nothing is predicted.
"""

from bisect import bisect_right
from collections.abc import Collection
from typing import NamedTuple

OPERATIONS_MOST = 1 << 18
TOUCHED_MOST = 1 << 22
BACK_MOST = 64
MARGIN = 8
CANDIDATES = 16
FURTHER = 64
INSERTED_MOST = 16
SEARCH_EVERY = 16
GAP_MOST = 64


class Past(NamedTuple):
    """An operation of the history. `does`: what it does to each page, by number; `live`: pages that
    are once it runs, and those that it leaves dead."""

    key: int
    does: dict[int, int]
    live: int


class Sequence:
    """The history, and where in it the program is: p, or None when off track."""

    def __init__(self) -> None:
        self.past: dict[int, Past] = {}  # by position, oldest first
        self.touched = 0  # pages of all of them
        self.touches: dict[int, list[int]] = {}  # page -> positions
        self.latest: dict[int, int] = {}  # page -> position, forgotten or not
        self.births: dict[int, int] = {}  # page -> position of the last first touch after a death
        self.between: dict[int, int] = {}  # position -> dead pages touched soon before and after
        self.weights: dict[int, int] = {}  # by position, in a likeness
        self.marks: dict[int, tuple[int, int]] = {}
        self.same: dict[tuple[int, int], list[int]] = {}
        self.p: int | None = None
        self.inserted = 0
        self.search_at = 0
        self.steady = 0  # operations in a row that were expected
        self.predicted = 0
        self.surprises = 0

    @property
    def newest(self) -> int:
        """The last position; there is one."""
        return next(reversed(self.past))

    def next(self, page: int) -> int | None:
        """The position that the next touch of a page repeats; None: unknown."""
        if self.p is None:
            return None
        positions = self.touches.get(page, [])
        i = bisect_right(positions, self.p)
        return positions[i] if i < len(positions) else None

    def once(self, page: int) -> Past | None:
        """The only operation that touches a page from the next one on; None: there are more."""
        position = self.next(page)
        if position is None or position != self.touches[page][-1]:
            return None
        return self.past[position]

    def issued(
        self, now: int, past: Past, staying: Collection[int], born: Collection[int]
    ) -> Collection[int] | None:
        """Enters an operation. The pages whose next touch may be another now; None: of all.

        `staying`: dead pages that keep their frames if they were touched shortly before; `born`:
        pages that died since they were touched before.
        """
        kept = self.append(now, past, staying)
        if kept:
            self.births.update(dict.fromkeys(born, now))
        lost = self.p is not None and (not kept or self.p not in self.past)
        if lost:
            self.p = None
        changed = self.follow(now) if kept else ()
        return None if lost else changed

    def live(self, first: int, end: int) -> list[int]:
        """Live pages, and dead ones between touches, at positions [first, end), if what followed p
        comes again: as many more as live ones there are now, more than at p."""
        assert self.p is not None
        more = self.past[self.newest].live - self.past[self.p].live
        return [
            self.past[position].live + self.between.get(position, 0) + more
            for position in range(first, end)
        ]

    def append(self, now: int, past: Past, staying: Collection[int]) -> bool:
        """False: it alone is more than the history holds, which is empty then."""
        while self.past and len(self.past) >= OPERATIONS_MOST:
            self.drop()
        while self.past and self.touched + len(past.does) > TOUCHED_MOST:
            self.drop()
        if len(past.does) > TOUCHED_MOST:
            return False
        self.past[now] = past
        self.touched += len(past.does)
        oldest = max(now - GAP_MOST, next(iter(self.past)))
        for seen in (self.latest.get(page, 0) for page in staying):
            for position in range(seen + 1, now) if seen >= oldest else ():
                self.between[position] = self.between.get(position, 0) + 1
        first, rare = self.telling_run(now, past)
        mark = past.key, first
        self.weights[now] = BACK_MOST * rare or 1
        self.latest.update(dict.fromkeys(past.does, now))
        self.marks[now] = mark
        self.same.setdefault(mark, []).append(now)
        for page in past.does:
            self.touches.setdefault(page, []).append(now)
        return True

    def telling_run(self, now: int, past: Past) -> tuple[int, int]:
        """Of adjacent pages those that tell most: most rare ones, then the oldest one, then
        most; the first of these. Its first page, and how many are rare: not
        touched at the 64 operations before."""
        best = (0, 0, 0, 0)  # rare, age, pages, first
        first = pages = rare = age = 0
        for page in past.does:
            if page != first + pages:
                first, pages, rare, age = page, 0, 0, 0
            pages += 1
            old = min(now - self.latest.get(page, -BACK_MOST), BACK_MOST + 1)
            rare += old > BACK_MOST
            age = max(age, old)
            best = best if best[:3] >= (rare, age, pages) else (rare, age, pages, first)
        return best[3], best[0]

    def drop(self) -> None:
        """Forgets the oldest operation."""
        position = next(iter(self.past))
        past = self.past.pop(position)
        self.between.pop(position, None)
        del self.weights[position]
        self.touched -= len(past.does)
        self.same[self.marks.pop(position)].remove(position)
        for page in past.does:
            self.touches[page].remove(position)

    def alike(self, a: int, b: int) -> bool:
        """Of one kind, and the runs that tell most begin alike."""
        return self.marks[a] == self.marks[b]

    def likeness(self, a: int, b: int) -> int:
        """The weight of what is alike, of two positions, a before b, and back from there."""
        weight = 0
        for n in range(BACK_MOST):
            if a - n not in self.past or self.past[a - n].key != self.past[b - n].key:
                break
            if self.alike(a - n, b - n):
                weight += self.weights[b - n]
        return weight

    def search(self, now: int, more: int) -> int | None:
        """The latest with as good as the greatest likeness with now, if that is more."""
        positions = self.same[self.marks[now]][:-1][-CANDIDATES:]
        likeness = {position: self.likeness(position, now) for position in positions}
        most = max(likeness.values(), default=0)
        good = max(more + 1, most - most // MARGIN)
        return max((position for position in positions if likeness[position] >= good), default=None)

    def look_further(self, p: int, now: int) -> int | None:
        """The first of p + 2 to p + 65 that is alike the operation at now."""
        positions = range(p + 2, min(p + 2 + FURTHER, now))
        return next((position for position in positions if self.alike(position, now)), None)

    def follow(self, now: int) -> Collection[int] | None:
        """The rules. Returns what `issued` does."""
        p, this = self.p, self.past[now]
        expected = p is not None and self.past[p + 1].key == this.key
        found = None
        if p is not None and not expected:
            self.surprises += 1
            found = self.look_further(p, now)
        alike = p is not None and expected and self.alike(p + 1, now)
        if not alike and found is None and now >= self.search_at:
            track = 0
            if p is not None:
                track = self.likeness(p + 1, now) if expected else self.likeness(p, now - 1)
            more = BACK_MOST - 1 if expected else 0
            start = self.search(now, track + track // MARGIN + more)
            if p is not None or start is not None:
                self.search_at = now + SEARCH_EVERY
            if start is not None:
                self.p, self.inserted, self.steady = start, 0, 0
                return None
        elif p is not None and alike and self.steady >= BACK_MOST and self.steady.bit_count() == 1:
            track = self.likeness(p + 1, now)
            nearest = self.search(now, track - track // MARGIN - 1)
            if nearest not in (None, p + 1):
                self.p, self.inserted, self.steady = nearest, 0, 0
                return None
        if p is None:
            return ()
        if expected:
            self.predicted += 1
            found = p + 1
            self.steady += 1
        else:
            self.steady = 0
        if found is None:
            self.inserted += 1
            if self.inserted == INSERTED_MOST:
                self.p, self.inserted = None, 0
                return None
            return this.does
        self.p, self.inserted = found, 0
        passed = range(p + 1, found + 1)
        return {page for i in passed for page in self.past[i].does} | set(this.does)
