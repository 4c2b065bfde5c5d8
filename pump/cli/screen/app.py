"""The screen itself: what is seen, and what each key does."""

from collections.abc import Callable
from typing import ClassVar

from rich.console import JustifyMethod
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Label, Static

from pump.cli import tenants
from pump.cli.screen import columns
from pump.cli.screen.columns import per_cent
from pump.cli.screen.history import History
from pump.cli.screen.rows import Row, rows
from pump.cli.screen.trends import trends
from pump.cli.top import NOBODY, Look
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.stats import StatsError
from pump.terminal.printable import printable

SCROLL_BAR = 1
LOW = 16
"""Lines of the terminal: in fewer the selected program has no lines of its own."""
SHORT = 8
"""Digits of a GPU's name."""
ALL = "all programs"

Looker = Callable[[Look | None], Look]
Suspender = Callable[[int, bool], None]


class Question(ModalScreen[bool]):
    """Is that really meant?"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """The question, and what to press."""
        with Vertical():
            yield Label(self.text, markup=False)
            yield Label("y: yes   n: no", id="answers")


class TopScreen(App[Look]):
    """Programs, what they have and what moves. It ends with a look only if the program that it
    watched has ended.
    """

    CSS_PATH = "app.tcss"
    TITLE = "pump top"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "sort(-1)", "Sort", key_display="<>"),
        Binding("greater_than_sign", "sort(1)", "Sort", show=False),
        Binding("v", "reverse", "Reverse"),
        Binding("p,space", "pause", "Pause", key_display="p"),
        Binding("s", "suspend(True)", "Suspend"),
        Binding("r", "suspend(False)", "Resume"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(self, looker: Looker, interval: float, suspender: Suspender) -> None:
        """`interval`: seconds between looks. `suspender`: suspends a process, or resumes it."""
        super().__init__()
        self.looker, self.interval, self.suspender = looker, interval, suspender
        self.seen: Look | None = None
        self.rows: list[Row] = []
        self.history = History()
        self.paused = False
        self.order = columns.COLUMNS[1]
        self.falls = True
        self.drawn: list[tuple[columns.Column, int]] = []

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static(id="gpus", markup=False)
        yield Static(id="link")
        yield Static(NOBODY, id="nobody", markup=False)
        yield DataTable(id="programs", cursor_type="row", zebra_stripes=True)
        yield Static(id="selected")
        yield Footer()

    def on_mount(self) -> None:
        """Looks at once, and then as often as it is to."""
        self.query_one(DataTable).focus()
        self.take()
        self.set_interval(self.interval, self.tick)

    def tick(self) -> None:
        """Time for a look."""
        if not self.paused:
            self.take()

    @work(thread=True, exclusive=True)
    def take(self) -> None:
        """Looks beside the screen, which may take a while if the broker hangs."""
        try:
            look = self.looker(self.seen)
        except StatsError:  # the program that was watched has ended
            self.call_from_thread(self.exit, self.seen)
            return
        self.call_from_thread(self.show, look)

    def show(self, look: Look) -> None:
        """What was seen."""
        self.rows = rows(look, self.seen)
        if self.seen:
            self.history.add(self.rows)
        self.seen = look
        self.draw()

    def on_resize(self) -> None:
        """Other columns have room."""
        self.draw()

    def draw(self) -> None:
        """All of it."""
        if self.seen is None:
            return
        titles = [tenants.title(gpu, SHORT) for gpu in self.seen.shared["gpus"]]
        self.query_one("#gpus", Static).update(printable("\n".join(titles)))
        self.query_one("#gpus").display = bool(titles)
        self.query_one("#nobody").display = not self.rows
        self.query_one("#link", Static).update(self.trends(ALL, None))
        self.draw_rows()
        self.draw_selected()

    def trends(self, name: str, key: str | None) -> Text:
        """What moved for a program, or for all."""
        paused = " (paused)" if self.paused else ""
        return trends(name + paused * (key is None), self.history.of(key), self.size.width)

    def draw_rows(self) -> None:
        """Sorted, and the same line stays selected."""
        table: DataTable[Text] = self.query_one(DataTable)
        selected = self.selected()
        self.draw_columns(table)
        table.clear()
        ordered = sorted(self.rows, key=lambda row: row.pid)
        ordered.sort(key=self.order.order, reverse=self.falls)
        for row in ordered:
            cells = (self.cell(column, column.text(row)) for column, _ in self.drawn)
            table.add_row(*cells, key=row.key)
        if selected in ordered_keys(ordered):
            table.move_cursor(row=table.get_row_index(selected), animate=False)

    def draw_columns(self, table: "DataTable[Text]") -> None:
        """Those that there is room for, with an arrow at what is sorted by."""
        self.drawn = columns.shown(self.size.width - SCROLL_BAR)
        table.clear(columns=True)
        for column, width in self.drawn:
            arrow = "▼" if self.falls else "▲"
            heading = column.heading
            if column is self.order:
                heading = f"{heading} {arrow}" if len(heading) + 2 <= width else heading + arrow
            table.add_column(self.cell(column, heading), width=width, key=column.heading)

    def cell(self, column: columns.Column, text: str) -> Text:
        """One line; names of programs do not steer the terminal."""
        justify: JustifyMethod = "right" if column.right else "left"
        return Text(printable(text), justify=justify, no_wrap=True, overflow="ellipsis")

    def selected(self) -> str:
        """The key of the selected line; "" if there is none."""
        table = self.query_one(DataTable)
        if not table.is_valid_row_index(table.cursor_row):
            return ""
        return table.ordered_rows[table.cursor_row].key.value or ""

    def selected_row(self) -> Row | None:
        """The line itself."""
        key = self.selected()
        return next((row for row in self.rows if row.key == key), None)

    def draw_selected(self) -> None:
        """The selected program's own moves and waiting."""
        row = self.selected_row()
        panel = self.query_one("#selected", Static)
        panel.display = row is not None and self.size.height >= LOW
        if row:
            panel.update(self.trends(printable(summary(row)), row.key))

    def on_data_table_row_highlighted(self) -> None:
        """Another line is selected."""
        self.draw_selected()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """A click: sorts by it, a second one turns the order."""
        column = self.drawn[event.column_index][0]
        self.falls = not self.falls if column is self.order else column.right
        self.order = column
        self.draw()

    def action_sort(self, step: int) -> None:
        """By the column to that side."""
        now = [column for column, _ in self.drawn]
        at = now.index(self.order) if self.order in now else 0
        self.order = now[(at + step) % len(now)]
        self.draw()

    def action_reverse(self) -> None:
        """The other way round."""
        self.falls = not self.falls
        self.draw()

    def action_pause(self) -> None:
        """What is seen stays, until the next time."""
        self.paused = not self.paused
        self.draw()

    def action_suspend(self, suspended: bool) -> None:
        """The selected program, if that is meant."""
        row = self.selected_row()
        if row is None:
            return
        who = f"{printable(row.program)}, process {row.pid}"
        if row.tenant is None:
            self.tell(f"{who} does not share: start it with `pump run --share NAME`")
            return
        if bool(row.tenant["suspended"]) == suspended:
            self.tell(f"{who} is {'' if suspended else 'not '}suspended")
            return
        if not suspended:
            self.ask_broker(row.pid, who, suspended)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.ask_broker(row.pid, who, suspended)

        text = f"Suspend {who}? Its memory leaves the GPU, and it waits until it is resumed."
        self.push_screen(Question(text), answered)

    @work(thread=True)
    def ask_broker(self, pid: int, who: str, suspended: bool) -> None:
        """Beside the screen: an answer may take a while."""
        try:
            self.suspender(pid, suspended)
        except ShareError as error:
            self.call_from_thread(self.tell, str(error))
            return
        self.call_from_thread(self.tell, f"{who} {'leaves the GPU' if suspended else 'goes on'}")
        self.take()

    def tell(self, text: str) -> None:
        """In a corner, for a few seconds."""
        self.notify(text, markup=False)


def summary(row: Row) -> str:
    """What a narrow terminal has no columns for."""
    who = f"{row.program}, process {row.pid}{f' of {row.share}' if row.share else ''}"
    memory = format_size(row.used)
    if row.part is not None:
        memory = f"{'at most ' * row.at_most}{per_cent(row.part)} of {memory} on the GPU"
    return f"{who}: {row.state}, {memory}"


def ordered_keys(ordered: list[Row]) -> set[str]:
    """Of all lines."""
    return {row.key for row in ordered}
