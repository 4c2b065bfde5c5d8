"""Joins what a step truly touched to what ulms.so extracted of it, operation by operation.

`truth` are the bytes of an operation's tensors. `missed` are those of them that no touch covers,
`surplus` what touches cover beyond them and beyond memory that the operation used as scratch:
blocks that hold no tensor, its temporaries and the libraries' workspaces.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.touches.ranges import Ints, Ranges
from lab.touches.truth import Blocks, Operand, Operation, Truth
from lab.touches.unread import packet
from pump.trace import OpFlag, OpKind, TouchMode, TouchSource, Trace
from pump.trace.trace import Rows

DEVICE_WORK = (OpKind.LAUNCH, OpKind.COPY, OpKind.MEMSET, OpKind.GRAPH)
READS = (TouchMode.READ, TouchMode.UPDATE)
WRITES = (TouchMode.WRITE, TouchMode.UPDATE, TouchMode.SCRATCH)
SHOWN = 10

SURPLUS = {
    "unread": "of tensors that no kernel of the operation touches (lab/touches/unread.py)",
    "holes": "between the elements of a strided tensor",
    "rounding": "up to the next multiple of 512 bytes behind a block",
    "own": "of a block that holds a tensor of the operation, outside of that tensor",
    "other": "of blocks that hold other tensors",
    "remainder": "what the framework's allocator left at a block's end as too small to split off",
    "free": "of the allocator's memory where there is no block",
    "outside": "of allocations that are not the framework's",
}
"""What surplus bytes are, first match first."""


@dataclass(frozen=True)
class Work:
    """Operations of the trace that ran on the device, in order of time."""

    trace: Trace
    rows: Rows
    times: Ints

    @staticmethod
    def of(trace: Trace) -> Work:
        """The device work of a trace."""
        every = trace.operations
        ran = np.isin(every["kind"], DEVICE_WORK) & (every["status"] == 0)
        rows = every[ran & (every["flags"] & OpFlag.CAPTURED == 0)]
        rows = rows[np.argsort(rows["time_ns"], kind="stable")]
        return Work(trace, rows, rows["time_ns"].astype(np.int64))

    def during(self, begin: int, end: int) -> Ints:
        """Indices of what was issued in a time."""
        low, high = np.searchsorted(self.times, [begin, end + 1])
        return np.arange(low, high)

    def label(self, index: int) -> str:
        """The kernel's name, or the call's for what is no launch."""
        row = self.rows[index]
        if row["kind"] == OpKind.LAUNCH:
            return self.trace.function_name(int(row["function"]))
        return self.trace.api_name(int(row["api"]))

    def touches(self, indices: Iterable[int]) -> tuple[Rows, Ints]:
        """All touches of device memory, and which index each belongs to."""
        parts, owners = [self.trace.touches[:0]], [np.zeros(0, dtype=np.int64)]
        for index in indices:
            found = self.trace.touches_of(self.rows[index])
            found = found[found["allocation"] != 0]
            parts.append(found)
            owners.append(np.full(len(found), index))
        return np.concatenate(parts), np.concatenate(owners)


@dataclass(frozen=True)
class Compared:
    """One operation. Counts are bytes."""

    operation: Operation
    counts: Counter[str]
    work: Ints
    missed: Ranges
    surplus: Ranges

    @property
    def wrong(self) -> int:
        """How much there is to explain."""
        return sum(self.counts[name] for name in ("missed", "surplus", "read_only", "overwritten"))


def compare(truth: Truth, trace: Trace) -> dict[str, Any]:
    """What was missed and what was too much, in sums and in the worst cases; plain data."""
    work = Work.of(trace)
    thread_of = _threads(truth, work)
    owned = np.zeros(len(work.rows), dtype=np.bool_)
    done = []
    for operation in truth.operations:
        mine = work.during(operation.begin, operation.end)
        mine = mine[work.rows["thread"][mine] == thread_of.get(operation.thread, -1)]
        owned[mine] = True
        if len(mine):
            done.append(_compare(operation, mine, work, truth))
    sums: Counter[str] = sum((each.counts for each in done), Counter())
    names = ("truth", "missed", "surplus", "read_only", "overwritten", "temporaries", "workspaces")
    step = work.during(truth.begin, truth.end)
    return {
        "operations": len(done),
        "operations_recorded": len(truth.operations),
        "launches": len(step),
        **{name: sums[name] for name in names},
        "surplus_by_kind": {kind: sums[kind] for kind in SURPLUS},
        "without_owner": _without_owner(step[~owned[step]], work),
        "by_operation": _by_operation(done),
        "unread": _unread(done),
        "worst": [
            _explain(each, work)
            for each in heapq.nlargest(SHOWN, done, key=lambda each: each.wrong)
            if each.wrong
        ],
        "unplaced": sum(_unplaced(each.operation, truth) for each in done),
        "history_agrees": truth.agrees,
        "threads": {str(thread): number for thread, number in thread_of.items()},
        "trace_complete": trace.complete,
        "trace_notes": trace.notes,
    }


def _threads(truth: Truth, work: Work) -> dict[int, int]:
    """The number in the trace of each thread that ran operations: whose work falls into them."""
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for operation in truth.operations:
        during = work.during(operation.begin, operation.end)
        seen[operation.thread].update(work.rows["thread"][during].tolist())
    return {thread: each.most_common(1)[0][0] for thread, each in seen.items() if each}


def _compare(operation: Operation, mine: Ints, work: Work, truth: Truth) -> Compared:
    touches, _ = work.touches(mine)
    touched = _bytes_of(touches)
    live = truth.blocks.live(operation)
    scratch = truth.blocks[live & ~truth.known]
    needed = _union(o for o in operation.operands if not o.excused)
    missed, surplus = needed - touched, touched - needed - scratch.bytes
    used = touched & scratch.bytes
    temporary = scratch[scratch.born >= operation.before].bytes
    counts = Counter(
        {
            "truth": needed.bytes,
            "missed": missed.bytes,
            "surplus": surplus.bytes,
            "temporaries": (used & temporary).bytes,
            "workspaces": (used - temporary).bytes,
            **_directions(operation, touches),
            **_kinds(surplus, operation, truth.blocks[live], truth.segments, touches),
        }
    )
    return Compared(operation, counts, mine, missed, surplus)


def _bytes_of(touches: Rows) -> Ranges:
    start = touches["start"].astype(np.int64)
    return Ranges.of(start, start + touches["bytes"].astype(np.int64))


def _in_mode(touches: Rows, modes: tuple[TouchMode, ...]) -> Ranges:
    return _bytes_of(touches[np.isin(touches["mode"], modes)])


def _union(operands: Iterable[Operand]) -> Ranges:
    return Ranges.union(operand.bytes for operand in operands)


def _directions(operation: Operation, touches: Rows) -> dict[str, int]:
    """Bytes with a wrong mode: written, and called read; or kept, and called overwritten."""
    read, write = _in_mode(touches, READS), _in_mode(touches, WRITES)
    written = _union(o for o in operation.operands if o.written)
    kept = _union(o for o in operation.operands if not o.written) - written
    return {
        "read_only": ((written & read) - write).bytes,
        "overwritten": ((kept & write) - read).bytes,
    }


def _kinds(
    surplus: Ranges, operation: Operation, live: Blocks, segments: Ranges, touches: Rows
) -> dict[str, int]:
    """Surplus bytes by what they are."""
    if not surplus.bytes:
        return {}
    operands = operation.operands
    told = _bytes_of(touches[touches["source"] == TouchSource.FRAMEWORK])
    where = {
        "unread": _union(o for o in operands if o.excused),
        "holes": Ranges.union(o.bytes.hull() for o in operands),
        "rounding": live.rounding,
        "own": live[live.with_tensors(operation)].bytes,
        "other": live.bytes,
        "remainder": told & segments,
        "free": segments,
    }
    counts = {}
    for kind in SURPLUS:
        part = surplus & where[kind] if kind in where else surplus
        counts[kind] = part.bytes
        surplus = surplus - part
    return counts


def _unplaced(operation: Operation, truth: Truth) -> int:
    """Bytes of tensors that lie in no block: the record of the blocks would be wrong."""
    if not len(truth.blocks.start):
        return 0
    blocks = truth.blocks[truth.blocks.live(operation)].bytes
    return (_union(operation.operands) - blocks).bytes


def _without_owner(indices: Ints, work: Work) -> dict[str, dict[str, int]]:
    """Work of the step that no operation was running for: how often, and bytes touched."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for index in indices.tolist():
        touches, _ = work.touches([index])
        found[work.label(index)].update(launches=1, bytes=_bytes_of(touches).bytes)
    return {name: dict(each) for name, each in found.items()}


def _by_operation(done: list[Compared]) -> dict[str, dict[str, Any]]:
    """Sums by the operations' names, those with most to explain first."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    missed: dict[str, Counter[str]] = defaultdict(Counter)
    for each in done:
        name = each.operation.name
        sums[name].update(each.counts)
        sums[name]["operations"] += 1
        for operand in each.operation.operands if each.counts["missed"] else ():
            lost = (operand.bytes & each.missed).bytes
            if lost:
                missed[name][re.sub(r"\[\d+\]", "[]", operand.role)] += lost
    order = sorted(sums, key=lambda name: -sums[name]["missed"] - sums[name]["surplus"])
    return {
        name: {**{k: n for k, n in sums[name].items() if n}, "missed_operands": dict(missed[name])}
        for name in order
    }


def _unread(done: list[Compared]) -> list[dict[str, Any]]:
    """Operands that were excused, why, and their bytes in all."""
    sums: Counter[tuple[str, str, str]] = Counter()
    for each in done:
        for operand in each.operation.operands:
            if operand.excused:
                key = (packet(each.operation.name), operand.role, operand.excused.reason)
                sums[key] += operand.bytes.bytes
    return [
        {"operation": name, "operand": role, "reason": reason, "bytes": count}
        for (name, role, reason), count in sorted(sums.items())
    ]


def _explain(each: Compared, work: Work) -> dict[str, Any]:
    """An operation in detail: the operands and touches that went wrong first."""
    touches, owners = work.touches(each.work)
    operands = [
        {
            "role": operand.role,
            "start": int(operand.bytes.start[0]) if operand.bytes.bytes else 0,
            "bytes": operand.bytes.bytes,
            "runs": len(operand.bytes.start),
            "missed": (operand.bytes & each.missed).bytes,
            "written": operand.written,
            "unread": operand.excused is not None,
        }
        for operand in each.operation.operands
    ]
    found = [
        {
            "kernel": work.label(index)[:120],
            "call": work.trace.api_name(int(work.rows[index]["api"])),
            "start": int(touch["start"]),
            "bytes": int(touch["bytes"]),
            "mode": TouchMode(touch["mode"]).name.lower(),
            "source": TouchSource(touch["source"]).name.lower(),
            "surplus": (_bytes_of(touches[i : i + 1]) & each.surplus).bytes,
        }
        for i, (touch, index) in enumerate(zip(touches, owners.tolist(), strict=True))
    ]
    return {
        "operation": each.operation.name,
        **{name: count for name, count in each.counts.items() if count},
        "kernels": [work.label(index)[:120] for index in each.work[:SHOWN].tolist()],
        "operands": heapq.nlargest(SHOWN, operands, key=lambda o: (o["missed"], o["bytes"])),
        "touches": heapq.nlargest(SHOWN, found, key=lambda t: (t["surplus"], t["bytes"])),
    }
