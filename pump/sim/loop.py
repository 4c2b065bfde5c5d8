"""The step of a program: the operations that repeat, and on the same memory."""

from collections import Counter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pump.trace.trace import Rows

Ints = npt.NDArray[np.int64]

LEAST_RUN = 8
"""Operations: what repeats for less is no step."""
CANDIDATES = 64
"""Latest operations of a kind whose distances to the last may be a step's length."""
AS_GOOD = 7 / 8
"""A loop that finds so much again, of what the best one does, is as good."""
LASTING_LEAST = 3 / 4
"""Share that a step finds again of what it touches of blocks that live as long as two steps."""
AGAIN_LEAST = 1 / 4
"""Share that a step finds again of its memory, or of all that lives through it."""


class Loop(NamedTuple):
    """Operations [end - length, end) are the same as those before them."""

    end: int
    length: int


class Again(NamedTuple):
    """How much memory a step touches where the step before did, each range once."""

    bytes: int
    enough: bool  # to be a step


class Lives(NamedTuple):
    """Blocks, in order of address, and the serials from and until which they lived."""

    starts: Ints
    ends: Ints
    born: Ints
    gone: Ints

    def lasting(self, begin: int, end: int) -> "Lives":
        """Those that lived from one serial to the other."""
        stayed = (self.born < begin) & (self.gone > end)
        return Lives(*(each[stayed] for each in self))

    def hold(self, addresses: Ints) -> npt.NDArray[np.bool_]:
        """Whether each lies in one of them, which do not overlap."""
        if not len(self.starts):
            return np.zeros(len(addresses), dtype=np.bool_)
        at = np.searchsorted(self.starts, addresses, side="right") - 1
        inside: npt.NDArray[np.bool_] = (at >= 0) & (addresses < self.ends[at.clip(min=0)])
        return inside


class Told:
    """What operations did: their serials, and the touches of all in order."""

    def __init__(self, serials: Ints, touches: list[Rows], lives: Lives) -> None:
        every = np.concatenate(touches, dtype=touches[0].dtype)  # else found pair by pair
        known = every["allocation"] != 0
        self.serials, self.lives = serials, lives
        self.operation = np.repeat(np.arange(len(touches)), [len(each) for each in touches])[known]
        self.start = every["start"][known].astype(np.int64)
        self.bytes = every["bytes"][known].astype(np.int64)
        starts, number = np.unique(self.start, return_inverse=True)
        self.starts = len(starts)
        self.place = self.operation * self.starts + number  # which operation touches which start

    def again(self, loop: Loop) -> Again:
        """Compares the loop's last step with the one before.

        What lives no longer than the two need not lie where it did, as activations do not: what
        lasts tells. So a layer is no step, because the layer before has other weights.
        """
        begin, middle = loop.end - 2 * loop.length, loop.end - loop.length
        lasting = self.lasting(begin, loop.end)
        first, now, end = np.searchsorted(self.operation, (begin, middle, loop.end))
        before = self.place[first:now] + loop.length * self.starts
        start, once = np.unique(self.start[now:end], return_index=True)
        size, lasts = self.bytes[now:end][once], lasting.hold(start)
        same = np.isin(self.place[now:end][once], before)
        found, touched = int(size[same].sum()), int(size.sum())
        held = self.lasting(middle, loop.end)
        there = min(touched, int((held.ends - held.starts).sum()))
        tells = int(size[same & lasts].sum()) >= LASTING_LEAST * int(size[lasts].sum())
        return Again(found, tells and found >= AGAIN_LEAST * there)

    def lasting(self, begin: int, end: int) -> Lives:
        """What lived through operations [begin, end)."""
        return self.lives.lasting(int(self.serials[begin]), int(self.serials[end - 1]))

    def distances(self, keys: Ints) -> list[int]:
        """How far back lies what is alike: an operation of the same key, with the same largest
        range. The commonest."""
        order = np.lexsort((-self.bytes, self.operation))
        operation, first = np.unique(self.operation[order], return_index=True)
        largest = self.start[order][first]
        order = np.lexsort((operation, largest, keys[operation]))
        alike = (np.diff(keys[operation][order]) == 0) & (np.diff(largest[order]) == 0)
        found = Counter(np.diff(operation[order])[alike].tolist())
        return [length for length, _ in found.most_common(CANDIDATES)]


def lengths_of(keys: Ints) -> set[int]:
    """How far back lie operations of the keys of the last ones."""
    lengths: set[int] = set()
    for key in np.unique(keys).tolist():
        at = np.flatnonzero(keys == key)[-CANDIDATES:]
        lengths.update((at[-1] - at[:-1]).tolist())
    return lengths


def longest_run(keys: Ints, length: int) -> tuple[int, Loop]:
    """Of operations whose keys are those `length` before; the latest of the longest."""
    differs = np.flatnonzero(keys[length:] != keys[:-length])
    edges = np.concatenate([[-1], differs, [len(keys) - length]])
    runs = np.diff(edges) - 1
    last = len(runs) - 1 - int(np.argmax(runs[::-1]))
    return int(runs[last]), Loop(int(edges[last + 1]) + length, length)


def find_loop(keys: Ints, told: Told) -> Loop | None:
    """Of what repeats on about the most memory, what repeats longest, then the shortest; None:
    nothing repeats.
    """
    found: list[tuple[int, int, Loop]] = []
    for length in sorted(lengths_of(keys) | set(told.distances(keys))):
        run, loop = longest_run(keys, length)
        again = told.again(loop) if run >= max(length, LEAST_RUN) else Again(0, False)
        if again.enough:
            found.append((again.bytes, run, loop))
    most = max((size for size, _, _ in found), default=0)
    good = [(run, -loop.length, loop) for size, run, loop in found if size >= AS_GOOD * most]
    return max(good)[-1] if good else None


def starts_of(keys: Ints, loop: Loop) -> list[int]:
    """Where the steps begin that end with the loop, one behind the other."""
    starts = [loop.end - loop.length]
    while (before := starts[0] - loop.length) >= 0 and np.array_equal(
        keys[before : starts[0]], keys[loop.end - loop.length : loop.end]
    ):
        starts.insert(0, before)
    return starts
