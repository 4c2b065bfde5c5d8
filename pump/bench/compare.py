"""Two results side by side: what became faster, what slower."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from rich.table import Table

from pump.bench.report import DIFFERS, cell_of
from pump.bench.row import Results, Row, Run, read_results
from pump.predict.systems import OVER
from pump.terminal.tables import table

NOISE = 0.03
"""A change of less than this share is none."""


@dataclass(frozen=True)
class Change:
    """A run that both have."""

    before: Row
    after: Row

    @property
    def run(self) -> Run:
        return self.after.run

    @property
    def ratio(self) -> float | None:
        """Of the times; None: one of both has none, as it failed."""
        if self.before.failed or self.after.failed:
            return None
        return self.after.ms / self.before.ms

    @property
    def why_not(self) -> str:
        """Why the ratio says nothing, in a word; "": it counts."""
        pair = (self.before, self.after)
        if self.after.failed:
            return "failed" if self.before.failed else "FAILS"
        if self.before.failed:
            return "runs"
        if any(row.over_budget for row in pair):
            return OVER
        return DIFFERS.strip() if any(row.numbers_equal is False for row in pair) else ""


@dataclass(frozen=True)
class Comparison:
    """Every run that both have, and those that only one has."""

    changes: list[Change]
    missing: list[Row]  # of the second
    new: list[Row]

    @property
    def counted(self) -> list[tuple[Change, float]]:
        """Those whose ratio says something, with it."""
        return [(c, c.ratio) for c in self.changes if c.ratio is not None and not c.why_not]

    def means(self) -> dict[str, float]:
        """The geometric mean of the ratios, system by system."""
        return _means((change.run.system, ratio) for change, ratio in self.counted)

    def over_bound(self) -> dict[str, float]:
        """The second's times over their bounds, system by system: geometric means."""
        rows = (change.after for change, _ in self.counted)
        return _means((row.system, row.ms / row.bound_ms) for row in rows if row.bound_ms)

    def slower(self, noise: float = NOISE) -> list[Change]:
        """What takes longer by more than noise."""
        return [change for change, ratio in self.counted if ratio > 1 + noise]

    def told(self, names: tuple[str, str], noise: float = NOISE) -> list[str]:
        """What there is to say of it, a line each. names: of the two results."""
        bounds = self.over_bound()
        lines = []
        for system, ratio in self.means().items():
            over = f", now {bounds[system]:.2f} of the bound" if system in bounds else ""
            lines.append(f"{system}: {ratio:.3f} times as long{over} (geometric means)")
        pairs = [(c.before, c.after) for c in self.changes]
        lines += _only_in(names[0], pairs, self.missing)
        lines += _only_in(names[1], [(after, before) for before, after in pairs], self.new)
        counted = len(self.counted)
        lines.append(
            f"{len(self.slower(noise))} of {counted} runs became slower by more than {noise:.0%}"
        )
        if left := len(self.changes) - counted:
            lines.append(f"{left} more are in both and not counted: see their last column")
        return lines


def _means(ratios: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The geometric mean of each system's."""
    found: dict[str, list[float]] = {}
    for system, ratio in ratios:
        found.setdefault(system, []).append(ratio)
    return {system: geometric_mean(every) for system, every in found.items()}


def _only_in(name: str, pairs: Sequence[tuple[Row, Row]], alone: Sequence[Row]) -> list[str]:
    """What one file has and the other has not, a line each: failures, other numbers, runs. pairs:
    its row of a run first; alone: its rows of runs that only it has.
    """
    failed = [row for row, other in pairs if row.failed and not other.failed]
    failed += [row for row in alone if row.failed]
    unequal = [row for row in [*(row for row, _ in pairs), *alone] if row.numbers_equal is False]
    lines = []
    if failed:
        told = ", ".join(f"{place_of(row)} ({row.no_time})" for row in failed)
        lines.append(f"failed only in {name}: {told}")
    if unequal:
        told = ", ".join(map(place_of, unequal))
        lines.append(f"numbers other than the native run's in {name}: {told}")
    if alone:
        lines.append(f"only in {name}: {len(alone)} {'run' if len(alone) == 1 else 'runs'}")
    return lines


def compare(before: Results | str | Path, after: Results | str | Path) -> Comparison:
    """Medians of what has the same key; what failed stands beside what did not.

    Each: results, or the file that `pump-bench run --json` wrote. `Comparison.changes` has a
    `Change` for each run of both: rows with milliseconds a step, and their ratio, after : before.
    Raises FormatError, OSError for a file.
    """
    before, after = opened(before), opened(after)
    old = {row.run: row for row in before.every}
    new = {row.run: row for row in after.every}
    changes = [Change(old[run], new[run]) for run in sorted(old, key=place) if run in new]
    missing = [row for run, row in old.items() if run not in new]
    return Comparison(changes, missing, [row for run, row in new.items() if run not in old])


def opened(told: Results | str | Path) -> Results:
    """Results, read if a file is given. Raises FormatError, OSError."""
    return told if isinstance(told, Results) else read_results(Path(told))


def place(run: Run) -> tuple[str, float]:
    """In a table; systems as they come."""
    return run.workload, run.oversubscription


def place_of(row: Row) -> str:
    """A run in a sentence."""
    return f"{row.workload} {row.system} {row.oversubscription:g}"


def comparison_table(found: Comparison, noise: float = NOISE) -> Table:
    """A line a run; what takes longer is marked."""
    columns = ("workload", "device", "system", ">over", ">before ms", ">after ms", ">bound ms")
    lines = [
        (
            *change.run[:3],
            f"{change.run.oversubscription:g}",
            cell_of(change.before, 2),
            cell_of(change.after, 2),
            f"{change.after.bound_ms:.2f}" if change.after.bound_ms else "",
            "" if change.ratio is None else f"{change.ratio:.3f}",
            change.why_not or verdict(change.ratio or 1, noise),
        )
        for change in found.changes
    ]
    return table((*columns, ">ratio", ""), lines, leaves=("bound ms", "device", "before ms"))


def verdict(ratio: float, noise: float) -> str:
    """In a word; nothing within noise."""
    return "SLOWER" if ratio > 1 + noise else "faster" if ratio < 1 - noise else ""
