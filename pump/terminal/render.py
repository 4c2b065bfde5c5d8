"""Plain data to text for people, on a terminal and in a pipe."""

import os
import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from pump.symbol import readable, shortened
from pump.terminal.printable import PrintableStream, printable

PIPE_WIDTH = 10_000  # columns where there is no terminal, and no COLUMNS: nothing is cut off
PADDING = re.compile("(?<! ) +$", re.MULTILINE)  # linear: no match begins inside a run of spaces
NAME_LEAST = 28
"""Columns that are left to a name, however narrow the terminal is."""


class Page(Console):
    """Does not cut off what is wider than the terminal, and ends no line of a pipe with spaces; the
    program sees that its reader left.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints, as its base does."""
        options = {"crop": False, **options}
        if self.is_terminal:
            super().print(*objects, **options)
            return
        with self.capture() as told:
            super().print(*objects, **options)
        self.file.write(PADDING.sub("", told.get()))
        self.file.flush()

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Renders, as its base does; what the text holds does not steer the terminal."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def on_broken_pipe(self) -> None:
        """Its base, which calls this for a BrokenPipeError, ends the program."""
        raise


class Name:
    """A kernel's name, as long as there is room for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        most = cell_len(readable(self.name))
        return Measurement(min(most, NAME_LEAST), most).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened(self.name, options.max_width), no_wrap=True)


def console(file: TextIO | None = None) -> Console:
    """Where output goes: standard output when file is None."""
    stream = file or sys.stdout
    if isinstance(stream, PrintableStream):
        file = stream.base  # a Page writes what steers the terminal itself
    out = Page(file=file, highlight=False, markup=False, emoji=False)
    if not (out.is_terminal or os.environ.get("COLUMNS", "").strip("0").isdecimal()):
        out.width = PIPE_WIDTH
    return out


def progress_bar(file: TextIO, quiet: bool = False) -> Progress:
    """How far something is: only on a terminal, and gone when it is done."""
    out = console(file)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    text = TextColumn("{task.description}")
    hidden = quiet or not out.is_terminal
    return Progress(*columns, text, console=out, transient=True, disable=hidden)
