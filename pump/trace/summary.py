"""What a trace says, in numbers; how it looks is left to others."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pump.trace.paging import Paging, paging_of
from pump.trace.trace import Rows, Trace
from pump.trace.words import MemoryKind, OpFlag, OpKind, TouchSource


@dataclass(frozen=True)
class FunctionUse:
    """All launches of one kernel. Times are nanoseconds of device time, as far as it is known."""

    name: str
    launches: int
    unmatched: int
    """Launches with arguments but no known address among them."""
    blind: int
    """Launches with an unknown parameter layout."""
    touched_bytes: int
    timed: int
    """Launches whose device time is known."""
    device_ns: int


@dataclass(frozen=True)
class Summary:
    """A trace in numbers. Captured and failed operations ran nothing and count only as such."""

    program: str
    device: str
    span_ns: int
    """From the first record to the last."""
    threads: int
    operations: dict[OpKind, int]
    kernels: int
    """Kernels run, those inside graphs included."""
    captured: int
    failed: int
    copied_bytes: int
    touched_bytes: int
    touches: dict[TouchSource, int]
    """Touches by who told their extent, those of graph launches included."""
    functions: list[FunctionUse]
    """Most device time first, then most bytes."""
    device_ns: int
    """Device time of all operations, overlap counted twice."""
    allocations: int
    freed: int
    peak_bytes: int
    """Most bytes held at a time, as they were charged, all devices together."""
    blocks: int
    tables: int
    table_pointers: int
    paging: Paging
    complete: bool
    notes: list[str]
    """What is missing of the trace, a line each."""

    @property
    def unmatched(self) -> list[FunctionUse]:
        """The kernels that had launches without a known address."""
        return [use for use in self.functions if use.unmatched]


def summarize(trace: Trace) -> Summary:
    """Sums up a trace."""
    every = trace.operations
    captured = (every["flags"] & OpFlag.CAPTURED) != 0
    failed = ~captured & (every["status"] != 0)
    ran = ~captured & ~failed
    bytes_each = _touched_bytes(trace)
    device_ns = _device_ns(trace)
    copies = ran & (every["kind"] == OpKind.COPY) & (every["touches"] > 0)
    first = trace.touches["bytes"][every["first_touch"][copies].astype(np.int64)]
    times = [rows["time_ns"] for rows in trace.arrays if len(rows)]
    held = _held(trace.allocations)
    return Summary(
        program=str(trace.machine.get("program", "")),
        device=str(trace.machine.get("device", "")),
        span_ns=int(max(t.max() for t in times) - min(t.min() for t in times)) if times else 0,
        threads=len(np.unique(every["thread"])),
        operations={kind: int((ran & (every["kind"] == kind)).sum()) for kind in OpKind},
        kernels=int(every["kernels"][ran].sum()),
        captured=int(captured.sum()),
        failed=int(failed.sum()),
        copied_bytes=int(first.sum()),
        touched_bytes=int(bytes_each[ran].sum()),
        touches=_touches_by_source(trace, ran),
        functions=_functions(trace, ran, bytes_each, device_ns),
        device_ns=int(device_ns[device_ns >= 0].sum()),
        allocations=int(trace.allocations["born"].sum()),
        freed=int((~trace.allocations["born"]).sum()),
        peak_bytes=max(0, int(held.max())) if len(held) else 0,
        blocks=int(trace.blocks["born"].sum()),
        tables=len(trace.tables),
        table_pointers=len(trace.table_pointers),
        paging=paging_of(trace),
        complete=trace.complete,
        notes=trace.notes,
    )


def _held(rows: Rows) -> npt.NDArray[np.int64]:
    """Bytes of the devices after each event. Small allocations are charged together, not one by
    one: they count as large as they are."""
    shares = (rows["charged"] == 0) & np.isin(rows["kind"], (MemoryKind.PLAIN, MemoryKind.PITCH))
    values = np.where(shares, rows["bytes"], rows["charged"]).astype(np.int64)
    return np.cumsum(np.where(rows["born"], values, -values))


def _sums(first: Rows, count: Rows, values: Rows) -> npt.NDArray[np.int64]:
    """Sums of `values` over runs of items."""
    total = np.concatenate([[0], np.cumsum(values.astype(np.int64))])
    start = first.astype(np.int64)
    return np.asarray(total[start + count.astype(np.int64)] - total[start], dtype=np.int64)


def _graph_indices(trace: Trace) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The graph launches among the operations, and the graph each runs, where it is known."""
    launches = np.flatnonzero(trace.operations["kind"] == OpKind.GRAPH)
    found = [
        (at, graph)
        for at, serial, each in zip(
            launches.tolist(),
            trace.operations["serial"][launches].tolist(),
            trace.operations["object"][launches].tolist(),
            strict=True,
        )
        if (graph := trace.graph_index(serial, each)) is not None
    ]
    pairs = np.array(found, dtype=np.int64).reshape(len(found), 2)
    return pairs[:, 0], pairs[:, 1]


def _touched_bytes(trace: Trace) -> npt.NDArray[np.int64]:
    """Bytes that each operation touches."""
    every, graphs = trace.operations, trace.graphs
    out = _sums(every["first_touch"], every["touches"], trace.touches["bytes"])
    inside = _sums(graphs["first_touch"], graphs["touches"], trace.graph_touches["bytes"])
    launches, index = _graph_indices(trace)
    out[launches] += inside[index]
    return out


def _touches_by_source(trace: Trace, ran: npt.NDArray[np.bool_]) -> dict[TouchSource, int]:
    every, graphs = trace.operations, trace.graphs
    launches, index = _graph_indices(trace)
    counted = {}
    for source in TouchSource:
        own = _sums(every["first_touch"], every["touches"], trace.touches["source"] == source)
        inside = _sums(
            graphs["first_touch"], graphs["touches"], trace.graph_touches["source"] == source
        )
        own[launches] += inside[index]
        counted[source] = int(own[ran].sum())
    return counted


def _device_ns(trace: Trace) -> npt.NDArray[np.int64]:
    """Device time of each operation; -1: not known."""
    out = np.full(len(trace.operations), -1, dtype=np.int64)
    at = trace.operation_index(trace.retirements["operation"])
    out[at[at >= 0]] = trace.retirements["ns"][at >= 0]
    return out


def _functions(
    trace: Trace,
    ran: npt.NDArray[np.bool_],
    bytes_each: npt.NDArray[np.int64],
    device_ns: npt.NDArray[np.int64],
) -> list[FunctionUse]:
    launches = ran & (trace.operations["kind"] == OpKind.LAUNCH)
    rows = trace.operations[launches]
    ids, at = np.unique(rows["function"], return_inverse=True)

    def total(values: npt.NDArray[np.generic]) -> list[int]:
        sums = np.zeros(len(ids), dtype=np.int64)
        np.add.at(sums, at, values.astype(np.int64))
        return [int(total) for total in sums]

    times = device_ns[launches]
    columns = (
        total(np.ones(len(rows))),
        total(rows["flags"] & OpFlag.UNMATCHED != 0),
        total(rows["flags"] & OpFlag.BLIND != 0),
        total(bytes_each[launches]),
        total(times >= 0),
        total(times.clip(min=0)),
    )
    merged: dict[str, list[int]] = {}
    for function, *values in zip(ids.tolist(), *columns, strict=True):
        name = trace.function_name(function)  # one kernel may have had several numbers
        merged[name] = [a + b for a, b in zip(merged.get(name, [0] * 6), values, strict=True)]
    uses = [FunctionUse(name, *values) for name, values in merged.items()]
    return sorted(uses, key=lambda use: (-use.device_ns, -use.touched_bytes, use.name))
