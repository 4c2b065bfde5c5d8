"""Recorded steps under the systems that virtual time can play truthfully.

Deterministic: the same rows on every machine. Where scipy is not installed there is no bound.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from pump.bench.row import Row
from pump.paths import trace_name
from pump.predict.budgeted import Budgeted
from pump.predict.oracle import Schedule
from pump.predict.processes import results
from pump.predict.systems import ALIKE, BY_NAME, SIM
from pump.predict.yardstick import INTERVALS, WIRES, Case, Yardstick, sequence_at, yardstick
from pump.sim.engine import READ, UPDATE, WRITE, CompiledEngine
from pump.sim.link import PAGE_BYTES, Link, figure, link_for
from pump.sim.sequence import Operation
from pump.sim.sequence import Sequence as Recorded
from pump.sim.simulator import settings_for

MAIN = ("gpt2-medium", "decode-8b", "resnet50")
"""Recorded steps of the main comparison, which is to be done in a minute; all take several."""


@dataclass(frozen=True)
class Task:
    """Runs of systems that may be alike, or a yardstick where there is none. Whole pages."""

    path: Path
    over: float
    systems: tuple[str, ...] = ()
    intervals: int = 0


Progress = Callable[[Task], None]


def budget_pages(sequence: Recorded, link: Link, over: float) -> int:
    """What is left when memory is short by that factor."""
    return int(sequence.footprint(PAGE_BYTES) / over) // link.page_bytes


def simulate(path: Path, name: str, system: str, link: Link, over: float) -> Row:
    """A row without yardsticks. Raises ValueError for a system that is not simulated."""
    sequence, one = sequence_at(path), BY_NAME[system]
    pages = budget_pages(sequence, link, over)
    footprint = sequence.footprint(PAGE_BYTES)
    row = Row(
        workload=name,
        device=SIM,
        system=system,
        oversubscription=over,
        capacity_bytes=pages * link.page_bytes,
        footprint_bytes=footprint,
        step_ms=[sequence.native_ns() / 1e6],
        native_ms=sequence.native_ns() / 1e6,
        bytes_in=0.0,
        bytes_out=0.0,
        faults=0.0,
        gate_ms=0.0,
        over_budget=False,
    )
    if system == "native":
        return replace(row, oversubscription=1.0, capacity_bytes=footprint)
    if system == "zero-copy":
        ns, bytes_in, bytes_out = in_place(sequence)
        return replace(row, step_ms=[ns / 1e6], bytes_in=bytes_in, bytes_out=bytes_out)
    if not one.policy:
        raise ValueError(f"{system} is not simulated")
    engine = CompiledEngine(settings_for(link, one.policy, pages * link.page_bytes))
    played = Budgeted(engine, link, one.policy)
    result = played.run(sequence)
    return replace(
        row,
        over_budget=played.over_budget,
        step_ms=[ns / 1e6 for ns in result.steps_ns],
        bytes_in=result.bytes_in,
        bytes_out=result.bytes_out,
        faults=result.sums.faulted_bytes / result.steps / link.page_bytes,
        gate_ms=result.gate_ms,
    )


def in_place(sequence: Recorded) -> tuple[float, int, int]:
    """Nanoseconds, bytes read and written of a step whose every byte is touched over the link.

    Each range counts once an operation, and a sparse one not at all, so this is the least: a kernel
    that reads a range again takes longer.
    """
    ns, all_in, all_out = 0.0, 0, 0
    for event in sequence.steps[-1]:
        if not isinstance(event, Operation):
            continue
        read = sum(t.bytes for t in event.touches if t.mode in (READ, UPDATE))
        written = sum(t.bytes for t in event.touches if t.mode in (WRITE, UPDATE))
        both = min(read, written)
        over_link = both / figure("in-place.each")
        over_link += (read + written - 2 * both) / figure("in-place")
        ns += max(event.duration_ns, over_link)
        all_in, all_out = all_in + read, all_out + written
    return ns, all_in, all_out


def work(task: Task) -> list[Row] | Yardstick:
    """Does a task; for another process."""
    if not task.systems:
        pages = budget_pages(sequence_at(task.path), WIRES, task.over)
        return yardstick(Case(task.path, pages, task.intervals))
    rows: list[Row] = []
    for system in task.systems:
        if rows and sequence_at(task.path).trusted:  # then ALIKE are one
            rows.append(replace(rows[0], system=system))
        else:
            name = BY_NAME[system].link
            link = link_for(name, sequence_at(task.path)) if name else WIRES
            rows.append(simulate(task.path, trace_name(task.path), system, link, task.over))
    return rows


def label(task: Task) -> str:
    """What a person is told that is being done."""
    what = " and ".join(task.systems) or "bound and oracle"
    return f"{trace_name(task.path)} {task.over:g}: {what}"


def tasks_for(
    paths: Iterable[Path], systems: Sequence[str], ratios: Sequence[float], intervals: int
) -> list[Task]:
    """Every run, and behind those of a ratio, if some move pages, a yardstick."""
    tasks = []
    alike = tuple(name for name in ALIKE if name in systems)
    others = [name for name in systems if name not in ("native", "oracle", *ALIKE)]
    for path in paths:
        if "native" in systems:
            tasks.append(Task(path, 1.0, ("native",)))
        for over in ratios:
            tasks += [Task(path, over, (name,)) for name in others]
            tasks += [Task(path, over, alike)] if alike else []
            if any(BY_NAME[name].link for name in systems):
                tasks.append(Task(path, over, (), intervals))
    return tasks


def rows_of(
    paths: Sequence[Path],
    systems: Sequence[str],
    ratios: Sequence[float],
    intervals: int = INTERVALS,
    progress: Progress = lambda done: None,
    workers: int | None = None,
    keep: Callable[[list[Row]], None] = lambda rows: None,
) -> list[Row]:
    """Every row asked for, in order of workload, over-subscription and system.

    progress: told each task that is done. keep: given all rows there are, after each. Raises
    ValueError where a budget is less than a page.
    """
    rows: dict[tuple[Path, float], list[Row]] = {}
    order, workloads = list(BY_NAME), [trace_name(path) for path in paths]

    def place(row: Row) -> tuple[int, float, int]:
        return workloads.index(row.workload), row.oversubscription, order.index(row.system)

    def ordered() -> list[Row]:
        return sorted(chain.from_iterable(rows.values()), key=place)

    for task, result in results(work, tasks_for(paths, systems, ratios, intervals), workers):
        here = rows.setdefault((task.path, task.over), [])
        if isinstance(result, Yardstick):
            rows[task.path, task.over] = measured(here, task, result, "oracle" in systems)
        else:
            here += result
        keep(ordered())
        progress(task)
    return ordered()


def measured(rows: Sequence[Row], task: Task, stick: Yardstick, oracle: bool) -> list[Row]:
    """Rows of a ratio with their yardstick; with the oracle's own, if that is asked for."""
    told = [
        replace(row, bound_ms=stick.bound_ms, oracle_ms=stick.oracle_ms)
        if BY_NAME[row.system].link
        else row
        for row in rows
    ]
    if oracle and stick.oracle:
        told.append(oracle_row(task, stick.oracle, stick.bound_ms))
    return told


def oracle_row(task: Task, reached: Schedule, bound_ms: float | None) -> Row:
    """What the oracle reaches, as a system of its own."""
    ms = reached.ns / 1e6
    return replace(
        simulate(task.path, trace_name(task.path), "native", WIRES, task.over),
        system="oracle",
        oversubscription=task.over,
        capacity_bytes=budget_pages(sequence_at(task.path), WIRES, task.over) * WIRES.page_bytes,
        step_ms=[ms],
        bound_ms=bound_ms,
        oracle_ms=ms,
        bytes_in=reached.pages_in * WIRES.page_bytes,
        bytes_out=reached.pages_out * WIRES.page_bytes,
        faults=0.0,
        gate_ms=max(0.0, ms - sequence_at(task.path).native_ns() / 1e6),
    )
