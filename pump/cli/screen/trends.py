"""Rates over time, a line each: the number now, and before."""

from collections.abc import Sequence

from rich.text import Text

from pump.cli.screen.columns import SIZE, per_cent, spark
from pump.cli.screen.rows import Rates
from pump.sizes import format_size

LABEL = 10
EDGES = 2
"""Columns that are left free at the sides."""
LINES = (
    ("to GPU/s", "brought", format_size, 0, "green"),
    ("to host/s", "taken", format_size, 0, "yellow"),
    ("waits", "waiting", per_cent, 1, "red"),
)
"""What each is called, which of the rates it shows, how, what is full height, and its color."""


def trends(name: str, history: Sequence[Rates], width: int) -> Text:
    """Both ways of the link, and waiting."""
    text = Text(name, style="bold")
    room = width - EDGES - LABEL - SIZE - 1
    for label, number, shown, most, color in LINES:
        values = [getattr(rates, number) for rates in history]
        now = shown(values[-1]) if values else ""
        text.append(f"\n{label:<{LABEL}}{now:>{SIZE}} ", style="not bold")
        text.append(spark(values, room, most), style=f"not bold {color}")
    return text
