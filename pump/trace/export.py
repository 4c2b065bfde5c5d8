"""A trace in other forms: for Chrome's and Perfetto's viewers, and compressed."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pump.symbol import readable
from pump.trace.container import load_bytes, open_container
from pump.trace.paging import kind_of, move_ns
from pump.trace.trace import Trace
from pump.trace.words import MoveKind, OpKind
from pump.whole import whole

_HOST, _DEVICES = 0, 2
"""Process numbers in the viewer: the host's threads, and from there on one for each device; the one
before stands for operations whose device is not known (-1)."""
_KINDS = {int(kind): kind.name.lower() for kind in OpKind}
_SHARES = {
    "hits": ("hit_bytes", ("paged_bytes",)),
    "predicted": ("predicted", ("predicted", "surprises")),
}
"""Curves in per cent: the part and the sum that is the whole, by their counters."""


def export_chrome(trace: Trace, target: str | Path) -> int:
    """Writes the trace as Chrome's trace events (JSON); returns how many. Raises OSError.

    Device work whose time is known is drawn on its stream, every call on the thread that made it,
    and how long it was held before; moves of pages in and out of each device; as curves the memory
    held on it, its pages there, and how well these were foreseen. Times are microseconds from the
    first record.
    """
    refuse_onto(trace.path, Path(target), "exported")
    written = 0
    with whole(Path(target)) as into, into.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        for event in _chrome_events(trace):
            file.write(",\n" if written else "")
            file.write(json.dumps(event, separators=(",", ":")))
            written += 1
        file.write("\n]}\n")
    return written


def refuse_onto(source: Path, target: Path, done: str) -> None:
    """Raises FileExistsError where a trace would be lost to what is made of it."""
    if target.exists() and source.samefile(target):
        raise FileExistsError(f"{target} would be {done} onto itself")


def compress(source: str | Path, target: str | Path) -> tuple[int, int]:
    """Writes a trace with gzip; `read` takes it like any other. Returns the sizes before and after.

    Raises TraceError for a source that is no trace, OSError.
    """
    source, target = Path(source), Path(target)
    open_container(source)
    refuse_onto(source, target, "compressed")
    data = load_bytes(source)
    with (
        whole(target) as into,
        into.open("wb") as out,
        gzip.GzipFile(target.name, "wb", 6, out) as file,
    ):
        for at in range(0, len(data), 1 << 20):
            file.write(data[at : at + (1 << 20)])
    return source.stat().st_size, target.stat().st_size


def _chrome_events(trace: Trace) -> Iterator[dict[str, Any]]:
    starts = [int(rows["time_ns"].min()) for rows in trace.arrays if len(rows)]
    if len(trace.retirements):
        starts.append(int(trace.retirements["start_ns"].min()))
    starts += [int(rows["begun_ns"].min()) for rows in (trace.moves, trace.holds) if len(rows)]
    origin = min(starts, default=0)
    yield from _names(trace)
    yield from _calls(trace, origin)
    yield from _device_work(trace, origin)
    yield from _memory(trace, origin)
    yield from _held(trace, origin)
    yield from _moves(trace, origin)
    yield from _shares(trace, origin)


def _names(trace: Trace) -> Iterator[dict[str, Any]]:
    program = str(trace.machine.get("program", "program"))
    yield _name("process_name", f"{program} ({trace.pid})", pid=_HOST)
    for thread in np.union1d(trace.operations["thread"], trace.holds["thread"]).tolist():
        yield _name("thread_name", f"thread {thread}", pid=_HOST, tid=thread)
    for device in np.union1d(trace.operations["device"], trace.moves["device"]).tolist():
        yield _name("process_name", _device(device), pid=_DEVICES + device)
        for stream, lane in _lanes(trace).items():
            yield _name("thread_name", f"stream {stream:#x}", pid=_DEVICES + device, tid=lane)


def _name(what: str, name: str, **where: int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "args": {"name": name}, **where}


def _lanes(trace: Trace) -> dict[int, int]:
    """Streams and their places in the viewer: stream handles are too large for it."""
    streams = np.unique(trace.operations["stream"]).tolist()
    return {stream: lane for lane, stream in enumerate(streams)}


def _device(device: int) -> str:
    return f"device {device}" if device >= 0 else "device not known"


def _calls(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    for row in trace.operations:
        yield {
            "ph": "i",
            "s": "t",
            "name": trace.api_name(int(row["api"])),
            "cat": _KINDS.get(int(row["kind"]), "?"),
            "pid": _HOST,
            "tid": int(row["thread"]),
            "ts": (int(row["time_ns"]) - origin) / 1e3,
            "args": {"serial": int(row["serial"]), "status": int(row["status"])},
        }


def _device_work(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    operations, lanes = trace.operations, _lanes(trace)
    at = trace.operation_index(trace.retirements["operation"])
    for retired, index in zip(trace.retirements, at.tolist(), strict=True):
        if index < 0:
            continue  # dropped or damaged
        row = operations[index]
        yield {
            "ph": "X",
            "name": readable(trace.label(row)),
            "pid": _DEVICES + int(row["device"]),
            "tid": lanes[int(row["stream"])],
            "ts": (int(retired["start_ns"]) - origin) / 1e3,
            "dur": int(retired["ns"]) / 1e3,
            "args": {
                "serial": int(row["serial"]),
                "bytes": int(trace.touches_of(row)["bytes"].sum()),
            },
        }


def _memory(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    held: dict[int, int] = {}
    for row in trace.allocations:
        device, charged = int(row["device"]), int(row["charged"])
        held[device] = held.get(device, 0) + (charged if row["born"] else -charged)
        yield {
            "ph": "C",
            "name": "memory",
            "pid": _DEVICES + device,
            "ts": (int(row["time_ns"]) - origin) / 1e3,
            "args": {"bytes": held[device]},
        }


def _held(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    for row, label in zip(trace.holds, trace.labels(trace.holds["operation"]), strict=True):
        yield {
            "ph": "X",
            "name": f"held: {readable(label)}",
            "cat": "held",
            "pid": _HOST,
            "tid": int(row["thread"]),
            "ts": (int(row["begun_ns"]) - origin) / 1e3,
            "dur": int(row["ns"]) / 1e3,
            "args": {"serial": int(row["operation"]), "missing": int(row["missing"])},
        }


def _moves(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    """Each way has as many rows as moves were under way at a time."""
    rows_of: dict[tuple[int, int], list[int]] = {}
    first = len(_lanes(trace))
    took = move_ns(trace.moves)
    for index in np.argsort(trace.moves["begun_ns"], kind="stable").tolist():
        row, ns = trace.moves[index], int(took[index])
        begun, device = int(row["begun_ns"]), int(row["device"])
        ends = rows_of.setdefault((device, int(row["kind"])), [])
        lane = next((i for i, end in enumerate(ends) if end <= begun), len(ends))
        way = "in" if row["kind"] == MoveKind.FILL else "out"
        where = {"pid": _DEVICES + device, "tid": first + 2 * lane + (way == "out")}
        if lane == len(ends):
            yield _name("thread_name", f"pages {way}", **where)
        ends[lane : lane + 1] = [begun + ns]
        yield {
            "ph": "X",
            "name": kind_of(row),
            "cat": "move",
            **where,
            "ts": (begun - origin) / 1e3,
            "dur": ns / 1e3,
            "args": {"start": f"{int(row['start']):#x}", "bytes": int(row["bytes"])},
        }
    for row in trace.moves:
        yield {
            "ph": "C",
            "name": "pages there",
            "pid": _DEVICES + int(row["device"]),
            "ts": (int(row["time_ns"]) - origin) / 1e3,
            "args": {"bytes": int(row["resident"])},
        }


def _shares(trace: Trace, origin: int) -> Iterator[dict[str, Any]]:
    """From one look at the counters to the next."""
    before: dict[str, int] = {}
    for row in trace.counts:
        now = trace.counted(row)
        grown = {name: value - before.get(name, 0) for name, value in now.items()}
        before = now
        for name, (part, parts) in _SHARES.items():
            total = sum(grown.get(each, 0) for each in parts)
            if total > 0:
                yield {
                    "ph": "C",
                    "name": name,
                    "pid": _HOST,
                    "ts": (int(row["time_ns"]) - origin) / 1e3,
                    "args": {"per cent": round(100 * grown.get(part, 0) / total, 1)},
                }
