"""What a step truly touched, as `tests/gpu/programs/truth.py` recorded it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.touches.ranges import Ints, Ranges, elements
from lab.touches.unread import Unread, excuse

ROUNDING = 512
"""PyTorch's allocator hands out multiples of this, in bytes."""
_ALWAYS = np.iinfo(np.int64).max


def given_back(role: str) -> bool:
    """Is it a result, and no argument?"""
    return role.startswith("return ")


@dataclass(frozen=True)
class Operand:
    """A tensor that an operation was given or gave back."""

    role: str
    """Its name in the operation's schema, or `return N`."""
    bytes: Ranges
    """Of its elements."""
    written: bool
    excused: Unread | None


@dataclass(frozen=True)
class Operation:
    """One operation of the dispatcher. Times in nanoseconds of CLOCK_MONOTONIC."""

    name: str
    thread: int
    begin: int
    end: int
    before: int
    """Blocks handed out or returned before it began."""
    after: int
    tensors: list[Any]
    """(role, address, itemsize, sizes, strides, written) of each."""

    @cached_property
    def operands(self) -> list[Operand]:
        """Its tensors."""
        roles = {tensor[0] for tensor in self.tensors}
        return [
            Operand(role, elements(*where), written, excuse(self.name, role, roles))
            for role, *where, written in self.tensors
        ]


@dataclass(frozen=True)
class Blocks:
    """Blocks of the caching allocator over time; one that is handed out again is another one."""

    start: Ints
    end: Ints
    """Without what the allocator added."""
    born: Ints
    """Position of the event that handed it out; -1: before the step."""
    died: Ints

    def __getitem__(self, chosen: npt.NDArray[np.bool_]) -> Blocks:
        return Blocks(self.start[chosen], self.end[chosen], self.born[chosen], self.died[chosen])

    def live(self, operation: Operation) -> npt.NDArray[np.bool_]:
        """Which are there at some time during an operation."""
        return (self.born < operation.after) & (self.died >= operation.before)

    def with_tensors(self, operation: Operation) -> npt.NDArray[np.bool_]:
        """Which hold a tensor that the operation was given or gave back.

        What it was given was there before it; what it gave back may lie where a temporary of its
        was.
        """
        at = {
            back: np.array([t[1] for t in operation.tensors if given_back(t[0]) == back], np.int64)
            for back in (False, True)
        }
        given = (self.born < operation.before) & (self.died >= operation.before)
        returned = (self.born < operation.after) & (self.died >= operation.after)
        return given & self.holding(at[False]) | returned & self.holding(at[True])

    def holding(self, points: Ints) -> npt.NDArray[np.bool_]:
        """Which hold one of the points."""
        order = np.sort(points)
        return np.searchsorted(order, self.start) < np.searchsorted(order, self.end)

    @property
    def bytes(self) -> Ranges:
        """All of them."""
        return Ranges.of(self.start, self.end)

    @property
    def rounding(self) -> Ranges:
        """What lies between their ends and the next multiple of the allocator's unit."""
        return Ranges.of(self.end, -(-self.end // ROUNDING) * ROUNDING)


@dataclass(frozen=True)
class Truth:
    """A recorded step."""

    begin: int
    end: int
    operations: list[Operation]
    """In the order in which they began."""
    blocks: Blocks
    known: npt.NDArray[np.bool_]
    """Which blocks hold a tensor that the program knows; the others are workspaces."""
    segments: Ranges
    """All memory that the caching allocator has."""
    agrees: bool
    """The allocator's history is as long as its counters say."""


def read_truth(path: Path) -> Truth:
    """Reads a recorded step. Raises OSError, ValueError or KeyError for what is none."""
    return truth_of(json.loads(path.read_text(encoding="utf-8")))


def truth_of(recorded: dict[str, Any]) -> Truth:
    """The step that `record` returned."""
    operations = [Operation(**each) for each in recorded["operations"]]
    operations.sort(key=lambda operation: operation.begin)
    blocks = _blocks(recorded["blocks"], recorded["events"])
    segments = np.array(recorded["segments"], dtype=np.int64).reshape(-1, 2)
    return Truth(
        begin=recorded["begin"],
        end=recorded["end"],
        operations=operations,
        blocks=blocks,
        known=_known(blocks, recorded["held"], operations),
        segments=Ranges.of(segments[:, 0], segments.sum(axis=1)),
        agrees=recorded["events_agree"],
    )


def _blocks(at_start: list[Any], events: list[Any]) -> Blocks:
    rows = [[start, start + size, -1, _ALWAYS] for start, size in at_start]
    live = {row[0]: i for i, row in enumerate(rows)}
    for position, (added, start, size) in enumerate(events):
        if added:
            live[start] = len(rows)
            rows.append([start, start + size, position, _ALWAYS])
        elif start in live:
            rows[live.pop(start)][3] = position
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return Blocks(*table.T)


def _known(blocks: Blocks, held: list[Any], operations: list[Operation]) -> npt.NDArray[np.bool_]:
    storages = np.array([start for start, _ in held], dtype=np.int64)
    known = (blocks.born < 0) & blocks.holding(storages)
    for operation in operations:
        known |= blocks.with_tensors(operation)
    return known
