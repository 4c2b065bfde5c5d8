"""A picture of programs that share a GPU: turns, what is resident, and the link, over time."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pump.bench.plots import BUSY, IN, OUT
from pump.bench.share_looks import Look, Looks
from pump.bench.timeline import joined
from pump.predict.plots import LINE, new_figure, save
from pump.sizes import format_size

COLOURS = ("#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#332288", "#999999")
PALE = 0.3
"""A turn in which nothing runs."""
RATE_S = 0.1
"""The link's bytes are summed up so long."""
LANE = 0.7  # of its room


def plot_sharing(told: Looks, path: Path) -> None:
    """Draws them. Raises OSError."""
    looks, names = told.every, told.names
    figure, axes = new_figure(3, 1, 10, 4.2 + 0.45 * len(names))
    lanes, resident, link = axes[:, 0]
    lanes.get_gridspec().set_height_ratios([0.45 * len(names), 2.0, 1.5])
    _lanes(lanes, looks, names)
    _resident(resident, looks, told.budget)
    _link(link, looks)
    for axis in (lanes, resident, link):
        axis.set_xlim(0, looks[-1].s)
        axis.tick_params(labelbottom=axis is link)
        axis.spines[["top", "right"]].set_visible(False)
    lanes.set_title(told.title, fontsize=11, loc="left")
    link.set_xlabel("seconds")
    save(figure, path)


def _spans(looks: Sequence[Look], tenant: int, field: str) -> list[tuple[float, float]]:
    """When that was so: beginnings and lengths."""
    every = [(a.s, b.s) for a, b in pairwise(looks) if getattr(a.tenants[tenant], field)]
    return [(begin, end - begin) for begin, end in joined(every, 1e-9)]


def _lanes(axis: Any, looks: Sequence[Look], names: Sequence[str]) -> None:
    """A lane a tenant: pale in its turn, strong while it runs."""
    from matplotlib.patches import Patch

    for place, name in enumerate(reversed(names)):
        tenant = len(names) - 1 - place
        look = {"facecolor": COLOURS[tenant % len(COLOURS)], "linewidth": 0}
        at = (place - LANE / 2, LANE)
        axis.broken_barh(_spans(looks, tenant, "may_issue"), at, alpha=PALE, **look)
        axis.broken_barh(_spans(looks, tenant, "runs"), at, **look)
        axis.text(-0.01, place, name, transform=axis.get_yaxis_transform(), ha="right", va="center")
    axis.set_yticks([])
    axis.set_ylim(-0.5, len(names) - 0.5)
    kinds = [Patch(color=BUSY, alpha=PALE, label="turn"), Patch(color=BUSY, label="runs")]
    axis.legend(
        handles=kinds, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=9, frameon=False
    )


def _bends(looks: Sequence[Look]) -> list[Look]:
    """Those at which what is resident begins or ends to change, or changes."""
    here = [[tenant.resident for tenant in look.tenants] for look in looks]
    return [looks[i] for i in range(1, len(looks) - 1) if not here[i - 1] == here[i] == here[i + 1]]


def _resident(axis: Any, looks: Sequence[Look], budget: int) -> None:
    """Bytes of each, one above the other."""
    tenants = range(len(looks[0].tenants))
    steps = [looks[0], *_bends(looks), looks[-1]]
    sizes = [[look.tenants[tenant].resident for look in steps] for tenant in tenants]
    colours = [COLOURS[tenant % len(COLOURS)] for tenant in tenants]
    axis.stackplot([look.s for look in steps], sizes, colors=colours, linewidth=0)
    axis.axhline(budget, color=LINE, linewidth=1, linestyle="--")
    axis.text(looks[-1].s, 1.02 * budget, "budget of all", ha="right", va="bottom", fontsize=9)
    axis.set_yticks([0, budget // 2, budget], ["0", *map(format_size, (budget // 2, budget))])
    axis.set_ylim(0, 1.18 * budget)
    axis.set_ylabel("resident")


def _link(axis: Any, looks: Sequence[Look]) -> None:
    """GB a second: in above the line, out below it."""
    every = looks[:: max(1, round(RATE_S / (looks[1].s - looks[0].s)))]
    for field, sign, colour in (("bytes_in", 1, IN), ("bytes_out", -1, OUT)):
        rates = [sign * moved(a, b, field) / 1e9 / (b.s - a.s) for a, b in pairwise(every)]
        axis.stairs(rates, [look.s for look in every], fill=True, color=colour)
    axis.axhline(0, color=LINE, linewidth=0.8)
    axis.set_ylabel("GB/s:  ← out    in →")
    axis.yaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")


def moved(before: Look, after: Look, field: str) -> int:
    """Bytes since. The sums of one that left are lost."""
    pairs = zip(before.tenants, after.tenants, strict=True)
    return sum(max(0, getattr(b, field) - getattr(a, field)) for a, b in pairs)
