"""What a comparison is asked for, and who runs it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pump.bench.row import Row


@dataclass(frozen=True)
class Asked:
    """Workloads, systems and ratios (memory needed : memory there is), each with each."""

    names: Sequence[str]
    systems: Sequence[str]
    ratios: Sequence[float]
    quiet: bool = False
    known: Sequence[Row] = ()  # from before: not run again
    elsewhere: Sequence[Row] = ()  # in other results: not run, and not among these
    keep: Callable[[list[Row]], None] = field(default=lambda rows: None)  # all rows, after each
    seconds: float | None = None  # nothing begins or goes on after them
    patience: float | None = None  # seconds of a run: one that takes longer has failed
    rounds: int = 1  # processes of each run, all runs of a workload in turn

    @property
    def runs(self) -> int:
        """How many there are: the native one of a workload is one for all ratios."""
        others = sum(system != "native" for system in self.systems)
        return len(self.names) * (("native" in self.systems) + len(self.ratios) * others)


class Runner(Protocol):
    """A device that workloads run on."""

    def names(self) -> list[str]:
        """Of the workloads."""

    def workloads(self) -> dict[str, str]:
        """Names, and what each is: may take a while."""

    def machine(self, systems: Sequence[str]) -> dict[str, str]:
        """What it runs on: pump.bench.machine's, and what else is to be known for these systems."""

    def rows(self, asked: Asked) -> list[Row]:
        """Runs. Raises UsageError where that cannot be done."""
