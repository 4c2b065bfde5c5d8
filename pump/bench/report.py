"""Results for people: one table, and how systems compare."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import NamedTuple

from rich.table import Table

from pump.bench.row import Row, timed
from pump.predict.systems import ALIKE, BY_NAME, OURS, RIVALS, SIM, title_of
from pump.sizes import format_size
from pump.terminal.tables import table

NOT_RECORDED, REFUSED = "not recorded", "refused"
DIFFERS = " differs"
"""Behind the time of a run whose results were not the native run's."""


class Column(NamedTuple):
    """A column of milliseconds: of a system, or a yardstick of all."""

    heading: str
    field: str = ""  # of a row, of the same for all systems: oracle_ms or bound_ms

    @property
    def title(self) -> str:
        """What stands above it."""
        return self.heading if self.field else title_of(self.heading)

    def cell(self, here: Mapping[str, Row]) -> str:
        """What stands in it, given a line's rows by system."""
        if not self.field:
            row = here.get(self.heading)
            return cell_of(row) if row else ""
        told = [getattr(row, self.field) for row in here.values()]
        return next((f"{ms:.1f}" for ms in told if ms is not None), "")


def cell_of(row: Row, digits: int = 1) -> str:
    """Milliseconds, or why there are none."""
    return row.no_time or f"{row.ms:.{digits}f}{DIFFERS if row.numbers_equal is False else ''}"


def run_table(rows: Sequence[Row]) -> Table:
    """A line a workload and over-subscription, a column a system; milliseconds a step.

    rows: also those that failed.
    """
    columns = time_columns(rows)
    lines = []
    names = list(dict.fromkeys(row.workload for row in rows))
    keys = {(row.workload, row.oversubscription) for row in rows}
    for key in sorted(keys, key=lambda key: (names.index(key[0]), key[1])):
        here = {r.system: r for r in rows if (r.workload, r.oversubscription) == key}
        if here.keys() <= {"native"} and columns:
            continue
        one = next(iter(here.values()))
        cells = [one.workload, format_size(one.footprint_bytes), f"{one.oversubscription:g}"]
        cells += [format_size(one.capacity_bytes), f"{one.native_ms:.1f}"]
        lines.append([*cells, *(column.cell(here) for column in columns)])
    headings = ["workload", ">needs", ">over", ">has", ">native"]
    headings += [f">{column.title}" for column in columns]
    others = [c.title for c in columns if not c.field and c.heading not in RIVALS + OURS]
    least, *rivals = (title_of(name) for name in (OURS[-1], *RIVALS[::-1]))
    leaves = ("has", "needs", *others[::-1], "oracle", "bound", least, "native", *rivals)
    return table(headings, lines, title="milliseconds a step", leaves=leaves)


def resident_table(rows: Sequence[Row]) -> Table | None:
    """What was really on the device, a line each measured row under a budget; None: no row."""
    lines = [
        [
            row.workload,
            row.system,
            f"{row.oversubscription:g}",
            format_size(row.capacity_bytes),
            NOT_RECORDED if row.operation_bytes is None else format_size(row.operation_bytes),
            NOT_RECORDED if row.resident_bytes is None else format_size(row.resident_bytes),
            REFUSED if row.over_budget else "",
        ]
        for row in rows
        if row.device != SIM and row.system in OURS + RIVALS and not row.failed
    ]
    leaves = ("one operation", "over")
    headings = ["workload", "system", ">over", ">budget", ">one operation", ">resident", ""]
    return table(headings, lines, title="at most on the device", leaves=leaves) if lines else None


def without_twin(rows: Sequence[Row]) -> list[Row]:
    """Without the second of ALIKE, where each of its rows is the first's under another name."""
    first, second = ALIKE
    there = {row.run: row for row in rows}
    twins = [row for row in rows if row.system == second]
    differ = any(
        there.get(row.run._replace(system=first)) != replace(row, system=first) for row in twins
    )
    return [*rows] if differ else [row for row in rows if row.system != second]


def time_columns(rows: Sequence[Row]) -> list[Column]:
    """Systems in order, and what no system could do better."""
    present = {row.system for row in rows} - {"native"}
    systems = [name for name in BY_NAME if name in present]
    movers = [name for name in systems if BY_NAME[name].link]
    columns = [Column(name) for name in systems if name != "oracle"]
    for word in ("oracle", "bound") if movers else ():
        if any(getattr(row, f"{word}_ms") is not None for row in rows):
            columns.append(Column(word, f"{word}_ms"))
    return columns


def speedup(rows: Sequence[Row], slow: str, fast: str) -> float | None:
    """How many times faster: the geometric mean over the runs that both did."""
    times = {
        name: {row.run._replace(system=""): row.ms for row in rows if row.system == name}
        for name in (slow, fast)
    }
    both = times[slow].keys() & times[fast].keys()
    return geometric_mean(times[slow][run] / times[fast][run] for run in both) if both else None


def over_bound(rows: Sequence[Row], system: str) -> float | None:
    """A system's time over the bound: the geometric mean."""
    known = [r.ms / r.bound_ms for r in rows if r.system == system and r.bound_ms]
    return geometric_mean(known) if known else None


def verdicts(rows: Sequence[Row]) -> list[str]:
    """A line for each of our backends, where memory is short: against its rivals and the bound.
    Times of runs with other numbers than the native run's are in no mean.
    """
    short = timed(row for row in rows if row.oversubscription > 1)
    rows = [row for row in short if row.numbers_equal is not False]
    lines = []
    for fast in OURS:
        factors = {slow: speedup(rows, slow, fast) for slow in RIVALS}
        told = [
            f"{factor:.1f} times as fast as {title_of(slow)}"
            for slow, factor in factors.items()
            if factor
        ]
        bound = over_bound(rows, fast)
        told += [f"{bound:.2f} of the bound"] if bound else []
        if told:
            lines.append(f"{fast}: {', '.join(told)} (geometric means)")
    return lines


def not_counted(rows: Sequence[Row]) -> list[str]:
    """A line for each system whose times do not count, and where: it went over its budget, or came
    to other numbers.
    """
    over = [row for row in rows if row.over_budget]
    differ = [row for row in rows if row.numbers_equal is False and not row.over_budget]
    return [
        *_told(over, "had more resident than its budget, so these times count nowhere"),
        *_told(differ, "came to other numbers than the native run, so these times are in no mean"),
    ]


def _told(rows: Sequence[Row], why: str) -> list[str]:
    """A line for each system."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.system, []).append(f"{row.workload} {row.oversubscription:g}")
    return [f"{system} {why}: {', '.join(places)}" for system, places in found.items()]
