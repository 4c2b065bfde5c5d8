"""Sets of bytes: sorted ranges that neither overlap nor meet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RUNS_MAX = 1 << 22
"""A tensor with more runs counts as one run from its first byte to its last."""


@dataclass(frozen=True)
class Ranges:
    """Addresses from `start` up to, and without, `end`."""

    start: Ints
    end: Ints

    @staticmethod
    def of(start: npt.ArrayLike, end: npt.ArrayLike) -> Ranges:
        """The union of ranges in any order; those that are empty count for nothing."""
        first, last = np.asarray(start, dtype=np.int64), np.asarray(end, dtype=np.int64)
        some = last > first
        first, last = first[some], last[some]
        order = np.argsort(first, kind="stable")
        first, last = first[order], np.maximum.accumulate(last[order])
        fresh = np.ones(len(first), dtype=np.bool_)
        fresh[1:] = first[1:] > last[:-1]
        return Ranges(first[fresh], last[np.append(fresh[1:], True)] if len(last) else last)

    @staticmethod
    def union(sets: Iterable[Ranges]) -> Ranges:
        """The union of sets."""
        every = list(sets)
        none = np.zeros(0, dtype=np.int64)
        return Ranges.of(
            np.concatenate([none, *(each.start for each in every)]),
            np.concatenate([none, *(each.end for each in every)]),
        )

    @property
    def bytes(self) -> int:
        """How many bytes are in the set."""
        return int((self.end - self.start).sum())

    def hull(self) -> Ranges:
        """From the first byte to the last."""
        return Ranges(self.start[:1], self.end[-1:])

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges.union([self, other])

    def __and__(self, other: Ranges) -> Ranges:
        points, mine, its = self._cut(other)
        return Ranges._pieces(points, mine & its)

    def __sub__(self, other: Ranges) -> Ranges:
        points, mine, its = self._cut(other)
        return Ranges._pieces(points, mine & ~its)

    def _cut(self, other: Ranges) -> tuple[Ints, Bools, Bools]:
        """All bounds of both, and which of the two hold what lies between neighbours."""
        points = np.unique(np.concatenate([self.start, self.end, other.start, other.end]))
        return points, self._holds(points[:-1]), other._holds(points[:-1])

    def _holds(self, points: Ints) -> Bools:
        begun = np.searchsorted(self.start, points, side="right")
        return begun > np.searchsorted(self.end, points, side="right")

    @staticmethod
    def _pieces(points: Ints, kept: Bools) -> Ranges:
        return Ranges.of(points[:-1][kept], points[1:][kept])


NONE = Ranges.of([], [])


def elements(start: int, itemsize: int, sizes: Sequence[int], strides: Sequence[int]) -> Ranges:
    """The bytes of a strided tensor's elements. Strides count elements and are not negative."""
    if 0 in sizes:
        return NONE
    run = itemsize
    outer: list[tuple[int, int]] = []
    for stride, size in sorted(zip(strides, sizes, strict=True)):
        step = stride * itemsize
        if not outer and step <= run:
            run += (size - 1) * step
        elif size > 1:
            outer.append((step, size))
    if prod(size for _, size in outer) > RUNS_MAX:
        run += sum((size - 1) * step for step, size in outer)
        outer.clear()
    at = np.array([start], dtype=np.int64)
    for step, size in outer:
        at = (at[:, None] + step * np.arange(size, dtype=np.int64)).ravel()
    return Ranges.of(at, at + run)
