"""Recorded steps under the systems that virtual time can play truthfully.

Deterministic: the same rows on every machine. Where scipy is not installed there is no bound.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pump.bench.budgeted import Budgeted
from pump.bench.oracle import Schedule
from pump.bench.processes import results
from pump.bench.row import Row
from pump.bench.systems import BY_NAME, SIM
from pump.bench.yardstick import INTERVALS, WIRES, Case, Yardstick, sequence_at, yardstick
from pump.paths import trace_name
from pump.sim.engine import READ, UPDATE, WRITE, CompiledEngine
from pump.sim.link import PAGE_BYTES, Link, figure, link_for
from pump.sim.sequence import Operation
from pump.sim.sequence import Sequence as Recorded
from pump.sim.simulator import settings_for

MAIN = ("gpt2m", "llama", "resnet")
"""Recorded steps of the main comparison, which is to be done in a minute; all take several."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """One run, or a yardstick where `system` is empty. Whole pages."""

    path: Path
    over: float
    system: str = ""
    intervals: int = 0


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


def work(task: Task) -> Row | Yardstick:
    """Does a task; for another process."""
    if task.system:
        name = BY_NAME[task.system].link
        link = link_for(name, sequence_at(task.path)) if name else WIRES
        return simulate(task.path, trace_name(task.path), task.system, link, task.over)
    pages = budget_pages(sequence_at(task.path), WIRES, task.over)
    return yardstick(Case(task.path, pages, task.intervals))


def label(task: Task) -> str:
    """What a person is told that is being done."""
    return f"{trace_name(task.path)} {task.over:g}: {task.system or 'bound and oracle'}"


def tasks_for(
    paths: Iterable[Path], systems: Sequence[str], ratios: Sequence[float], intervals: int
) -> list[Task]:
    """Every run, and a yardstick for those of a ratio that move pages."""
    tasks = []
    for path in paths:
        if "native" in systems:
            tasks.append(Task(path, 1.0, "native"))
        for over in ratios:
            runs = [name for name in systems if name not in ("native", "oracle")]
            tasks += [Task(path, over, name) for name in runs]
            if any(BY_NAME[name].link for name in systems):
                tasks.append(Task(path, over, "", intervals))
    return tasks


def rows_of(
    paths: Sequence[Path],
    systems: Sequence[str],
    ratios: Sequence[float],
    intervals: int = INTERVALS,
    progress: Progress = lambda done: None,
    workers: int | None = None,
) -> list[Row]:
    """Every row asked for, in order of workload, over-subscription and system.

    Raises ValueError where a budget is less than a page.
    """
    tasks = tasks_for(paths, systems, ratios, intervals)
    done: dict[Task, Row | Yardstick] = {}
    for task, result in results(work, tasks, workers):
        done[task] = result
        progress(label(task))
    order = list(BY_NAME)
    workloads = [trace_name(path) for path in paths]
    return sorted(
        joined(done, systems),
        key=lambda row: (
            workloads.index(row.workload),
            row.oversubscription,
            order.index(row.system),
        ),
    )


def joined(done: dict[Task, Row | Yardstick], systems: Sequence[str]) -> Iterator[Row]:
    """Rows with their yardsticks, and those of the oracle."""
    sticks = {
        (task.path, task.over): result
        for task, result in done.items()
        if isinstance(result, Yardstick)
    }
    for task, result in done.items():
        stick = sticks.get((task.path, task.over))
        if isinstance(result, Row):
            measured = stick and BY_NAME[task.system].link
            told = (stick.bound_ms, stick.oracle_ms) if stick and measured else (None, None)
            yield replace(result, bound_ms=told[0], oracle_ms=told[1])
        elif "oracle" in systems and result.oracle:
            yield oracle_row(task, result.oracle, result.bound_ms)


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
