"""Which pictures of results there are, and where they are written."""

from collections.abc import Sequence
from pathlib import Path

from pump import paths
from pump.bench import plots, simulate, yardstick
from pump.bench.processes import results
from pump.bench.row import Row
from pump.bench.systems import BY_NAME
from pump.bench.timeline import Timeline, record, write_timeline
from pump.sim.link import PAGE_BYTES, link_for
from pump.sim.simulator import settings_for
from pump.sizes import format_size

OVER = 2.0
"""Memory needed : memory there is, where residency over time is shown."""


def draw(rows: list[Row], names: Sequence[str], folder: Path, kind: str) -> str:
    """Writes pictures of rows, and of recorded steps by name; says which. Raises OSError.

    kind: png or svg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    timelines = [watched for _, watched in results(watch, names)]
    for name, (title, timeline) in zip(names, timelines, strict=True):
        written.append(folder / f"timeline-{name}.json")
        write_timeline(written[-1], timeline, title)
    if not plots.can_plot():
        return f"no pictures: they need matplotlib ({plots.INSTALL})"
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


def watch(name: str) -> tuple[str, Timeline]:
    """A recorded step under `vmm`, and a line that says so; for another process."""
    sequence = yardstick.sequence_at(paths.traces()[name])
    link = link_for("vmm", sequence)
    pages = simulate.budget_pages(sequence, link, OVER)
    budget = pages * link.page_bytes
    line = title(name, sequence.footprint(PAGE_BYTES), budget, OVER)
    return line, record(sequence, link, settings_for(link, BY_NAME["vmm"].policy, budget))[1]


def title(name: str, needs: int, has: int, over: float) -> str:
    """What a picture of residency shows: bytes, and memory needed : memory there is."""
    share = "half the" if over == 2 else f"{1 / over:.0%} of the"
    sizes = f"{format_size(has)} of {format_size(needs)}"
    return f"{name} with {share} memory it needs ({sizes}), vmm"
