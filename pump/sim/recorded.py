"""A trace as `pump trace` writes it, as a sequence: its steps are found by their repetition."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from pump import binding
from pump.regular import open_regular
from pump.sim.engine import SPARSE, Touch
from pump.sim.loop import Lives, Told, find_loop, starts_of
from pump.sim.native import Ran, Times, native_times
from pump.sim.sequence import (
    FIRST_LINE,
    Block,
    Event,
    Given,
    Operation,
    Sequence,
    SequenceError,
    read_sequence,
)
from pump.trace import OpFlag, OpKind, Trace, TraceError, read
from pump.trace.trace import Rows
from pump.trace.words import MemoryKind, TouchMode, TouchSource

LIBRARIES = ("cublas", "cudnn", "nccl")
"""How the symbols begin of calls that tell what they touch, and so all kernels inside them."""
COMPUTING = ("cublas", "cudnn")
"""Those whose kernels load little twice."""
TOGETHER = ("cudnnRNN", "nccl")
"""How the symbols begin of calls whose kernels are one operation: `together` in hooks/README.md."""
WORK = (OpKind.LAUNCH, OpKind.COPY, OpKind.MEMSET, OpKind.GRAPH)
TIMED_LEAST = 0.9
"""Share of a step's operations whose time the trace has to know."""
MOVED = "pages moved meanwhile: times are those of operations that had all their pages"
PART = ("serial", "api", "thread", "flags")
Range = tuple[int, int, int]
"""Of a touch: start, bytes, mode."""
Gift = tuple[int, int, int, int]
"""Of a block: serial, whether it was given or taken, start and bytes."""


def open_sequence(path: Path, every: bool = False) -> Sequence:
    """A recorded sequence or a trace. every: all whole steps of a trace, else the last of them.
    Raises SequenceError, OSError."""
    if is_sequence(path):
        return read_sequence(path)
    try:
        return sequence_of(read(path), every)
    except TraceError as error:
        raise SequenceError(
            f"{path} is neither a recorded sequence nor a trace: {error}"
        ) from error


def is_sequence(path: Path) -> bool:
    """A recorded sequence, by how it begins. Raises OSError."""
    with open_regular(path) as file:
        return file.read(len(FIRST_LINE)) == FIRST_LINE.encode()


def sequence_of(trace: Trace, every: bool = False) -> Sequence:
    """The last whole step, or every one, of the device that does most. Raises SequenceError."""
    issued = work_of(trace)
    part_of = parts_of(trace, issued)
    rows = issued[~np.isin(issued["serial"], list(part_of))]
    _, keys = np.unique(rows[["kind", "function", "api"]], return_inverse=True)
    device = int(rows["device"][0])
    blocks = given_of(trace, device)
    loop = find_loop(keys, told_of(trace, rows, blocks))
    if loop is None:
        raise refusal(trace, "no step repeats; trace more steps")
    seen = starts_of(keys, loop)
    starts = seen if every else seen[-1:]
    played = rows[starts[0] : loop.end]
    serials = played["serial"].tolist()
    ns = dict(zip(*(trace.retirements[name].tolist() for name in ("operation", "ns")), strict=True))
    ran = set(serials)
    ran |= {part for part, whole in part_of.items() if whole in ran}
    timed = len(ran & ns.keys())
    if timed < TIMED_LEAST * len(ran):
        raise refusal(trace, f"the trace knows when {timed} of {len(ran)} ran")
    for part, whole in part_of.items():
        ns[whole] = ns.get(whole, 0) + ns.get(part, 0)
    times = Times(ns, frozenset())
    if len(trace.moves):
        times = native_times(trace, ran_of(trace, rows, keys.tolist(), ns))
    live, given = blocks_of(blocks, serials[0], serials[-1])
    events: list[tuple[int, Event]] = list(given)
    names: dict[int, str] = {}
    library: set[int] = set()
    for key, serial, row in zip(keys[starts[0] : loop.end].tolist(), serials, played, strict=True):
        events.append((serial, Operation(key, times.ns.get(serial, 0), touches_of(trace, row))))
        if key not in names:
            names[key] = trace.label(row)
            library |= {key} if trace.api_name(int(row["api"])).startswith(COMPUTING) else set()
    events.sort(key=lambda event: event[0])
    firsts = rows["serial"][starts].tolist()
    ends = [bisect_left(events, first, key=lambda event: event[0]) for first in firsts[1:]]
    bounds = pairwise([0, *ends, len(events)])
    steps = tuple(tuple(event for _, event in events[a:b]) for a, b in bounds)
    apart = np.diff(rows["time_ns"][seen].astype(np.int64))
    traced_ns = int(apart.min()) if len(apart) else 0
    return Sequence(
        live,
        steps,
        names,
        trusted(trace, device),
        len(seen),
        (*trace.notes, *([MOVED] if len(trace.moves) else [])),
        0 if len(trace.moves) else traced_ns,
        str(trace.machine.get("device", "")),
        frozenset(library),
        sum(
            times.ns[serial]
            for serial in times.untold.intersection(rows["serial"][seen[-1] : loop.end].tolist())
        ),
    )


def ran_of(trace: Trace, rows: Rows, keys: list[int], ns: Mapping[int, int]) -> Iterator[Ran]:
    """Operations that ran, as long as is told."""
    begun = dict(
        zip(*(trace.retirements[name].tolist() for name in ("operation", "start_ns")), strict=True)
    )
    for row, key in zip(rows, keys, strict=True):
        serial = int(row["serial"])
        if serial in begun:
            yield Ran(serial, key, begun[serial], ns[serial], touches_of(trace, row))


def touches_of(trace: Trace, row: np.void) -> tuple[Touch, ...]:
    """What an operation touches of memory that is known."""
    found = trace.touches_of(row)
    ranges = found[found["allocation"] != 0][["start", "bytes", "mode", "sparse"]].tolist()
    return tuple(Touch(a, n, mode | SPARSE * sparse) for a, n, mode, sparse in ranges)


def refusal(trace: Trace, why: str) -> SequenceError:
    """No step can be had of a trace: why not, and what is lost of it."""
    return SequenceError("; ".join([f"{trace.path}: {why}", *trace.notes]))


def work_of(trace: Trace) -> Rows:
    """Operations that ran on one device: the one with most of them. Raises SequenceError."""
    every = trace.operations
    ran = np.isin(every["kind"], WORK) & (every["status"] == 0) & (every["touches"] > 0)
    ran |= (every["kind"] == OpKind.GRAPH) & (every["status"] == 0)
    rows = every[ran & (every["flags"] & OpFlag.CAPTURED == 0)]
    if not len(rows):
        raise refusal(trace, "it holds no operation")
    device = Counter(rows["device"].tolist()).most_common(1)[0][0]
    mine: Rows = rows[rows["device"] == device]
    return mine


def parts_of(trace: Trace, rows: Rows) -> dict[int, int]:
    """Of operations that are part of one that began before, as backends take them: serials of both.
    In a call whose kernels are one, what touches nothing but what the first one did. Older traces
    do not say where such calls begin: of two alike with nothing in between that makes one.
    """
    together = {
        api for api in np.unique(rows["api"]).tolist() if trace.api_name(api).startswith(TOGETHER)
    }
    told = bool((rows["flags"] & OpFlag.WHOLE).any())
    found: dict[int, int] = {}
    begun: dict[int, tuple[int, int, list[Range]]] = {}  # by thread: serial, api, what it has
    for row in rows if together else ():
        serial, api, thread, flags = (int(row[name]) for name in PART)
        touches = trace.touches_of(row)
        ranges: list[Range] = touches[["start", "bytes", "mode"]].tolist()
        first, call, has = begun.get(thread, (0, -1, []))
        known = len(ranges) > 0 and not flags & (OpFlag.HIDES | OpFlag.BLIND)
        begins = flags & OpFlag.WHOLE if told else (touches["source"] == TouchSource.LIBRARY).all()
        inside = known and api == call and all(lies_in(one, has) for one in ranges)
        if inside and not flags & OpFlag.WHOLE:
            found[serial] = first
        elif known and api in together and begins:
            begun[thread] = serial, api, ranges
        else:
            begun.pop(thread, None)
    return found


def lies_in(one: Range, others: list[Range]) -> bool:
    """A touch is of what others touch, and writes nothing that they only read."""
    start, size, mode = one
    return any(
        at <= start
        and start + size <= at + held
        and (mode == TouchMode.READ or how != TouchMode.READ)
        for at, held, how in others
    )


def trusted(trace: Trace, device: int) -> bool:
    """Every kernel that ran on a device is trusted, also before the steps: `vmm` does not
    forget another. Nobody knows of a graph's kernels: their names are not in the trace.
    """
    every = trace.operations
    ran = every[(every["device"] == device) & (every["flags"] & OpFlag.CAPTURED == 0)]
    launches = np.unique(ran[ran["kind"] == OpKind.LAUNCH][["api", "function"]]).tolist()
    return OpKind.GRAPH not in ran["kind"] and all(
        trace.api_name(api).startswith(LIBRARIES)
        or binding.kernel_trusted(trace.function_name(function))
        for api, function in launches
    )


def told_of(trace: Trace, rows: Rows, given: list[Gift]) -> Told:
    """What operations of one device did, and how long its blocks lived."""
    born: dict[Block, int] = {}
    lived: list[tuple[int, int, int, int]] = []
    for serial, birth, start, size in given:
        if birth:
            born[Block(start, size)] = serial
        else:
            lived.append((start, start + size, born.pop(Block(start, size), -1), serial))
    never = np.iinfo(np.int64).max
    lived += [(each.start, each.start + each.bytes, at, never) for each, at in born.items()]
    columns = np.array(sorted(lived), dtype=np.int64).reshape(-1, 4).T
    touches = [trace.touches_of(row) for row in rows]
    return Told(rows["serial"].astype(np.int64), touches, Lives(*columns))


def given_of(trace: Trace, device: int) -> list[Gift]:
    """What blocks are given and taken, in order of serials.

    An allocation that holds no block of the framework's is one itself.
    """
    given = trace.allocations
    given = given[(given["device"] == device) & (given["kind"] != MemoryKind.MANAGED)]
    told = np.unique(trace.blocks["start"]).tolist()
    plain = [
        row
        for row in given[["serial", "born", "start", "bytes"]].tolist()
        if not _between(told, row[2], row[2] + row[3])
    ]
    return sorted([*plain, *trace.blocks[["serial", "born", "start", "bytes"]].tolist()])


def blocks_of(
    given: list[Gift], begin: int, end: int
) -> tuple[tuple[Block, ...], list[tuple[int, Event]]]:
    """Blocks that live at serial `begin`, and what is given and taken from there to `end`."""
    live: dict[Block, None] = {}
    events: list[tuple[int, Event]] = []
    for serial, born, start, size in given:
        block = Block(start, size)
        if serial >= end:
            break
        if serial >= begin:
            events.append((serial, Given(block, bool(born))))
        elif born:
            live[block] = None
        else:
            live.pop(block, None)
    return tuple(live), events


def _between(ordered: list[int], low: int, high: int) -> bool:
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] < high
