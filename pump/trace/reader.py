"""Reads a trace file into a `Trace`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pump.trace import layout
from pump.trace import trace as rows_of
from pump.trace.container import Container, open_container
from pump.trace.errors import Loss, Losses
from pump.trace.layout import RecordType
from pump.trace.records import Ints, Records, Rows, Words, pick, read_records, spread
from pump.trace.trace import Trace

_TOUCH_WORDS = layout.TOUCH.itemsize // 8


def read(path: str | Path) -> Trace:
    """Reads a trace, plain or compressed, whole or cut off anywhere.

    `Trace` has a structured array of one dimension for each kind of record (operations, touches,
    moves, ...), in the order of the file; sizes in bytes, times in nanoseconds.
    What cannot be read is in `Trace.losses`. Raises TraceError for a file that is no trace at all,
    OSError for one that cannot be opened.
    """
    container = open_container(Path(path))
    losses = container.losses
    words = container.words
    records = read_records(container, losses)
    operations, touches = _operations(words, records[RecordType.OP], losses)
    graphs, graph_touches = _graphs(words, records[RecordType.GRAPH], losses)
    tables, pointers = _tables(words, records[RecordType.TABLE])
    counts, values = _counts(words, records[RecordType.COUNTS])
    end = records[RecordType.END].rows
    return Trace(
        path=container.path,
        machine=container.machine,
        pid=int(container.header["pid"]),
        opened=int(container.header["realtime_ns"]) / 1e9,
        opened_ns=int(container.header["monotonic_ns"]),
        operations=operations,
        touches=touches,
        retirements=pick(records[RecordType.RETIRED].rows, rows_of.RETIREMENT),
        allocations=_births_and_deaths(
            records[RecordType.BIRTH], records[RecordType.DEATH], rows_of.ALLOCATION
        ),
        blocks=_births_and_deaths(
            records[RecordType.BLOCK], records[RecordType.UNBLOCK], rows_of.BLOCK
        ),
        graphs=graphs,
        graph_touches=graph_touches,
        tables=tables,
        table_pointers=pointers,
        drops=pick(records[RecordType.DROPS].rows, rows_of.DROP),
        moves=pick(records[RecordType.MOVE].rows, rows_of.MOVE),
        holds=pick(records[RecordType.HOLD].rows, rows_of.HOLD),
        counts=counts,
        count_values=values,
        functions=_names(container, records[RecordType.FUNCTION]),
        apis=_names(container, records[RecordType.API]),
        counters=_names(container, records[RecordType.COUNTER]),
        losses=sorted(losses, key=lambda loss: loss.offset),
        closed=len(end) > 0,
    )


def _births_and_deaths(births: Records, deaths: Records, dtype: np.dtype[np.void]) -> Rows:
    born, died = pick(births.rows, dtype), pick(deaths.rows, dtype)
    born["born"] = True
    both = np.concatenate([born, died])
    return both[np.argsort(both["serial"], kind="stable")]


def _names(container: Container, records: Records) -> dict[int, str]:
    names = {}
    for row, start, words in zip(records.rows, records.tail_start, records.tail_words, strict=True):
        size = min(int(row["bytes"]), 8 * int(words))
        text = container.data[8 * int(start) : 8 * int(start) + size]
        names[int(row["id"])] = text.decode(errors="replace")
    return names


def _operations(words: Words, records: Records, losses: Losses) -> tuple[Rows, Rows]:
    records = _with_whole_tails(records, _TOUCH_WORDS, losses)
    counts = records.tail_words // _TOUCH_WORDS
    operations = pick(records.rows, rows_of.OPERATION)
    operations["touches"] = counts
    operations["first_touch"] = np.cumsum(counts) - counts
    return operations, _touches(words, spread(records.tail_start, counts, _TOUCH_WORDS))


def _touches(words: Words, position: Ints) -> Rows:
    raw = words[position[:, None] + np.arange(_TOUCH_WORDS)]
    packed = raw.view(layout.TOUCH).reshape(len(position))
    touches = pick(packed, rows_of.TOUCH)
    bits = np.uint64(layout.TOUCH_ALLOCATION_BITS)
    touches["allocation"] = packed["tail"] & ((np.uint64(1) << bits) - np.uint64(1))
    touches["mode"] = packed["tail"] >> bits & np.uint64((1 << layout.TOUCH_MODE_BITS) - 1)
    touches["sparse"] = packed["tail"] >> np.uint64(layout.TOUCH_SPARSE_BIT) & np.uint64(1)
    touches["source"] = packed["tail"] >> np.uint64(layout.TOUCH_SOURCE_SHIFT)
    return touches


def _with_whole_tails(records: Records, item: int, losses: Losses) -> Records:
    """The records behind which whole items of so many words stand; the others are losses."""
    good = records.tail_words % item == 0
    for start, size in zip(
        records.tail_start[~good].tolist(), records.tail_words[~good].tolist(), strict=True
    ):
        losses.append(Loss(8 * start, 8 * size, "touches that make no whole number"))
    return Records(records.rows[good], records.tail_start[good], records.tail_words[good])


def _graphs(words: Words, records: Records, losses: Losses) -> tuple[Rows, Rows]:
    records = _with_whole_tails(records, _TOUCH_WORDS, losses)
    wholes = _assemble(records, _TOUCH_WORDS, "exec")
    rows = pick(wholes.rows, rows_of.GRAPH)
    rows["touches"], rows["first_touch"] = wholes.items, np.cumsum(wholes.items) - wholes.items
    return rows, _touches(words, wholes.position)


def _tables(words: Words, records: Records) -> tuple[Rows, npt.NDArray[np.uint64]]:
    wholes = _assemble(records, 1, "start")
    rows = pick(wholes.rows, rows_of.TABLE)
    rows["pointers"], rows["first_pointer"] = wholes.items, np.cumsum(wholes.items) - wholes.items
    return rows, words[wholes.position]


def _counts(words: Words, records: Records) -> tuple[Rows, npt.NDArray[np.uint64]]:
    rows = pick(records.rows, rows_of.COUNTS)
    sizes = records.tail_words
    rows["values"], rows["first_value"] = sizes, np.cumsum(sizes) - sizes
    return rows, words[spread(records.tail_start, sizes, 1)]


@dataclass(frozen=True)
class _Wholes:
    """What went out in parts, joined again."""

    rows: Rows
    """The first record of each."""
    items: Ints
    position: Ints
    """Where the items of all of them are, one whole after the other."""


def _assemble(records: Records, item: int, key: str) -> _Wholes:
    """Joins parts to wholes. A thread writes the parts of one whole one after the other; when one
    is missing, so are those behind it.
    """
    firsts: list[int] = []
    parts: list[list[int]] = []
    have: list[int] = []
    open_of: dict[int, int] = {}
    counts = records.tail_words // item
    fields = [records.rows[name].tolist() for name in ("thread", "first", key, "total")]
    for i, (thread, start, which, total) in enumerate(zip(*fields, strict=True)):
        if start == 0:
            open_of[thread] = len(firsts)
            firsts.append(i)
            parts.append([])
            have.append(0)
        whole = open_of.get(thread)
        if whole is None or (have[whole], *_same(fields, firsts[whole])) != (start, which, total):
            continue
        parts[whole].append(i)
        have[whole] += int(counts[i])
    used = np.array([i for whole in parts for i in whole], dtype=np.int64)
    return _Wholes(
        records.rows[np.array(firsts, dtype=np.int64)],
        np.array(have, dtype=np.int64),
        spread(records.tail_start[used], counts[used], item),
    )


def _same(fields: list[list[int]], i: int) -> tuple[int, int]:
    """What all parts of a whole share."""
    _, _, key, total = fields
    return key[i], total[i]
