"""A trace in memory."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pump.trace.errors import Loss
from pump.trace.layout import HEAD_NAMES, RECORDS, RecordType
from pump.trace.words import EventKind, OpKind

Rows = npt.NDArray[np.void]
Row = np.dtype[np.void]

_HEAD = [("serial", "<u8"), ("time_ns", "<u8"), ("thread", "<u4")]

_Fields = list[tuple[str, str]]


def _rows(kind: RecordType, *, first: _Fields | None = None, last: _Fields | None = None) -> Row:
    """What a record of this kind says, and more, which no record holds."""
    record = RECORDS[kind]
    names = [name for name in record.names or () if name not in (*HEAD_NAMES, "unused")]
    said = [(name, record[name].str) for name in names]
    return np.dtype([*_HEAD, *(first or []), *said, *(last or [])])


OPERATION = _rows(RecordType.OP, last=[("first_touch", "<u8"), ("touches", "<u4")])
TOUCH = np.dtype(
    [
        ("start", "<u8"),
        ("bytes", "<u8"),
        ("allocation", "<u8"),
        ("mode", "u1"),
        ("sparse", "?"),
        ("source", "u1"),
    ]
)
RETIREMENT = _rows(RecordType.RETIRED)
ALLOCATION = _rows(RecordType.BIRTH, first=[("born", "?")])
BLOCK = _rows(RecordType.BLOCK, first=[("born", "?")])
GRAPH = np.dtype(
    [
        *_HEAD,
        ("exec", "<u8"),
        ("kernels", "<u4"),
        ("first_touch", "<u8"),
        ("touches", "<u8"),
        ("total", "<u8"),
    ]
)
TABLE = np.dtype(
    [
        *_HEAD,
        ("start", "<u8"),
        ("bytes", "<u8"),
        ("first_pointer", "<u8"),
        ("pointers", "<u8"),
        ("total", "<u8"),
    ]
)
DROP = _rows(RecordType.DROPS)
MOVE = _rows(RecordType.MOVE)
HOLD = _rows(RecordType.HOLD)
COUNTS = np.dtype([*_HEAD, ("first_value", "<u8"), ("values", "<u4")])
ORDER = np.dtype([("serial", "<u8"), ("kind", "u1"), ("index", "<u8")])


class Event(NamedTuple):
    """One row of one array of a trace, in its place among all others."""

    serial: int
    kind: EventKind
    row: np.void


@dataclass(frozen=True)
class Trace:
    """What a traced program did.

    Every array is in serial order: the order in which things happened in the process. Times are
    nanoseconds of CLOCK_MONOTONIC; addresses and sizes are bytes.
    """

    path: Path
    machine: dict[str, Any]
    """What the traced process said of itself and its machine."""
    pid: int
    opened: float
    """When the trace was opened, in seconds since 1970."""
    opened_ns: int
    """The same moment in the times of the trace."""

    operations: Rows
    """`OPERATION`; the touches of row r are `touches[r.first_touch :][: r.touches]`."""
    touches: Rows
    """`TOUCH`."""
    retirements: Rows
    """`RETIREMENT`; `operation` is the serial of the operation that ran on the device."""
    allocations: Rows
    """`ALLOCATION`; two rows for each: `born`, and not."""
    blocks: Rows
    """`BLOCK`; likewise."""
    graphs: Rows
    """`GRAPH`; the content of an executable graph from then on, its touches in `graph_touches`.
    Fewer touches than `total`: the others were dropped."""
    graph_touches: Rows
    tables: Rows
    """`TABLE`; the pointers copied into a range, in `table_pointers`."""
    table_pointers: npt.NDArray[np.uint64]
    drops: Rows
    """`DROP`; so many records of a thread are missing before this."""
    moves: Rows
    """`MOVE`; pages that came or left from `begun_ns` to `time_ns`. `resident`: the device's bytes
    of pages, after it."""
    holds: Rows
    """`HOLD`; `operation` is the serial of the operation that was held, for so many `missing` bytes
    of its pages; 0: for its turn."""
    counts: Rows
    """`COUNTS`; the live counters at that moment, their values in `count_values`."""
    count_values: npt.NDArray[np.uint64]

    functions: dict[int, str]
    """Names of kernels by the `function` of an operation."""
    apis: dict[int, str]
    """Names of calls by the `api` of an operation."""
    counters: dict[int, str]
    """Names of counters by their place among the values of a row of `counts`."""

    losses: list[Loss]
    """What could not be read of the file."""
    closed: bool
    """The program closed the trace in order."""

    _graphs_of: dict[int, list[int]] = field(default_factory=dict, repr=False)

    @property
    def complete(self) -> bool:
        """Is everything here that the program did while it was traced?"""
        return self.closed and not self.losses and not len(self.drops)

    @property
    def notes(self) -> list[str]:
        """What is missing, a line each; empty for a complete trace."""
        lines = [str(loss) for loss in self.losses]
        if len(self.drops):
            lines.append(
                f"{int(self.drops['records'].sum())} records were dropped: too many at once"
            )
        if not self.closed:
            lines.append("the trace was not closed: the program was killed, or still runs")
        return lines

    @cached_property
    def order(self) -> Rows:
        """`ORDER`: every row of every array but the touches, merged in serial order."""
        arrays = self._arrays()
        out = np.zeros(sum(len(rows) for rows in arrays.values()), dtype=ORDER)
        at = 0
        for kind, rows in arrays.items():
            part = out[at : at + len(rows)]
            part["serial"] = rows["serial"]
            part["kind"] = kind
            part["index"] = np.arange(len(rows))
            at += len(rows)
        return out[np.argsort(out["serial"], kind="stable")]

    def events(self) -> Iterator[Event]:
        """Everything that happened, in order."""
        arrays = self._arrays()
        for serial, kind, index in self.order.tolist():
            yield Event(serial, EventKind(kind), arrays[kind][index])

    @property
    def arrays(self) -> list[Rows]:
        """Every array but the touches and pointers."""
        return list(self._arrays().values())

    def touches_of(self, operation: np.void) -> Rows:
        """What an operation touches; for a graph launch: what its graph touches."""
        graph = self.graph_of(operation)
        if graph is not None:
            return self.graph_touches[graph["first_touch"] :][: graph["touches"]]
        return self.touches[operation["first_touch"] :][: operation["touches"]]

    def graph_of(self, operation: np.void) -> np.void | None:
        """The graph a graph launch runs, as it was then; None for all else, or when it is lost."""
        if int(operation["kind"]) != OpKind.GRAPH:
            return None
        index = self.graph_index(int(operation["serial"]), int(operation["object"]))
        return None if index is None else self.graphs[index]

    def graph_index(self, serial: int, executable: int) -> int | None:
        """Index in `graphs` of what an executable graph held at a serial; None: not known."""
        if not self._graphs_of:
            for i, each in enumerate(self.graphs["exec"].tolist()):
                self._graphs_of.setdefault(each, []).append(i)
        known = self._graphs_of.get(executable, [])
        at = bisect_right(known, serial, key=lambda i: int(self.graphs["serial"][i]))
        return known[at - 1] if at else None

    def counted(self, row: np.void) -> dict[str, int]:
        """What the counters were, by name, at a row of `counts`."""
        values = self.count_values[row["first_value"] :][: row["values"]]
        return {self.counters.get(i, f"counter {i}"): n for i, n in enumerate(values.tolist())}

    def operation_index(self, serials: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """Index in `operations` of each serial; -1: that operation is lost."""
        known = self.operations["serial"]
        if not len(known):
            return np.full(len(serials), -1, dtype=np.int64)
        at = np.searchsorted(known, serials).clip(max=len(known) - 1)
        return np.where(known[at] == serials, at, -1)

    def labels(self, serials: npt.NDArray[np.uint64]) -> list[str]:
        """What ran, of the operations with these serials; of a lost one that it is not known."""
        at = self.operation_index(serials).tolist()
        return [self.label(self.operations[i]) if i >= 0 else "not known" for i in at]

    def label(self, operation: np.void) -> str:
        """What ran: the kernel's name, else the call's."""
        if operation["kind"] == OpKind.LAUNCH:
            return self.function_name(int(operation["function"]))
        return self.api_name(int(operation["api"]))

    def function_name(self, function: int) -> str:
        """Name of a kernel, or its number where the name is lost."""
        return self.functions.get(function, f"function {function}")

    def api_name(self, api: int) -> str:
        """Name of a call, or its number where the name is lost."""
        return self.apis.get(api, f"call {api}")

    def _arrays(self) -> dict[int, Rows]:
        return {
            EventKind.OPERATION: self.operations,
            EventKind.RETIREMENT: self.retirements,
            EventKind.ALLOCATION: self.allocations,
            EventKind.BLOCK: self.blocks,
            EventKind.GRAPH: self.graphs,
            EventKind.TABLE: self.tables,
            EventKind.DROP: self.drops,
            EventKind.MOVE: self.moves,
            EventKind.HOLD: self.holds,
            EventKind.COUNTS: self.counts,
        }
