"""What a trace says of pages that moved and of operations that were held."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pump.trace.trace import Rows, Trace
from pump.trace.words import MoveFlag, MoveKind


@dataclass(frozen=True)
class MoveUse:
    """The moves of one kind."""

    what: str
    moves: int
    bytes: int
    ns: int
    """Their time, overlap counted twice."""
    median_ns: int
    longest_ns: int
    """Of one: far above the median where moves wait for others' calls."""


@dataclass(frozen=True)
class HeldUse:
    """All times that launches of one kernel, or other operations of one call, were held."""

    name: str
    times: int
    ns: int
    missing_bytes: int
    """Of the pages that they waited for."""


@dataclass(frozen=True)
class Paging:
    """Empty where all memory fitted, or nothing was to move."""

    moves: list[MoveUse]
    holds: int
    held_ns: int
    held: list[HeldUse]
    """Longest first."""
    counters: dict[str, int]
    """The live counters when they were last recorded."""


def paging_of(trace: Trace) -> Paging:
    """Sums up moves and holds."""
    return Paging(
        moves=_moves(trace),
        holds=len(trace.holds),
        held_ns=int(trace.holds["ns"].sum()),
        held=_held(trace),
        counters=trace.counted(trace.counts[-1]) if len(trace.counts) else {},
    )


def kind_of(move: np.void) -> str:
    """What a move does, in words. As the engine counts it: what is dead or clean has no bytes."""
    way = "in" if move["kind"] == MoveKind.FILL else "out"
    flags = int(move["flags"]) & ~(0 if way == "in" else MoveFlag.EARLY)
    special = next((word for flag, word in _SPECIAL.items() if flags & flag), "")
    return f"{way}, {special}" if special else way


_SPECIAL = {
    MoveFlag.FAILED: "refused",
    MoveFlag.DISCARDED: "discarded",
    MoveFlag.DEAD: "dead",
    MoveFlag.CLEAN: "unchanged",
    MoveFlag.EARLY: "ahead of need",
}


def move_ns(moves: Rows) -> npt.NDArray[np.int64]:
    """How long each move took."""
    ns: npt.NDArray[np.int64] = (moves["time_ns"] - moves["begun_ns"]).astype(np.int64)
    return ns.clip(min=0)


def _moves(trace: Trace) -> list[MoveUse]:
    kinds = np.array([kind_of(row) for row in trace.moves], dtype=np.str_)
    ns = move_ns(trace.moves)
    uses = []
    for what in np.unique(kinds):
        mine = kinds == what
        took = ns[mine]
        bytes_moved = int(trace.moves["bytes"][mine].sum())
        median, longest = int(np.median(took)), int(took.max())
        uses.append(MoveUse(str(what), len(took), bytes_moved, int(took.sum()), median, longest))
    return uses


def _held(trace: Trace) -> list[HeldUse]:
    sums: dict[str, list[int]] = {}
    for row, name in zip(trace.holds, trace.labels(trace.holds["operation"]), strict=True):
        use = sums.setdefault(name, [0, 0, 0])
        for i, value in enumerate((1, int(row["ns"]), int(row["missing"]))):
            use[i] += value
    uses = [HeldUse(name, *values) for name, values in sums.items()]
    return sorted(uses, key=lambda use: (-use.ns, use.name))
