"""The columns of the screen. Those that matter less are left out where there is no room."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pump.cli.quantities import TENANT, Quantity
from pump.cli.screen.rows import Row
from pump.sizes import format_size

SIZE = len("1023.9 MiB")
PADDING = 2
"""Columns of the terminal beside each of ours."""
NAME_MOST = 28
BAR = 8
FULL, HALF, NONE = "█", "▌", "░"
LEVELS = "▁▂▃▄▅▆▇█"

Key = float | str


@dataclass(frozen=True)
class Column:
    """One of them."""

    heading: str
    least: int
    """Columns of the terminal that it needs."""
    text: Callable[[Row], str]
    order: Callable[[Row], Key]
    """What lines are sorted by."""
    right: bool = True


def per_cent(part: float) -> str:
    """A part of 1."""
    return f"{100 * part:.0f} %"


def bar(row: Row) -> str:
    """How much of its memory is on the GPU."""
    if row.part is None:
        return "not known"
    halves = round(row.part * 2 * BAR)
    drawn = (FULL * (halves // 2) + HALF * (halves % 2)).ljust(BAR, NONE)
    most = "≤" if row.at_most else " "
    return f"{drawn} {most}{per_cent(row.part):>5}"


def rate(number: str) -> Callable[[Row], float]:
    """One of the rates; what has none comes last."""
    return lambda row: getattr(row.rates, number) if row.rates else -1.0


def rate_text(number: str, text: Callable[[float], str]) -> Callable[[Row], str]:
    """The same for people."""
    return lambda row: text(getattr(row.rates, number)) if row.rates else ""


def of_tenant(quantity: Quantity) -> Column:
    """What the broker tells."""

    def told(row: Row) -> float:
        return float((row.tenant or {}).get(quantity.key, -1))

    def text(row: Row) -> str:
        value = told(row)
        return quantity.text(value) if value >= 0 else ""

    return Column(quantity.heading, max(len(quantity.heading) + PADDING, SIZE), text, told)


COLUMNS = (
    Column("program", 8, lambda row: row.program, lambda row: row.program, right=False),
    Column("on the GPU", BAR + 7, bar, lambda row: row.resident or 0, right=False),
    Column("in/s", SIZE, rate_text("brought", format_size), rate("brought")),
    Column("out/s", SIZE, rate_text("taken", format_size), rate("taken")),
    Column("waits", 6, rate_text("waiting", per_cent), rate("waiting")),
    Column("state", 9, lambda row: row.state, lambda row: row.state, right=False),
    Column("pid", 7, lambda row: str(row.pid), lambda row: row.pid),
    Column("share", 12, lambda row: row.share, lambda row: row.share, right=False),
    Column("memory", SIZE, lambda row: format_size(row.used), lambda row: row.used),
    *(of_tenant(quantity) for quantity in TENANT if quantity.heading),
)
"""Those that matter most come first."""


def shown(width: int) -> list[tuple[Column, int]]:
    """Those for which there is room, with their widths: the first takes what is left over."""
    left = width
    fitting: list[Column] = []
    for column in COLUMNS:
        left -= column.least + PADDING
        if left < 0 and fitting:
            left += column.least + PADDING
            break
        fitting.append(column)
    first, *others = fitting
    name = min(NAME_MOST, first.least + max(0, left))
    return [(first, name), *((column, column.least) for column in others)]


def spark(values: Sequence[float], width: int, most: float = 0) -> str:
    """The latest values, the last one at the right end. `most` is full height; 0: the greatest."""
    latest = values[-width:] if width > 0 else []
    most = most or max(latest, default=0) or 1
    top = len(LEVELS) - 1
    drawn = (LEVELS[min(top, round(value / most * top))] if value > 0 else " " for value in latest)
    return "".join(drawn).rjust(max(0, width))
