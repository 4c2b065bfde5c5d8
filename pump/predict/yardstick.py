"""Bound and oracle of a recorded step: what wires allow with a budget, whatever is sent over them.

Recorded steps and their periods are read once a process.
"""

import importlib.util
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pump.predict.oracle import Schedule, oracle
from pump.sim.link import LINKS, PAGE_BYTES, Link
from pump.sim.period import Period, page_times, period_of
from pump.sim.recorded import open_sequence
from pump.sim.sequence import Sequence

WIRES = replace(LINKS["vmm"], page_bytes=PAGE_BYTES)  # plain copies: nothing is faster, or finer
INTERVALS = 30  # of the bound; twice as many raise it by a hundredth to a fifth and take longer


@dataclass(frozen=True)
class Case:
    """What a yardstick is of: a recorded step, and pages of the wires that may be resident."""

    path: Path
    pages: int
    intervals: int = INTERVALS  # of the bound; 0: none
    wires: Link = WIRES
    times: float = 1.0  # as long as where the step was recorded an operation takes


@dataclass(frozen=True)
class Yardstick:
    """What the wires allow a workload with a budget. None: no scipy, or no intervals; and no
    oracle where an operation is larger than the budget.
    """

    bound_ms: float | None
    oracle: Schedule | None

    @property
    def oracle_ms(self) -> float | None:
        """A step of the oracle's."""
        return self.oracle.ns / 1e6 if self.oracle else None


@cache
def sequence_at(path: Path) -> Sequence:
    """A recorded step. Raises SequenceError, OSError."""
    return open_sequence(path)


@cache
def period_at(path: Path, page_bytes: int) -> Period:
    """The same, as a period. Raises SequenceError, OSError."""
    return period_of(sequence_at(path), page_bytes)


def bounded() -> bool:
    """There is what the bound needs."""
    return importlib.util.find_spec("scipy") is not None


def yardstick(case: Case) -> Yardstick:
    """Bound and oracle. Raises SequenceError, OSError."""
    period, times = period_at(case.path, case.wires.page_bytes), page_times(case.wires)
    period = replace(period, durations=[round(case.times * ns) for ns in period.durations])
    pages = min(case.pages, period.pages)
    reached = oracle(period, pages, times) if pages >= period.largest else None
    if not case.intervals or not bounded():
        return Yardstick(None, reached)
    from pump.predict.bound import bound

    return Yardstick(bound(period, pages, times, case.intervals) / 1e6, reached)
