"""From chunks to arrays of records, one for each type, in serial order."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pump.trace import layout
from pump.trace.container import Container
from pump.trace.errors import Loss, Losses
from pump.trace.layout import RecordType

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.void]


_ARRAYS_MOST = 1024
"""Kept at a time: each takes more than its items where few chunks are left."""


@dataclass(frozen=True)
class Records:
    """The records of one type: their fixed fields, and where what goes on behind them is."""

    rows: Rows
    tail_start: Ints
    """In units of 8 bytes from the start of the data."""
    tail_words: Ints


def read_records(container: Container, losses: Losses) -> dict[RecordType, Records]:
    """The records of every type. What makes no sense is a loss."""
    words = container.words
    position, length = _walk(container, words, losses)
    types = (words[position] & np.uint64(0xFFFF)).astype(np.int64)
    return {kind: _of_type(kind, types, words, position, length, losses) for kind in RecordType}


def _walk(container: Container, words: Words, losses: Losses) -> tuple[Ints, Ints]:
    """Where each record begins, and its length; both in words. All chunks are walked abreast."""
    at, end = container.starts, container.ends
    positions: list[Ints] = []
    lengths: list[Ints] = []
    while True:
        left = at < end
        at, end = at[left], end[left]
        if not at.size:
            break
        length = (words[at] >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
        good = (length >= layout.HEAD_WORDS) & (at + length <= end)
        for start, stop in zip(at[~good].tolist(), end[~good].tolist(), strict=True):
            losses.append(Loss(8 * start, 8 * (stop - start), "a record that does not fit"))
        at, end, length = at[good], end[good], length[good]
        positions.append(at)
        lengths.append(length)
        if len(positions) == _ARRAYS_MOST:
            positions, lengths = [np.concatenate(positions)], [np.concatenate(lengths)]
        at = at + length
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *positions]), np.concatenate([none, *lengths])


def _of_type(
    kind: RecordType,
    types: Ints,
    words: Words,
    position: Ints,
    length: Ints,
    losses: Losses,
) -> Records:
    dtype = layout.RECORDS[kind]
    fixed = dtype.itemsize // 8
    mine = types == kind
    position, length = position[mine], length[mine]
    short = length < fixed
    for start, size in zip(position[short].tolist(), length[short].tolist(), strict=True):
        losses.append(Loss(8 * start, 8 * size, f"a record of type {kind.name} that is too short"))
    position, length = position[~short], length[~short]
    order = np.argsort(words[position + 1], kind="stable")
    position, length = position[order], length[order]
    raw = words[position[:, None] + np.arange(fixed)]
    return Records(raw.view(dtype).reshape(len(position)), position + fixed, length - fixed)


def pick(rows: Rows, wanted: np.dtype[np.void]) -> Rows:
    """The fields of rows that another dtype wants; fields rows have not stay 0."""
    out = np.zeros(len(rows), dtype=wanted)
    for name in set(wanted.names or ()) & set(rows.dtype.names or ()):
        out[name] = rows[name]
    return out


def spread(start: Ints, count: Ints, step: int) -> Ints:
    """Positions of all items of consecutive runs, each of `count` items `step` words apart."""
    before = np.cumsum(count) - count
    inside = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(before, count)
    return np.repeat(start, count) + step * inside
