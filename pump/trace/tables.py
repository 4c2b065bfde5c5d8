"""A trace as tables in Parquet, for what reads that. pyarrow is loaded when somebody asks."""

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pump.trace.records import spread
from pump.trace.trace import Rows, Trace
from pump.trace.words import MemoryKind, MoveKind, OpKind, TouchMode, TouchSource

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, "pa.Array"]
Name = Callable[[int], str]
SUFFIX = ".parquet"


def export_tables(trace: Trace, folder: str | Path) -> int:
    """Writes a file for each kind of thing into a folder; returns how many rows. Raises OSError,
    ImportError where pyarrow is missing.
    """
    import pyarrow as pa
    from pyarrow import parquet

    Path(folder).mkdir(exist_ok=True)
    rows = 0
    for name, columns in _tables(trace):
        table = pa.table(columns)
        parquet.write_table(table, Path(folder) / f"{name}{SUFFIX}", compression="zstd")
        rows += table.num_rows
    return rows


def _tables(trace: Trace) -> Iterator[tuple[str, Columns]]:
    kinds = {"kind": _word(MemoryKind)}
    yield "operations", _operations(trace)
    yield "touches", _touches("operation", trace.operations, trace.touches)
    yield "graphs", _columns(trace.graphs)
    yield "graph_touches", _touches("graph", trace.graphs, trace.graph_touches)
    yield "allocations", _columns(trace.allocations, kinds)
    yield "blocks", _columns(trace.blocks)
    yield "moves", _columns(trace.moves, {"kind": _word(MoveKind)})
    yield "holds", _columns(trace.holds)
    yield "counts", _counts(trace)


def _columns(rows: Rows, words: Mapping[str, Name] | None = None) -> Columns:
    """A column a field; where words has a name for its numbers, that."""
    import pyarrow as pa

    fields = [name for name in rows.dtype.names or () if not name.startswith("first_")]
    return {
        name: _named(rows[name], words[name])
        if words and name in words
        else pa.array(np.ascontiguousarray(rows[name]))
        for name in fields
    }


def _named(
    values: npt.NDArray[np.integer], name: Name, none: npt.NDArray[np.bool_] | None = None
) -> "pa.Array":
    """Each different one's name is kept once. none: which have no name."""
    import pyarrow as pa

    known, places = np.unique(values, return_inverse=True)
    names = pa.array([name(value) for value in known.tolist()], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32), mask=none), names)


def _word(words: type[IntEnum]) -> Name:
    known = {int(word): word.name.lower() for word in words}
    return lambda value: known.get(value, str(value))


def _operations(trace: Trace) -> Columns:
    """With names, and when it ran on the device, if that is known."""
    import pyarrow as pa

    columns = _columns(trace.operations, {"kind": _word(OpKind), "api": trace.api_name})
    other = trace.operations["kind"] != OpKind.LAUNCH
    columns["function"] = _named(trace.operations["function"], trace.function_name, other)
    at = trace.operation_index(trace.retirements["operation"])
    ran = np.zeros(len(trace.operations), dtype=bool)
    ran[at[at >= 0]] = True
    for name in ("start_ns", "ns"):
        told = np.zeros(len(ran), dtype=np.uint64)
        told[at[at >= 0]] = trace.retirements[name][at >= 0]
        columns[name] = pa.array(told, mask=~ran)
    return columns


def _touches(of: str, rows: Rows, touches: Rows) -> Columns:
    """With the serial of what they are of."""
    import pyarrow as pa

    counts = rows["touches"].astype(np.int64)
    at = spread(rows["first_touch"].astype(np.int64), counts, 1)
    words = {"mode": _word(TouchMode), "source": _word(TouchSource)}
    serials = pa.array(np.repeat(rows["serial"], counts))
    return {of: serials} | _columns(touches[at], words)


def _counts(trace: Trace) -> Columns:
    """A row a counter each time they were told."""
    import pyarrow as pa

    told = [
        (int(row["time_ns"]), *each) for row in trace.counts for each in trace.counted(row).items()
    ]
    names = ("time_ns", "counter", "value")
    types = (pa.uint64(), pa.string(), pa.uint64())
    return {
        name: pa.array([row[i] for row in told], kind)
        for i, (name, kind) in enumerate(zip(names, types, strict=True))
    }
