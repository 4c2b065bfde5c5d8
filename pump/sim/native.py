"""What operations take where everything fits, by a trace that was taken while pages moved.

An operation ran at its own speed if all its pages were on the device when it began. What it takes
is a low quartile of the times of operations alike that did: such an operation may have begun late,
behind a mover's call. If none did, it takes no longer than the shortest of them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from pump.sim.engine import Touch
from pump.sim.link import PAGE_BYTES, figure
from pump.sim.sequence import Block, pages_of
from pump.trace import MoveFlag, MoveKind, Trace


class Ran(NamedTuple):
    """An operation that ran: its serial and key, when it began, how long it took, nanoseconds."""

    serial: int
    key: int
    start_ns: int
    ns: int
    touches: tuple[Touch, ...]

    @property
    def like(self) -> object:
        """What it has in common with operations alike."""
        return self.key, *((touch.bytes, touch.mode) for touch in self.touches)


class Times(NamedTuple):
    """What operations take where everything fits, and which never had all their pages: serials."""

    ns: Mapping[int, int]
    untold: frozenset[int]


def native_times(trace: Trace, operations: Iterable[Ran]) -> Times:
    """Of a trace with moves."""
    operations = sorted(operations, key=lambda ran: ran.start_ns)
    alike: dict[object, list[tuple[Ran, bool]]] = defaultdict(list)
    for ran, there in zip(operations, resident(trace, operations), strict=True):
        alike[ran.like].append((ran, there))
    ns: dict[int, int] = {}
    untold: list[int] = []
    for some in alike.values():
        own = sorted(ran.ns for ran, there in some if there)
        takes = own[len(own) // 4] if own else min(ran.ns for ran, _ in some)
        ns |= {ran.serial: takes for ran, _ in some}
        untold += [] if own else [ran.serial for ran, _ in some]
    return Times(ns, frozenset(untold))


def resident(trace: Trace, operations: Iterable[Ran]) -> Iterator[bool]:
    """Whether each had all its pages on the device when it began; they are in that order."""
    moves = trace.moves[(trace.moves["flags"] & MoveFlag.FAILED) == 0]
    late = 0 if trace.machine.get("backend") == "vmm" else 1 / figure("um.fault")
    behind = (late * moves["bytes"]).astype(np.uint64)  # bytes that follow the call
    fills = moves["kind"] == MoveKind.FILL
    when = np.where(fills, moves["time_ns"] + behind, moves["begun_ns"])
    order = np.argsort(when, kind="stable")
    told = moves[order][["start", "bytes", "kind", "time_ns"]].tolist()
    events = zip(when[order].tolist(), told, strict=True)
    away: dict[int, int] = {}  # pages, and since when
    event = next(events, None)
    for ran in operations:
        while event and event[0] <= ran.start_ns:
            at, (start, size, kind, done_ns) = event
            for page in pages_of([Block(start, size)], PAGE_BYTES):
                if kind == MoveKind.EVICT:
                    away[page] = at
                elif away.get(page, 0) < done_ns:
                    away.pop(page, None)
            event = next(events, None)
        yield away.keys().isdisjoint(pages_of(ran.touches, PAGE_BYTES))
