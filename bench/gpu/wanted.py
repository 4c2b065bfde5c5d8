"""Which runs of a workload are to be made, and which need not be."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.gpu import workloads
from bench.gpu.budget import capacity_at
from pump.bench.row import Row
from pump.bench.runner import Asked
from pump.predict.systems import ALIKE, BY_NAME


def runs_of(asked: Asked) -> list[tuple[str, float]]:
    """Systems and ratios: native once, the others by ratio."""
    native = [("native", 1.0)] if "native" in asked.systems else []
    others = [system for system in asked.systems if system != "native"]
    return native + [(system, over) for over in asked.ratios for system in others]


def varying(runs: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Those that are worth another process: where nothing moves one is like another."""
    return [run for run in runs if not BY_NAME[run[0]].in_place]


def known_from(rows: Iterable[Row], system: str, over: float) -> Row | None:
    """What a run will be, by other ratios of its workload: where nothing moves one is like
    another, and a program that ran out of memory does so with less. So is one of ALIKE, where no
    kernel could have touched what nothing shows. None: that must be seen.
    """
    for row in rows:
        doubted = [row.counters.get(name) for name in ("opaque", "untrusted")]
        trusted = doubted == [0, 0] and not row.failed
        if (row.system, system) == ALIKE and row.oversubscription == over and trusted:
            return replace(row, system=system)
        ran_out = system in workloads.VARIANTS and row.failed and row.oversubscription <= over
        if row.system == system and (BY_NAME[system].in_place or ran_out):
            capacity = capacity_at(row.footprint_bytes, over)
            return replace(row, oversubscription=over, capacity_bytes=capacity)
    return None


def wanted_of(name: str, asked: Asked) -> list[tuple[str, float]]:
    """The runs of a workload that are missing. What runs beside others' results needs a native run
    of its own.
    """
    known, elsewhere = (
        [row for row in rows if row.workload == name] for rows in (asked.known, asked.elsewhere)
    )

    def lacks(rows: Sequence[Row], run: tuple[str, float]) -> bool:
        return all((row.system, row.oversubscription) != run for row in rows)

    runs = [run for run in runs_of(asked) if lacks(known, run)]
    missing = [run for run in runs if lacks(elsewhere, run) and not known_from(elsewhere, *run)]
    return [run for run in runs if run in missing or (missing and run[0] == "native")]
