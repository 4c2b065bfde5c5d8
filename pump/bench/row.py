"""Results: a row a run, kept as JSON beside the machine they were made on."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Literal, NamedTuple

from pump.predict.systems import OVER
from pump.regular import read_regular
from pump.whole import write_whole

FORMAT = "pump-bench 1"
WANTED = f"what `pump-bench run --json` writes is wanted, of format `{FORMAT}`"
FAILED = "failed"
MEMORY, NO_MEMORY = ("OutOfMemory", "ALLOC_FAILED"), "no memory"
"""In why a run failed, and in place of its time."""


class Run(NamedTuple):
    """What makes two rows comparable."""

    workload: str
    device: str
    system: str
    oversubscription: float


class FormatError(ValueError):
    """The file holds no results; the text says why."""


class ForeignError(FormatError):
    """Something else wrote it."""


@dataclass(frozen=True)
class Row:
    """A workload under a system with less memory than it needs. None: not known there."""

    workload: str
    device: str  # sim, emulator or gpu
    system: str
    oversubscription: float  # footprint : capacity
    capacity_bytes: int  # what the program's data may occupy of the device at a time
    footprint_bytes: int
    step_ms: list[float]  # every repetition
    native_ms: float  # a step, everything resident
    bound_ms: float | None = None  # no schedule takes less
    oracle_ms: float | None = None  # farthest next touch that knows everything
    bytes_in: float | None = None  # a step, over the link
    bytes_out: float | None = None
    faults: float | None = None  # pages a step that kernels had to bring
    gate_ms: float | None = None  # a step's time in which the next operation was held
    own_ms: float | None = None  # the program's time in our code, beside that, while pages move
    counters: dict[str, float] = field(default_factory=dict)  # of ulms.so, a step, beside these
    held: dict[str, list[float]] = field(default_factory=dict)
    """The kernels and calls that were held longest: ms a step, MiB a step that they waited for."""
    numbers_equal: bool | None = None  # the native run's: to the last bit, or as it is told
    over_budget: bool | None = None  # more than its capacity was resident: its time is none
    resident_bytes: int | None = None  # of its data, at most, really on the device (NVML, emulator)
    beside_bytes: int | None = None  # in use on the device beside it: context, libraries
    operation_bytes: int | None = None  # the most that one operation touched: may be beyond
    failed: str = ""  # why there is no time: step_ms is empty

    @property
    def run(self) -> Run:
        """Its key."""
        return Run(self.workload, self.device, self.system, self.oversubscription)

    @property
    def ms(self) -> float:
        """The median of the repetitions."""
        return median(self.step_ms)

    @property
    def no_time(self) -> str:
        """Why it has no time that counts, in a word; "": it has."""
        if self.failed:
            return NO_MEMORY if any(word in self.failed for word in MEMORY) else FAILED
        return OVER if self.over_budget else ""


def pooled(rows: Sequence[Row]) -> Row:
    """One of several processes of a run, each with as many steps: every repetition, the mean of
    what a step moves, the median of their native steps. What failed in one has failed.
    """
    if failed := next((row for row in rows if row.failed), None):
        return failed

    def most(told: Sequence[int | None]) -> int | None:
        known = [value for value in told if value is not None]
        return max(known) if len(known) == len(rows) else None

    def mean(told: Sequence[float | None]) -> float | None:
        known = [value for value in told if value is not None]
        return fmean(known) if len(known) == len(rows) else None

    return replace(
        rows[0],
        step_ms=[ms for row in rows for ms in row.step_ms],
        native_ms=median(row.native_ms for row in rows),
        counters={key: fmean(row.counters[key] for row in rows) for key in rows[0].counters},
        numbers_equal=all(row.numbers_equal for row in rows),
        bytes_in=mean([row.bytes_in for row in rows]),
        bytes_out=mean([row.bytes_out for row in rows]),
        faults=mean([row.faults for row in rows]),
        gate_ms=mean([row.gate_ms for row in rows]),
        own_ms=mean([row.own_ms for row in rows]),
        over_budget=any(row.over_budget for row in rows) if judged(rows) else None,
        resident_bytes=most([row.resident_bytes for row in rows]),
        operation_bytes=most([row.operation_bytes for row in rows]),
    )


def judged(rows: Iterable[Row]) -> bool:
    """Whether all are known to have kept to their budgets, or not to."""
    return all(row.over_budget is not None for row in rows)


def timed(rows: Iterable[Row]) -> list[Row]:
    """Those that have a time which counts."""
    return [row for row in rows if not row.no_time]


@dataclass(frozen=True)
class Results:
    """The machine's description, rows with times, and those that failed."""

    machine: dict[str, str]
    rows: list[Row]
    failures: list[Row] = field(default_factory=list)

    @staticmethod
    def of(machine: dict[str, str], rows: Iterable[Row]) -> "Results":
        """Both kinds of rows."""
        told = list(rows)
        timed = [row for row in told if not row.failed]
        return Results(machine, timed, [row for row in told if row.failed])

    @property
    def every(self) -> list[Row]:
        """Both kinds."""
        return [*self.rows, *self.failures]


@dataclass(frozen=True)
class File:
    """What a file of results holds."""

    format: Literal["pump-bench 1"]
    machine: dict[str, str]
    rows: list[Row]

    def __post_init__(self) -> None:
        if lost := [row.run for row in self.rows if not row.step_ms and not row.failed]:
            raise ValueError(f"{' '.join(map(str, lost[0]))}: it has no time, and has not failed")


def common_runs(every: Iterable[Results]) -> list[Run]:
    """Those that are in more than one. A native run is none: others are put beside it."""
    files = Counter(run for told in every for run in dict.fromkeys(r.run for r in told.every))
    return [run for run, count in files.items() if count > 1 and run.system != "native"]


def together(every: Sequence[Results]) -> Results:
    """As one, of the last one's machine."""
    rows = [row for told in every for row in told.rows]
    failures = [row for told in every for row in told.failures]
    return Results(every[-1].machine, rows, failures)


def write_results(path: Path, machine: dict[str, str], rows: Sequence[Row]) -> None:
    """Writes JSON; a file that there is stays whole until the new one is. Raises OSError."""
    told = {"format": FORMAT, "machine": machine, "rows": [asdict(row) for row in rows]}
    write_whole(path, json.dumps(told, indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Results as they were written. Raises FormatError, OSError."""
    import msgspec  # which a machine that only measures need not have

    try:
        told = msgspec.json.decode(read_regular(path))
    except msgspec.DecodeError as error:
        raise FormatError(f"{path} is no JSON ({error}): {WANTED}") from error
    kind = told.get("format") if isinstance(told, dict) else None
    if kind != FORMAT:
        said = f"says that it is `{kind}`" if kind else "does not say what it is"
        raise ForeignError(f"{path} {said}: {WANTED}")
    try:
        found = msgspec.convert(told, File)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path} holds rows that cannot be read ({error}): {WANTED}") from error
    return Results.of(found.machine, found.rows)


def results_at(path: Path) -> list[Results]:
    """Of a file, or of every file of a folder that has some. Raises FormatError, OSError."""
    if not path.is_dir():
        return [read_results(path)]
    found = []
    for file in sorted(path.glob("*.json")):
        with suppress(ForeignError):
            found.append(read_results(file))
    return found
