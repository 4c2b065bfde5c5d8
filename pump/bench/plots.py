"""Pictures of results. They need matplotlib, of the extra `bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pump.bench.row import Row, timed
from pump.bench.timeline import DEVICE, LANES, Timeline, joined, thinned
from pump.predict.plots import COLOURS, LINE, legend, new_figure, save
from pump.predict.systems import BY_NAME, OURS, title_of
from pump.sizes import GIB, MIB, format_size

IN, OUT, BUSY = "#0072b2", "#d55e00", "#555555"
LEVELS = {
    "live": ("#a6cbe6", "resident"),
    "dead": ("#d9d9d9", "resident, dead"),
    "away": ("#f3d9b1", "in host memory"),
}
DIFFERENT = "/////"
"""Across the bar of a run whose numbers were not the native run's."""
TIMES = "\N{MULTIPLICATION SIGN}"
PLACES = 1300  # beside each other that a picture over time tells apart
ALONE = {"native", "oracle"}  # beside which systems are shown
ACROSS = 4  # workloads beside each other
WIDTH = 0.8  # of a group of bars, of the room it has
BAR = 0.14  # inches at least, so that the values at bars stand apart


def _grid(count: int, height: float, told: str, room: float = 0) -> tuple[Any, list[Any]]:
    """A figure and so many axes, ACROSS a row, of `room` inches at least; `told` at the left
    ones."""
    across = min(count, ACROSS)
    down = -(-count // across)
    figure, axes = new_figure(down, across, max(4.4, room) * across + 0.6, height * down)
    for axis in axes.flat[count:]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(told)
    return figure, list(axes.flat[:count])


def with_times(rows: Sequence[Row]) -> list[Row]:
    """What plot_times can show: the rows, failures too, of workloads that some system has a time
    of.
    """
    workloads = {row.workload for row in timed(rows) if row.system not in ALONE}
    return [row for row in rows if row.workload in workloads]


def with_bytes(rows: Sequence[Row]) -> list[Row]:
    """What plot_bytes can show: rows whose bytes were counted, of systems that move some."""
    return [
        row
        for row in timed(rows)
        if row.bytes_in is not None and row.system not in {*ALONE, "zero-copy"}
    ]


def plot_times(rows: Sequence[Row], path: Path) -> None:
    """Bars: a step's time, system by system, and the bounds as lines. Raises OSError.

    rows: of with_times, some.
    """
    workloads, systems = _names(rows)
    groups = len({row.oversubscription for row in rows if row.system in systems})
    room = BAR * groups * len(systems) / WIDTH
    figure, axes = _grid(len(workloads), 4.6, "milliseconds a step (log scale)", room)
    for axis, workload in zip(axes, workloads, strict=True):
        here = [row for row in rows if row.workload == workload and row.system in systems]
        ratios = sorted({row.oversubscription for row in here})
        width = WIDTH / len(systems)
        for i, system in enumerate(systems):
            at = {row.oversubscription: row for row in here if row.system == system}
            places = [x + (i - (len(systems) - 1) / 2) * width for x in range(len(ratios))]
            bars = [(x, at[ratio]) for x, ratio in zip(places, ratios, strict=True) if ratio in at]
            _bars(axis, bars, width)
        axis.axhline(here[0].native_ms, color=LINE, linewidth=1, linestyle=":")
        axis.set_yscale("log")
        axis.set_xticks(range(len(ratios)), [f"{ratio:g}{TIMES}" for ratio in ratios])
        axis.set_xlabel("memory needed : memory there is")
        axis.set_title(f"{workload} ({format_size(here[0].footprint_bytes)})", fontsize=11)
        _plain_numbers(axis)
    shown = [row for row in rows if row.system in systems]
    for start in range(0, len(workloads), ACROSS):
        beside = workloads[start : start + ACROSS]
        low, high = _range([row for row in shown if row.workload in beside])
        for axis in axes[start : start + ACROSS]:
            axis.set_ylim(low, high)
    told = _swatches(systems)
    told += axes[0].plot([], [], color=LINE, linewidth=1, linestyle=":", label="all resident")
    if any(row.bound_ms for row in rows):
        told += axes[0].plot([], [], color="black", linewidth=2, label="lower bound")
    legend(figure, told + _signs(axes[0], shown, systems))
    save(figure, path)


def _bars(axis: Any, rows: Sequence[tuple[float, Row]], width: float) -> None:
    """Of a system, at these places; where there is no time its reason stands."""
    for x, row in rows:
        if row.no_time:
            _no_bar(axis, x, row)
            continue
        axis.bar(
            x,
            row.ms,
            width,
            color=COLOURS.get(row.system),
            edgecolor="white",
            linewidth=0.4,
            hatch=DIFFERENT if row.numbers_equal is False else None,
        )
        _bound(axis, x, width, row)
        _value(axis, x, row)


def _no_bar(axis: Any, x: float, row: Row) -> None:
    """A cross in the system's colour, at the bottom, and the reason above it."""
    at = axis.get_xaxis_transform()
    axis.plot([x], [0.025], "x", color=COLOURS.get(row.system), markersize=5, transform=at)
    told = "over budget" if row.over_budget else row.no_time
    axis.text(x, 0.06, told, transform=at, rotation=90, ha="center", va="bottom", fontsize=7)


def _signs(axis: Any, rows: Sequence[Row], systems: Sequence[str]) -> list[Any]:
    """For a legend: of what these rows have beside plain bars."""
    from matplotlib.patches import Patch

    told = []
    if any(row.numbers_equal is False for row in timed(rows)):
        told.append(
            Patch(facecolor=BUSY, edgecolor="white", hatch=DIFFERENT, label="numbers differ")
        )
    places = {(row.workload, row.oversubscription) for row in rows}
    if len({row.run for row in rows}) < len(places) * len(systems):
        told += axis.plot([], [], linestyle="", label="no bar: not measured")
    return told


def _range(rows: Sequence[Row]) -> tuple[float, float]:
    """From below all that fits to above the values at the longest bars."""
    low = 0.6 * min(row.native_ms for row in rows)
    high = max(row.native_ms for row in rows)
    high = max([high, *(row.ms for row in timed(rows))])
    return low, high * (high / low) ** 0.16


def _value(axis: Any, x: float, row: Row) -> None:
    """Upright, above its bar and what is drawn over that."""
    top = max(row.ms, (row.bound_ms or 0) if row.system in OURS else 0)
    text = f"{row.ms:.1f}" if row.ms < 10 else f"{row.ms:.0f}"
    axis.annotate(
        text,
        (x, top),
        xytext=(0, 3),
        textcoords="offset points",
        rotation=90,
        ha="center",
        va="bottom",
        fontsize=7,
    )


def _swatches(systems: Sequence[str]) -> list[Any]:
    """For a legend: of bars, which not every axis has."""
    from matplotlib.patches import Patch

    return [Patch(color=COLOURS.get(system), label=title_of(system)) for system in systems]


def _bound(axis: Any, x: float, width: float, row: Row) -> None:
    """The bound of a bar that our policy made."""
    if row.bound_ms and row.system in OURS:
        axis.plot([x - width / 2, x + width / 2], [row.bound_ms] * 2, color="black", linewidth=2)


def plot_bytes(rows: Sequence[Row], path: Path) -> None:
    """Bars: GB a step in, above the line, and out, below it. Raises OSError.

    rows: of with_bytes, some.
    """
    workloads, systems = _names(rows)
    figure, axes = _grid(len(workloads), 4.2, "GB a step:  ← out    in →")
    for axis, workload in zip(axes, workloads, strict=True):
        here = [row for row in rows if row.workload == workload]
        ratios = sorted({row.oversubscription for row in here if row.system in systems})
        width = WIDTH / len(systems)
        for i, system in enumerate(systems):
            at = {r.oversubscription: r for r in here if r.system == system}
            places = [x + (i - (len(systems) - 1) / 2) * width for x in range(len(ratios))]
            bars = [(x, at[ratio]) for x, ratio in zip(places, ratios, strict=True) if ratio in at]
            for sign, name in ((1, "bytes_in"), (-1, "bytes_out")):
                heights = [sign * (getattr(row, name) or 0) / 1e9 for _, row in bars]
                axis.bar(
                    [x for x, _ in bars],
                    heights,
                    width,
                    label=title_of(system) if sign > 0 else None,
                    color=COLOURS.get(system),
                    edgecolor="white",
                    linewidth=0.4,
                )
        axis.axhline(0, color=LINE, linewidth=0.8)
        axis.set_xticks(range(len(ratios)), [f"{ratio:g}{TIMES}" for ratio in ratios])
        axis.set_xlabel("memory needed : memory there is")
        axis.set_title(workload, fontsize=11)
        low, high = axis.get_ylim()
        axis.set_ylim(min(low, -0.05 * high), high)
        axis.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        axis.grid(axis="y", linewidth=0.4, alpha=0.5)
        axis.set_axisbelow(True)
    legend(figure, _swatches(systems))
    save(figure, path)


def plot_residency(timelines: Sequence[tuple[str, Timeline]], path: Path) -> None:
    """Of each step: what lives and what of it is resident over time, and when device and lanes are
    busy. Raises OSError.
    """
    figure, axes = new_figure(len(timelines), 1, 10, 2.8 * len(timelines) + 0.8)
    for axis, (title, timeline) in zip(axes[:, 0], timelines, strict=True):
        levels = thinned(timeline.levels, PLACES)
        times = [level.ns / 1e6 for level in levels]
        high = max(level.live + level.dead + level.away for level in levels) / GIB
        below = [0.0] * len(times)
        for name, (colour, label) in LEVELS.items():
            sizes = [getattr(level, name) / GIB for level in levels]
            above = [y + size for y, size in zip(below, sizes, strict=True)]
            axis.fill_between(
                times, below, above, step="post", color=colour, linewidth=0, label=label
            )
            below = above
        budget = timeline.budget / GIB
        axis.axhline(budget, color=LINE, linewidth=1, linestyle="--", label="budget")
        rows = {
            DEVICE: (BUSY, "device busy"),
            LANES[0]: (IN, "bytes in"),
            LANES[1]: (OUT, "bytes out"),
        }
        for place, (thread, (colour, label)) in enumerate(rows.items()):
            spans = [
                (span.begin_ns / 1e6, span.end_ns / 1e6)
                for span in timeline.spans
                if span.thread == thread and (thread == DEVICE or span.bytes)
            ]
            bars = [(at, end - at) for at, end in joined(spans, times[-1] / PLACES)]
            bottom = -(0.13 + 0.11 * place) * high
            axis.broken_barh(bars, (bottom, 0.09 * high), color=colour, linewidth=0, label=label)
        marks = [0.0, budget, high]
        axis.set_yticks(marks, [f"{mark:.1f}" for mark in marks])
        axis.set_ylim(-0.38 * high, 1.06 * high)
        axis.set_xlim(0, max(times))
        axis.set_ylabel(f"GiB, in pages of {timeline.page_bytes // MIB} MiB")
        axis.set_title(title, fontsize=11, loc="left")
    axes[-1, 0].set_xlabel("milliseconds from the end of a step to the end of the next")
    legend(figure, axes[0, 0].get_legend_handles_labels()[0])
    save(figure, path)


def _names(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Workloads, and systems in their order; not the native run."""
    present = {row.system for row in rows} - ALONE
    return (
        list(dict.fromkeys(row.workload for row in rows)),
        [name for name in BY_NAME if name in present],
    )


def _plain_numbers(axis: Any) -> None:
    """1000 instead of a power of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(axis="y", linewidth=0.4, alpha=0.5)
    axis.set_axisbelow(True)
