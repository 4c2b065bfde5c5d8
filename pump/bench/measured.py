"""Bound and oracle beside rows that a GPU measured, of workloads whose recorded step is known.

A step's operations take as long as where they were recorded, all by the factor that makes their sum
the native time that was measured. Wires are those of the GPU's row in pump.sim.hardware, as fast as
they were measured to be where that was done (bench/gpu/link.py).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pump.bench.machine import figure_in
from pump.bench.row import Row
from pump.bench.steps import ELSEWHERE
from pump.paths import traces
from pump.predict.processes import results
from pump.predict.systems import BY_NAME, GPU
from pump.predict.yardstick import INTERVALS, WIRES, Case, Yardstick, sequence_at, yardstick
from pump.sim.hardware import INTERCONNECTS, Gpu, gpu_named, link_over
from pump.sim.link import PAGE_BYTES, Link

ALIKE = 0.2
"""A recorded step is the program's if it needs as much memory, give or take this share."""
TOO_FAST = 0.9
"""Of the bound: a row below it had more resident than its budget. The bound depends on the link and
the native step, which were measured.
"""


def step_of(workload: str) -> Path | None:
    """The recorded step of a program of bench/gpu/workloads; None: there is none."""
    return traces().get(ELSEWHERE.get(workload, workload))


def wires_of(gpu: Gpu, machine: Mapping[str, str]) -> Link:
    """Of a machine's description. Raises ValueError where its rates are none."""
    return copying_as(machine, link_over(INTERCONNECTS[gpu.interconnect], WIRES))


def copying_as(machine: Mapping[str, str], link: Link) -> Link:
    """The link at the rates of copies that a machine's description has; a rate that it does not
    have stays. Raises ValueError where it is none.
    """
    rates: dict[str, Any] = {}
    for way in ("in", "out", "both"):
        if text := machine.get(f"link_{way}"):
            rates[f"rate_{way}"] = figure_in(text)
    return replace(link, **rates)


def case_of(row: Row, wires: Link, intervals: int = INTERVALS) -> Case | None:
    """What the yardstick of a row is of; None: it has none. Raises SequenceError, OSError."""
    path = step_of(row.workload)
    if not path or not moves(row):
        return None
    step = sequence_at(path)
    if abs(step.footprint(PAGE_BYTES) / row.footprint_bytes - 1) > ALIKE:
        return None
    return Case(
        path,
        row.capacity_bytes // PAGE_BYTES,
        intervals,
        wires,
        row.native_ms * 1e6 / step.native_ns(),
    )


def moves(row: Row) -> bool:
    """A GPU ran it, under a system that moves pages."""
    system = BY_NAME.get(row.system)
    return row.device == GPU and system is not None and bool(system.link)


def with_yardsticks(
    rows: Sequence[Row],
    machine: Mapping[str, str],
    intervals: int = INTERVALS,
    progress: Callable[[str], None] = lambda done: None,
) -> list[Row]:
    """The rows, those that can have them with bound and oracle: of the step as it is recorded now.

    machine: its description; of a GPU that pump.sim.hardware has not nothing is known. progress:
    told each program and what it had, GiB. Raises SequenceError, OSError.
    """
    gpu = gpu_named(machine.get("gpu", ""))
    if not gpu:
        return list(rows)
    wires = wires_of(gpu, machine)
    cases = [case_of(row, wires, intervals) for row in rows]
    sticks = {}
    for case, stick in results(yardstick, list(dict.fromkeys(filter(None, cases)))):
        sticks[case] = stick
        progress(f"bound and oracle: {case.path.name}, {case.pages} pages")
    return [
        beside(row, sticks[case]) if case else row for row, case in zip(rows, cases, strict=True)
    ]


def beside(row: Row, stick: Yardstick) -> Row:
    """The row with its bound and oracle. A time that no schedule reaches counts nowhere."""
    row = replace(row, bound_ms=stick.bound_ms, oracle_ms=stick.oracle_ms)
    fast = not row.failed and stick.bound_ms is not None and row.ms < TOO_FAST * stick.bound_ms
    return replace(row, over_budget=True) if fast else row


def left_out(rows: Sequence[Row], gpu: str) -> Iterator[str]:
    """Why rows that move pages lack what `with_yardsticks` gives, a line each reason."""
    bare = [row for row in rows if moves(row) and not row.oracle_ms]
    unlike = dict.fromkeys(row.workload for row in bare if not row.bound_ms)
    large = dict.fromkeys(row.workload for row in bare if row.bound_ms)
    if bare and not gpu_named(gpu):
        yield f"no oracle, no bound: the link of {gpu} is not known (pump plan --hardware)"
        return
    if unlike:
        yield f"no oracle, no bound where no recorded step is alike: {', '.join(unlike)}"
    if large:
        yield f"no oracle where one operation touches more than there is: {', '.join(large)}"
