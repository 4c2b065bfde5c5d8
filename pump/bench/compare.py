"""Two results side by side: what became faster, what slower."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from rich.table import Table

from pump.bench.row import OVER, Row, Run
from pump.cli.render import table

NOISE = 0.03
"""A change of less than this share is none."""


@dataclass(frozen=True)
class Change:
    """A run that both have: milliseconds a step."""

    run: Run
    before_ms: float
    after_ms: float
    bound_ms: float | None = None  # of the second
    over_budget: bool = False  # one of both was: the ratio says nothing

    @property
    def ratio(self) -> float:
        return self.after_ms / self.before_ms


@dataclass(frozen=True)
class Comparison:
    """Every run that both have, and those that only one has."""

    changes: list[Change]
    missing: list[Run]  # of the second
    new: list[Run]

    @property
    def counted(self) -> list[Change]:
        """Those whose ratio is one of a system that kept to its budget."""
        return [change for change in self.changes if not change.over_budget]

    def means(self) -> dict[str, float]:
        """The geometric mean of the ratios, system by system."""
        names = dict.fromkeys(change.run.system for change in self.counted)
        return {
            name: geometric_mean(c.ratio for c in self.counted if c.run.system == name)
            for name in names
        }

    def over_bound(self) -> dict[str, float]:
        """The second's times over their bounds, system by system: geometric means."""
        known: dict[str, list[float]] = {}
        for change in self.counted:
            if change.bound_ms:
                known.setdefault(change.run.system, []).append(change.after_ms / change.bound_ms)
        return {system: geometric_mean(ratios) for system, ratios in known.items()}

    def slower(self, noise: float = NOISE) -> list[Change]:
        """What takes longer by more than noise."""
        return [change for change in self.counted if change.ratio > 1 + noise]


def compare(before: Sequence[Row], after: Sequence[Row]) -> Comparison:
    """Medians of what has the same key."""
    old = {row.run: row for row in before}
    new = {row.run: row for row in after}
    changes = [change_of(old[run], new[run]) for run in sorted(old, key=place) if run in new]
    return Comparison(changes, [r for r in old if r not in new], [r for r in new if r not in old])


def place(run: Run) -> tuple[str, float]:
    """In a table; systems as they come."""
    return run.workload, run.oversubscription


def change_of(before: Row, after: Row) -> Change:
    """Of one run."""
    over = bool(before.over_budget or after.over_budget)
    return Change(after.run, before.ms, after.ms, after.bound_ms, over)


def comparison_table(found: Comparison, noise: float = NOISE) -> Table:
    """A line a run; what takes longer is marked."""
    columns = ("workload", "device", "system", ">over", ">before ms", ">after ms", ">bound ms")
    lines = [
        (
            *change.run[:3],
            f"{change.run.oversubscription:g}",
            f"{change.before_ms:.2f}",
            f"{change.after_ms:.2f}",
            f"{change.bound_ms:.2f}" if change.bound_ms else "",
            f"{change.ratio:.3f}",
            OVER if change.over_budget else verdict(change.ratio, noise),
        )
        for change in found.changes
    ]
    return table((*columns, ">ratio", ""), lines)


def verdict(ratio: float, noise: float) -> str:
    """In a word; nothing within noise."""
    return "SLOWER" if ratio > 1 + noise else "faster" if ratio < 1 - noise else ""
