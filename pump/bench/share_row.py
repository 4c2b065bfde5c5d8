"""How well programs share a GPU: the figures of a run, and the bar that each has to reach.

A GPU (`python -m bench.gpu.tenants`) and virtual time (`pump-bench share`) write the same rows.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pump.bench.row import FormatError
from pump.regular import read_regular


class Bar(NamedTuple):
    """most: a figure may not be above it; else it must reach it."""

    bar: float
    unit: str
    most: bool = False


@dataclass(frozen=True)
class Row:
    """The median of the rounds, its bar, and what other ways reach."""

    test: str
    what: str
    figure: float
    bar: float
    unit: str
    most: bool = False
    rounds: Sequence[float] = ()
    ways: Mapping[str, float] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        return self.figure <= self.bar if self.most else self.figure >= self.bar


@dataclass(frozen=True)
class File:
    """What a file of them holds."""

    machine: dict[str, str]
    rows: list[Row]


def decoders_of(count: int, turn_s: float) -> str:
    return f"{count} of 7.3 GiB, turns of {turn_s:g} s"


def trainings_of(turn_s: float) -> str:
    return f"2 of 95 %, turns of {turn_s:g} s"


DECODERS = {(3, 0.5): 80, (4, 0.5): 77, (6, 0.5): 74, (3, 2.0): 94, (4, 2.0): 92, (6, 2.0): 91}
TRAININGS = {2.0: 1.10, 5.0: 1.04}
FITTING = (("gemm-4096",) * 2, ("resnet-32",) * 2, ("gemm-4096", "resnet-32"))
POINTS = Bar(2, "points off", True)
IN_POINTS = ("points off", "points", "%", "% more")
"""Units of what is next to nothing."""
BARS: dict[tuple[str, str], Bar] = {
    **{("decoders", decoders_of(*at)): Bar(bar, "% of alone") for at, bar in DECODERS.items()},
    **{
        ("trainings", trainings_of(at)): Bar(bar, "x serial", True) for at, bar in TRAININGS.items()
    },
    ("trainings", "3 that need 150 %"): Bar(93, "% of ideal"),
    **{("fitting", " and ".join(kinds)): Bar(97, "% of the better") for kinds in FITTING},
    ("limits", "limit of 30 %, over any 5 s"): POINTS,
    ("limits", "limit of 70 %, over any 5 s"): POINTS,
    ("limits", "both limits in sum"): Bar(98, "% of no limit"),
    ("limits", "50 %, alone"): POINTS,
    ("requests", "75 and 25 %, over 20 s"): POINTS._replace(bar=1),
    ("requests", "lost"): Bar(1.5, "%", True),
    ("interactive", "P99 of requests"): Bar(1.3, "x alone", True),
    ("interactive", "the other loses, beyond 20 %"): Bar(3, "points", True),
    ("hand-over", "half of them"): Bar(0.2, "ms", True),
    ("hand-over", "99 of 100"): Bar(1.0, "ms", True),
    ("first token", "15 GiB, away"): Bar(0.6, "s", True),
    ("alone", "a step, beside no broker"): Bar(0.3, "% more", True),
    ("suspend", "60 GiB, all dirty"): Bar(1.5, "s", True),
    ("suspend", "60 GiB, beside copying it"): Bar(1.3, "times", True),
    ("suspend", "60 GiB, back to the last byte"): Bar(1.4, "s", True),
    ("suspend", "first operation after it"): Bar(50, "ms", True),
    ("suspend", "stays: the context"): Bar(600, "MiB", True),
    ("suspend", "a decoder of 15 GiB, once more"): Bar(0.1, "s", True),
    ("suspend", "stays: with --with-context"): Bar(10, "MiB", True),
    ("suspend", "out, beside the driver's checkpoint"): Bar(8, "times as fast"),
    ("suspend", "in, beside it"): Bar(5, "times as fast"),
}


def row(test: str, what: str, rounds: Sequence[float], **ways: float) -> Row:
    """The median of the rounds, with its bar."""
    return Row(test, what, statistics.median(rounds), *BARS[test, what], rounds, ways)


def in_words(one: Row) -> str:
    """Its bar."""
    return f"{'≤' if one.most else '≥'} {one.bar:g}"


def apart(one: Row, other: Row) -> float:
    """How far figures differ: as a share, or where they are points themselves, in these."""
    if one.unit in IN_POINTS:
        return abs(one.figure - other.figure) / 100
    return abs(one.figure / other.figure - 1)


def line(one: Row) -> str:
    """For a person."""
    all_of = " ".join(f"{x:.3g}" for x in one.rounds[:8])
    told = f"{one.figure:8.3f} {in_words(one):6} {one.unit:18} {one.test}: {one.what} ({all_of})"
    return f"{'ok  ' if one.held else 'MISS'} {told}"


def to_json(machine: Mapping[str, str], rows: Sequence[Row]) -> dict[str, Any]:
    """What a file of them holds."""
    return {"machine": machine, "rows": [asdict(one) | {"held": one.held} for one in rows]}


def read_rows(path: Path) -> tuple[dict[str, str], list[Row]]:
    """The machine and the rows of such a file. Raises FormatError, OSError."""
    import msgspec  # which a machine that only measures need not have

    try:
        found = msgspec.json.decode(read_regular(path), type=File)
    except msgspec.DecodeError as error:
        raise FormatError(f"{path} holds no rows of sharing ({error})") from error
    return found.machine, found.rows
