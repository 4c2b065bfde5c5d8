"""Pictures, which need matplotlib, of the extra `bench`: what all share, and that of a plan."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pump.predict.plan import Plan
from pump.sizes import GIB
from pump.whole import whole

COLOURS = {
    "um-demand": "#b9b9b9",
    "um-pump": "#8c8c8c",
    "um": "#e69f00",
    "vmm": "#0072b2",
    "vmm-known": "#332288",
    "oracle": "#56b4e9",
    "zero-copy": "#cc79a7",
    "save-on-cpu": "#009e73",
    "checkpointing": "#66c2a5",
    "offload": "#1b7f5c",
}
LINE = "#333333"
INSTALL = "pip install matplotlib scipy"
"""What a person is told to do without pictures or bound: no registry has this package's extra."""
DPI = 130
LABEL = 1.7  # inches of a legend
WIDEST, EDGE = 3.0, 1.2
"""Of what a step needs: memory beyond the one is not shown, but what lies below the other."""


def can_plot() -> bool:
    """There is what pictures need."""
    return importlib.util.find_spec("matplotlib") is not None


def formats() -> list[str]:
    """What a picture's name may end in, without the dot."""
    from matplotlib.backend_bases import FigureCanvasBase

    return sorted(FigureCanvasBase.get_supported_filetypes())


def new_figure(rows: int, columns: int, width: float, height: float) -> Any:
    """A figure and its axes, for a file: no display is looked for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def save(figure: Any, path: Path) -> None:
    """The same picture is the same file, also as SVG. Raises OSError."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": path.stem}):
        kind = path.suffix[1:].lower()
        dated = {"Date": None} if kind == "svg" else None
        with whole(path) as into:
            figure.savefig(into, dpi=DPI, format=kind, metadata=dated)


def legend(figure: Any, handles: Sequence[Any]) -> None:
    """Above all axes, in one line if it has the room."""
    labels = [each.get_label() for each in handles]
    columns = min(len(labels), int(figure.get_figwidth() / LABEL))
    figure.legend(
        handles, labels, loc="outside upper center", ncols=columns, fontsize=9, frameon=False
    )


def plot_plan(found: Plan, name: str, path: Path) -> None:
    """Lines: predicted step time over memory, a backend each, between the least and the most. What
    had more than its budget resident is not in it. Raises OSError.
    """
    figure, axes = new_figure(1, 1, 7.5, 4.6)
    axis = axes[0][0]
    known = [point for point in found.curve if not point.over_budget]
    for backend in found.backends:
        points = {p.budget / GIB: p for p in known if p.backend == backend}
        if not points:
            continue
        sizes, colour = list(points), COLOURS[backend]
        least, most, middle = (
            [getattr(p, name) for p in points.values()]
            for name in ("step_ms", "most_ms", "middle_ms")
        )
        axis.fill_between(sizes, least, most, color=colour, alpha=0.2, linewidth=0)
        axis.plot(sizes, middle, marker="o", markersize=3, color=colour, label=backend)
    for end, label in ((found.native_ms, "all resident"), (found.most_native_ms, None)):
        axis.axhline(end, color=LINE, linewidth=1, linestyle=":", label=label)
    if found.memory < WIDEST * found.footprint:
        size = found.memory / GIB
        axis.axvline(size, color=LINE, linewidth=1, linestyle="--", label="memory there is")
        axis.set_xlim(0)
    else:  # what there is would press the line into a corner
        axis.set_xlim(0, EDGE * found.footprint / GIB)
    axis.set_ylim(0)
    axis.set_xlabel("memory its data may occupy, GiB")
    axis.set_ylabel("milliseconds a step")
    axis.set_title(f"{name}: predicted, needs {found.footprint / GIB:.1f} GiB", fontsize=11)
    axis.grid(linewidth=0.4, alpha=0.5)
    legend(figure, axis.get_legend_handles_labels()[0])
    save(figure, path)
