"""A picture of how many times slower than in enough memory steps are: SVG, without a package."""

from collections.abc import Iterator, Sequence

from pump.bench.row import Row
from pump.bench.steps import described
from pump.predict.systems import OURS, title_of

COLOURS = {"um-demand": "#9a9a9a", "um-pump": "#6b6b6b", "um": "#e69f00", "vmm": "#0072b2"}
WIDTH, LEFT, RIGHT, TOP = 860, 270, 60, 58
BAR, GAP = 15, 14
"""Heights of a bar, and of the space between two steps."""
FONT = "font-family='sans-serif' fill='#222'"


def slower(row: Row) -> float:
    """How many times as long as everything resident."""
    return row.ms / row.native_ms


def bars(rows: Sequence[Row], systems: Sequence[str], memory: str) -> str:
    """Horizontal bars on a linear scale, a group a step; a tick on ours at the bound."""
    names = list(dict.fromkeys(row.workload for row in rows))
    scale = (WIDTH - LEFT - RIGHT) / max(slower(row) for row in rows)
    height = TOP + len(names) * (len(systems) * BAR + GAP) + 30
    lines = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}'"
        f" viewBox='0 0 {WIDTH} {height}'>",
        f"<rect width='{WIDTH}' height='{height}' fill='white'/>",
        text(12, 20, f"Times slower than when it fits, with {memory} of the memory", 14),
        *legend(systems),
    ]
    y = TOP
    for name in names:
        here = {row.system: row for row in rows if row.workload == name}
        middle = y + len(systems) * BAR / 2 + 4
        lines.append(text(LEFT - 10, middle, described(name), 12, "end"))
        for place, system in enumerate(systems):
            if system in here:
                lines += bar(here[system], y + place * BAR, scale)
        y += len(systems) * BAR + GAP
    lines.append(f"<line x1='{LEFT}' x2='{LEFT}' y1='{TOP - 4}' y2='{y}' stroke='#222'/>")
    return "\n".join([*lines, "</svg>"]) + "\n"


def bar(row: Row, y: float, scale: float) -> Iterator[str]:
    """One, its figure, and the least possible on it."""
    long = slower(row) * scale
    colour = COLOURS.get(row.system, "#444")
    yield f"<rect x='{LEFT}' y='{y}' width='{long:.1f}' height='{BAR - 2}' fill='{colour}'/>"
    yield text(LEFT + long + 5, y + BAR - 4, f"{slower(row):.1f}", 11)
    if row.bound_ms and row.system in OURS:
        x = LEFT + row.bound_ms / row.native_ms * scale
        yield tick(x, y)


def legend(systems: Sequence[str]) -> Iterator[str]:
    """A swatch a system, and the tick."""
    x = 12.0
    for system in systems:
        title = f"PUMP, {system}" if system in OURS else title_of(system)
        yield f"<rect x='{x}' y='32' width='12' height='12' fill='{COLOURS.get(system, '#444')}'/>"
        yield text(x + 17, 42, title, 12)
        x += 40 + 7 * len(title)
    yield tick(x + 4, 31)
    yield text(x + 14, 42, "least possible", 12)


def tick(x: float, y: float) -> str:
    """The least possible."""
    return f"<rect x='{x - 1.5:.1f}' y='{y - 1}' width='3' height='{BAR}' fill='black'/>"


def text(x: float, y: float, told: str, size: int, anchor: str = "start") -> str:
    """Of a size, from or up to a place."""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' {FONT}>"
        f"{told}</text>"
    )
