"""Recorded steps in virtual time, as a device that workloads run on."""

import sys
from collections.abc import Sequence
from functools import cached_property

from pump import paths
from pump.bench import machine, simulate
from pump.bench.row import Row
from pump.bench.runner import Asked
from pump.bench.simulate import Task
from pump.bench.steps import STEPS
from pump.paths import trace_name
from pump.predict import yardstick
from pump.sim.link import PAGE_BYTES
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.progress import Workloads
from pump.terminal.render import progress_bar


class Simulated:
    """Every recorded step there is. intervals: of the bound; 0: none."""

    def __init__(self, intervals: int) -> None:
        self.intervals = intervals

    def names(self) -> list[str]:
        """The recorded steps. Raises NotBuiltError where there are none."""
        if not (found := paths.traces()):
            raise paths.NotBuiltError(
                "recorded steps lie in PUMP's sources (bench/traces): run `pump-bench` there"
            )
        return list(found)

    def workloads(self) -> dict[str, str]:
        """The recorded steps. Raises NotBuiltError, SequenceError, OSError."""
        told = {}
        for name in self.names():
            sequence = yardstick.sequence_at(paths.traces()[name])
            needs = format_size(sequence.footprint(PAGE_BYTES))
            what = STEPS.get(name, "a recorded step")
            told[name] = f"{what}; needs {needs}, {sequence.native_ns() / 1e6:.1f} ms"
        return told

    def machine(self, systems: Sequence[str]) -> dict[str, str]:
        """This one: the rows are the same on all."""
        return self.here

    @cached_property
    def here(self) -> dict[str, str]:
        """Its description: that of the first row."""
        return machine.describe()

    def rows(self, asked: Asked) -> list[Row]:
        """Every row; progress goes to standard error. Raises UsageError."""
        chosen = [paths.traces()[name] for name in asked.names]
        tasks = simulate.tasks_for(chosen, asked.systems, asked.ratios, self.intervals)
        with progress_bar(sys.stderr, asked.quiet) as bar:
            shown = bar.add_task("simulating", total=len(tasks))
            silent = asked.quiet or not bar.disable
            lines = Workloads((trace_name(task.path) for task in tasks), not silent)

            def progress(done: Task) -> None:
                bar.update(shown, advance=1, description=simulate.label(done))
                lines.done(trace_name(done.path))

            try:
                return simulate.rows_of(
                    chosen,
                    asked.systems,
                    asked.ratios,
                    self.intervals,
                    progress,
                    keep=asked.keep,
                )
            except ValueError as error:
                raise UsageError(str(error)) from error
