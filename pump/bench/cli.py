"""The command line: `pump-bench COMMAND ...`."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pump.bench import compare, markdown
from pump.bench.bars import bars
from pump.bench.machines import machines_table, unlike
from pump.bench.measured import with_yardsticks
from pump.bench.outputs import add_outputs, try_outputs
from pump.bench.row import FormatError, Results, common_runs, read_results, timed, together
from pump.bench.run import (
    Run,
    add_device,
    add_intervals,
    best_device,
    device_of,
    ratios_of,
    runner,
    show,
    systems_in,
)
from pump.bench.share import Share
from pump.bench.simulate import MAIN
from pump.predict.systems import BY_NAME, DEVICES, GPU, SIM, systems_on
from pump.sim.sequence import SequenceError
from pump.terminal.command import UsageError, reading
from pump.terminal.completion import Completion
from pump.terminal.number import number
from pump.terminal.program import Program
from pump.terminal.render import console
from pump.terminal.tables import table
from pump.whole import write_whole

FOLDER = Path("pump-bench")
"""Where the main comparison leaves its pictures."""


class List:
    """Say which workloads and systems there are on a device."""

    name = "list"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Where."""
        add_device(parser)

    def main(self, args: argparse.Namespace) -> int:
        """Prints both."""
        device = device_of(args)
        out = console()
        out.print(f"on {device}: {DEVICES[device]}\n")
        out.print(table(("workload", "what"), runner(device, 0).workloads().items()))
        out.print(table(("system", "what"), [(s.name, s.help) for s in systems_on(device)]))
        return 0


class Compare:
    """Put two results side by side: ratios, means, and what became slower."""

    name = "compare"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Two files that `run --json` wrote."""
        parser.add_argument("before", type=Path, metavar="A.json")
        parser.add_argument("after", type=Path, metavar="B.json")
        parser.add_argument(
            "--noise",
            type=number(0),
            default=compare.NOISE,
            metavar="SHARE",
            help="(default: %(default)s)",
        )

    def run(self, args: argparse.Namespace) -> tuple[compare.Comparison, tuple[Results, Results]]:
        """What both have, and both. Raises UsageError, FormatError, OSError."""
        with reading():
            before, after = read_results(args.before), read_results(args.after)
        found = compare.compare(before, after)
        if not found.changes:
            raise UsageError("the two results have no run in common")
        return found, (before, after)

    def main(self, args: argparse.Namespace) -> int:
        """Prints it."""
        found, (before, after) = self.run(args)
        names, machines = (str(args.before), str(args.after)), (before.machine, after.machine)
        out = console()
        out.print(machines_table(names, machines))
        out.print(compare.comparison_table(found, args.noise))
        lines = found.told(names, args.noise)
        if why := unlike(machines, [change.after for change in found.changes]):
            lines.append(why)
        for line in lines:
            out.print(line)
        return 0


class Bound:
    """Put oracle and bound beside what a GPU measured, from recorded steps of the same programs.

    It needs no GPU: steps take as long as measured where all fits, over the link of that GPU.
    """

    name = "bound"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which rows, and what to write."""
        parser.add_argument(
            "files",
            type=Path,
            nargs="+",
            metavar="FILE.json",
            help="of `run --device gpu`; several, of one machine each, make one table, or one each"
            " where they have runs in common",
        )
        add_intervals(parser)
        add_outputs(parser)

    def run(self, args: argparse.Namespace) -> dict[str, Results]:
        """What the files have, those rows with both that can have them; by what to call it: all
        together, of the last one's machine, or each by itself where they have runs in common.
        Raises FormatError, SequenceError, UsageError, OSError.
        """
        if args.json and len(args.files) > 1:
            raise UsageError("--json is for the rows of one machine")
        with reading():
            every = {str(path): read_results(path) for path in args.files}
        common = common_runs(every.values())
        if args.plots and common:
            one = common[0]
            named = f"{one.workload} {one.system} {one.oversubscription:g}"
            raise UsageError(f"--plots shows a run once: {named} is in several files")
        try_outputs(args)
        for name, told in every.items():
            rows = with_yardsticks(told.rows, told.machine, args.intervals)
            every[name] = replace(told, rows=rows)
        found = every if common else {", ".join(every): together(list(every.values()))}
        for told in found.values():
            told.rows.sort(key=lambda row: compare.place(row.run))
        return found

    def main(self, args: argparse.Namespace) -> int:
        """Prints the tables, writes rows and pictures."""
        every = self.run(args)
        for name, found in every.items():
            if len(every) > 1:
                console().print(f"{name}:\n")
            show(found, args)
        return 0


class Table:
    """Print results as a Markdown table, and draw them as bars.

    README.md and docs/ have what it prints. Bars show one ratio, and need no other package.
    """

    name = "table"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which results, and what of them."""
        parser.add_argument("file", type=Path, metavar="FILE.json", help="that `run --json` wrote")
        parser.add_argument(
            "--system", action="extend", type=systems_in, metavar="NAMES", help="(default: all)"
        )
        parser.add_argument(
            "--oversubscription",
            action="extend",
            type=ratios_of,
            metavar="RATIOS",
            help="memory needed : memory there is (default: 2)",
        )
        parser.add_argument("--bars", type=Path, metavar="FILE.svg", help="draw them there")

    def run(self, args: argparse.Namespace) -> Results:
        """The results. Raises UsageError, FormatError, OSError."""
        with reading():
            found = read_results(args.file)
        if unknown := set(args.system or []) - BY_NAME.keys():
            raise UsageError(f"no system {min(unknown)}: {', '.join(BY_NAME)}")
        return found

    def main(self, args: argparse.Namespace) -> int:
        """Prints the table, writes the picture."""
        found, ratios = self.run(args), args.oversubscription or [2.0]
        systems = args.system or markdown.systems_in(found)
        print(markdown.step_table(found, ratios, systems))
        if args.bars:
            rows = [r for r in timed(found.rows) if r.oversubscription == ratios[0]]
            shown = [row for row in rows if row.system in systems]
            if not shown:
                raise UsageError(f"{args.file} has no times at {ratios[0]:g} of these systems")
            memory = markdown.WORDS.get(ratios[0], f"1/{ratios[0]:g}")
            write_whole(args.bars, bars(shown, systems, memory))
        return 0


ON_GPU = ("decode-3b", "gpt2-small", "resnet50")
"""Programs of the main comparison on a GPU: every system can have their memory."""

PROGRAM: Program = Program(
    "pump-bench",
    "Compare ways to run programs that need more GPU memory than there is. Without a command: the"
    f" main comparison, with pictures in ./{FOLDER}: where there is a GPU, {', '.join(ON_GPU)} with"
    f" half of their memory, in some minutes; else the recorded steps {', '.join(MAIN)}, in about"
    " a minute. It takes the options of `run`, which runs every one.",
    (Run(), List(), Compare(), Bound(), Table(), Share(), Completion(lambda: PROGRAM)),
    (UsageError, FormatError, SequenceError),
)
ALONE = ("-h", "--help", "-V", "--version")
"""Options that are not those of `run`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what argv says and returns the exit status: 2 for wrong usage."""
    return PROGRAM.main(with_command(list(sys.argv[1:] if argv is None else argv)))


def with_command(words: Sequence[str]) -> list[str]:
    """The words with the command that they leave out. SystemExit: they are wrong."""
    if words and (not words[0].startswith("-") or words[0] in ALONE):
        return list(words)
    return main_comparison(words)


def main_comparison(options: Sequence[str] = ()) -> list[str]:
    """The words of the main comparison with these options of `run`; of other workloads where they
    name some. SystemExit: they are wrong.
    """
    asked = PROGRAM.parse(["run", *options])
    names = {command.name for command in PROGRAM.commands}
    if early := next((word for word in asked.workloads if word in names), None):
        asked.parser.error(f"`{early}` comes before its options")
    if asked.workloads:
        return ["run", *options]
    device = asked.device or best_device()
    what = {SIM: MAIN, GPU: ON_GPU}.get(device, ())
    words = ["run", *what, "--device", device, "--plots", str(FOLDER)]
    if device == GPU and not asked.oversubscription:
        words += ["--oversubscription", "2"]
    return [*words, *options]
