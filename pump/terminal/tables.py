"""Tables that fit the terminal: columns leave, words are folded, numbers stay whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table

from pump.symbol import readable
from pump.terminal.render import NAME_LEAST, Name

FOLDED_LEAST, LEAVING_LEAST = 24, 40
"""Columns of the terminal in which words are folded; of a column that may leave."""
WORD_LEAST = 30
"""Where there is no room a longer word is broken, but in the first column."""
BETWEEN = 3
"""Columns of the terminal between two of ours."""


@dataclass(frozen=True)
class Size:
    """Columns of the terminal that a column needs."""

    least: int
    whole: int
    """No word is broken."""
    most: int
    """Nothing is folded."""


class FittedTable(Table):
    """As wide as the terminal allows. Columns with a heading of `leaves` leave one after the other
    until the others have room; a line below names them. The others are never cut, however narrow
    the terminal is.
    """

    def __init__(self, title: str | None, sizes: Sequence[Size], leaves: Sequence[str]) -> None:
        super().__init__(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False)
        self.sizes = sizes
        self.leaves = leaves

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console
        return Measurement(1, room(self.sizes)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept, left = self.kept(options.max_width)
        given = widths([self.sizes[at] for at in kept], options.max_width)
        made = Table(title=self.title, title_justify="left", box=box.SIMPLE, pad_edge=False)
        for at, width in zip(kept, given, strict=True):
            column = self.columns[at].copy()
            made.add_column(column.header, justify=column.justify, overflow="fold", width=width)
        for cells in zip(*(self.columns[at].cells for at in kept), strict=True):
            made.add_row(*cells)
        whole = options.update(max_width=max(options.max_width, sum(given) + BETWEEN * len(given)))
        yield from made.__rich_console__(console, whole)
        if left:
            yield f"no room for: {', '.join(left)}"

    def kept(self, width: int) -> tuple[list[int], list[str]]:
        """The columns that stay, and the headings of those that leave."""
        kept = list(range(len(self.columns)))
        left: list[str] = []
        for heading in self.leaves:
            if sum(self.sizes[at].least + BETWEEN for at in kept) <= width + 1:
                break
            others = [at for at in kept if self.columns[at].header != heading]
            if others and others != kept:
                kept, left = others, [*left, heading]
        return kept, left


def room(sizes: Sequence[Size]) -> int:
    """Columns of the terminal with which nothing is folded."""
    return sum(size.most + BETWEEN for size in sizes) - 1


def widths(sizes: Sequence[Size], width: int) -> list[int]:
    """Of columns that share so much: those with broken words get the next, and of these the
    narrowest.
    """
    if room(sizes) <= width:
        return [size.most for size in sizes]
    given = [size.least for size in sizes]
    for _ in range(width + 1 - sum(given) - BETWEEN * len(given)):
        want = [at for at, size in enumerate(sizes) if given[at] < size.whole]
        want = want or [at for at, size in enumerate(sizes) if given[at] < size.most]
        given[min(want, key=given.__getitem__)] += 1
    return given


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str | None = None,
    leaves: Sequence[str] = (),
) -> FittedTable:
    """A table; columns whose name starts with `>` are set right, and their cells keep to one line.
    The first is folded between words alone, the others are folded. A Name is shortened instead.
    leaves: headings of columns that leave where there is no room, the first one first.
    """
    cells = [[cell if isinstance(cell, Name) else text_of(cell) for cell in row] for row in rows]
    headings = [name.removeprefix(">") for name in columns]
    sizes = [
        size_of(
            heading,
            [row[at] for row in cells if at < len(row)],
            whole=name.startswith(">"),
            first=at == 0,
            leaves=heading in leaves,
        )
        for at, (name, heading) in enumerate(zip(columns, headings, strict=True))
    ]
    made = FittedTable(title, sizes, leaves)
    for name, heading in zip(columns, headings, strict=True):
        justify: Literal["left", "right"] = "right" if name.startswith(">") else "left"
        made.add_column(heading, justify=justify)
    for row in cells:
        made.add_row(*row)
    return made


def size_of(
    heading: str, cells: Sequence[str | Name], *, whole: bool, first: bool, leaves: bool
) -> Size:
    """What a column needs. A heading is folded between words."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    names = [cell_len(readable(cell.name)) for cell in cells if isinstance(cell, Name)]
    lengths = [*map(cell_len, texts), *names]
    most = max([cell_len(heading), *lengths])
    head = longest_word([heading])
    if whole:
        least = max([head, *lengths])
        return Size(least, least, most)
    longest = longest_word(texts)
    words = max(head, min(NAME_LEAST, max(names, default=0)), longest if first else 0)
    if any(" " in text for text in texts):
        least = max(words, min(most, LEAVING_LEAST if leaves else FOLDED_LEAST))
        return Size(least, least, most)
    least = max(words, min(longest, WORD_LEAST))
    return Size(least, max(least, longest), most)


def longest_word(texts: Iterable[str]) -> int:
    """Columns of the terminal."""
    return max((cell_len(word) for text in texts for word in text.split()), default=0)


def text_of(cell: object) -> str:
    """Nothing for None."""
    return "" if cell is None else str(cell)
