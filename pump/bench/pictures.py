"""Which pictures of results there are, and where they are written."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from pump import paths
from pump.bench import plots, simulate
from pump.bench.row import Row
from pump.bench.timeline import Timeline, record, write_timeline
from pump.predict import yardstick
from pump.predict.plots import INSTALL, can_plot
from pump.predict.processes import results
from pump.predict.systems import BY_NAME, OURS
from pump.sim.link import PAGE_BYTES, link_for
from pump.sim.simulator import settings_for
from pump.sizes import format_size

OVER = 2.0
"""Memory needed : memory there is, where residency over time is shown if that was run."""
SHOWN = "vmm"
"""The system whose residency is shown where nobody asked for systems."""


class Watch(NamedTuple):
    """A recorded step whose residency is shown, under a system of ours."""

    name: str
    system: str
    over: float


def watched(rows: Sequence[Row], asked: Collection[str] | None) -> list[Watch]:
    """Of rows of virtual time: each step at one of its ratios, under each system of ours that was
    asked for.
    """
    systems = [name for name in OURS if name in (asked or [SHOWN])]
    ran = {(row.workload, row.system): row for row in rows}
    ratios = {row.oversubscription for row in rows if row.system in systems}
    over = min(ratios, key=lambda ratio: (abs(ratio - OVER), ratio), default=OVER)
    return [Watch(name, system, over) for name, system in ran if system in systems]


def draw(rows: list[Row], watches: Sequence[Watch], folder: Path, kind: str) -> str:
    """Writes pictures of rows, and of recorded steps; says which. Raises OSError.

    kind: png or svg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    timelines = [timeline for _, timeline in results(watch, watches)]
    several = len({one.system for one in watches}) > 1
    for one, (title, timeline) in zip(watches, timelines, strict=True):
        name = f"{one.name}-{one.system}" if several else one.name
        written.append(folder / f"timeline-{name}.json")
        write_timeline(written[-1], timeline, title)
    if not can_plot():
        return f"no pictures: they need matplotlib ({INSTALL})"
    pictures = []
    if timed := plots.with_times(rows):
        pictures.append(folder / f"step-time.{kind}")
        plots.plot_times(timed, pictures[-1])
    if moved := plots.with_bytes(rows):
        pictures.append(folder / f"bytes.{kind}")
        plots.plot_bytes(moved, pictures[-1])
    if timelines:
        pictures.append(folder / f"residency.{kind}")
        plots.plot_residency(timelines, pictures[-1])
    drawn = pictures + written
    return (
        f"wrote {', '.join(map(str, drawn))}" if drawn else "no pictures: there is nothing to show"
    )


def watch(one: Watch) -> tuple[str, Timeline]:
    """A recorded step, and a line that says what it is; for another process."""
    sequence, system = yardstick.sequence_at(paths.traces()[one.name]), BY_NAME[one.system]
    link = link_for(system.link, sequence)
    budget = simulate.budget_pages(sequence, link, one.over) * link.page_bytes
    line = title(one, sequence.footprint(PAGE_BYTES), budget)
    return line, record(sequence, link, settings_for(link, system.policy, budget))[1]


def title(one: Watch, needs: int, has: int) -> str:
    """What a picture of residency shows: bytes, and memory needed : memory there is."""
    share = "half the" if one.over == 2 else f"{1 / one.over:.0%} of the"
    sizes = f"{format_size(has)} of {format_size(needs)}"
    return f"{one.name} with {share} memory it needs ({sizes}), {one.system}"
