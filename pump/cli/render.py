"""Plain data to text for people: tables, on a terminal and in a pipe."""

from collections.abc import Iterable, Sequence
from typing import Literal, TextIO

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

PIPE_WIDTH = 10_000  # columns where there is no terminal: nothing is cut off


def console(file: TextIO | None = None) -> Console:
    """Where output goes: standard output when file is None."""
    out = Console(file=file, highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        out.width = PIPE_WIDTH
    return out


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None
) -> Table:
    """A table; columns whose name starts with `>` are set right and keep to one line."""
    made = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
    for name in columns:
        right = name.startswith(">")
        justify: Literal["left", "right"] = "right" if right else "left"
        made.add_column(name.removeprefix(">"), justify=justify, no_wrap=right)
    for row in rows:
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


def progress_bar(file: TextIO, quiet: bool = False) -> Progress:
    """How far something is: only on a terminal, and gone when it is done."""
    out = console(file)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    text = TextColumn("{task.description}")
    hidden = quiet or not out.is_terminal
    return Progress(*columns, text, console=out, transient=True, disable=hidden)
