"""`pump-bench share`."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pump.bench import machine
from pump.bench.markdown import caption, captions, markdown
from pump.bench.outputs import add_outputs, try_outputs
from pump.bench.share_looks import played, recorded
from pump.bench.share_plot import plot_sharing
from pump.bench.share_row import BARS, Row, apart, in_words, read_rows, to_json
from pump.bench.share_tests import TESTS
from pump.predict.plots import INSTALL, can_plot
from pump.predict.processes import results
from pump.terminal.command import UsageError, reading
from pump.terminal.hint import hint
from pump.terminal.render import console, progress_bar
from pump.terminal.tables import table
from pump.whole import write_whole

WAYS = {"swap": "whole processes", "faults": "page faults"}
BOUND = "most possible"
Part = Callable[[], Iterator[Row]]
Measured = tuple[dict[str, str], list[Row]]
"""A file: the machine, and its rows."""
NO_GPU = "none"
"""The GPU of a machine without one: the rows were played."""


class Share:
    """Play programs that share a GPU, in virtual time, under the policy of the broker.

    The tests are those that `python -m bench.gpu.tenants` measures on a GPU: beside the broker's
    policy as ulms.so carries it out stand whole processes in turns, page faults (what was used
    longest ago leaves), and the most that is possible. --plots draws one run.
    """

    name = "share"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which tests, and what to write."""
        parser.add_argument("tests", nargs="*", metavar="TEST", help=f"of {', '.join(TESTS)}")
        parser.add_argument(
            "--show",
            action="append",
            type=Path,
            metavar="FILE.json",
            help="play nothing: print what --json wrote as a Markdown table, and beside it what a"
            " GPU measured, if that is given too",
        )
        parser.add_argument(
            "--looks",
            type=Path,
            metavar="FILE",
            help="play nothing: draw what `pump top --json --interval 0.1` wrote there",
        )
        add_outputs(parser)
        parser.add_argument("--quiet", action="store_true", help="show no progress")

    def main(self, args: argparse.Namespace) -> int:
        """Prints the table, writes rows and the picture."""
        known = TESTS if not args.show else {test.split()[0] for test, _ in BARS}
        if unknown := set(args.tests) - set(known):
            one = min(unknown)
            raise UsageError(f"no test {one}: {', '.join(known)}{hint(one, known)}")
        names = args.tests or list(TESTS)
        if args.show:
            with reading():
                print(shown([read_rows(path) for path in args.show], args.tests))
            return 0
        if args.looks and not args.plots:
            raise UsageError("--looks draws: say where with --plots")
        try_outputs(args)
        if not args.looks:
            self.play(args, [part for name in names for part in TESTS[name]])
        if args.plots:
            console().print(draw(args))
        return 0

    def play(self, args: argparse.Namespace, parts: Sequence[Part]) -> None:
        """Prints and writes what the parts come to."""
        found: list[Row] = []
        with progress_bar(sys.stderr, args.quiet) as bar:
            task = bar.add_task("playing", total=len(parts))
            for _, rows in results(play, parts):
                found += rows
                bar.update(task, advance=1, description=rows[-1].what)
        heads = ("test", "what", ">bar", *(f">{way}" for way in (*WAYS.values(), "PUMP", BOUND)))
        lines = [(one.test, one.what, in_words(one), *cells(one), one.unit) for one in found]
        leaves = ("what", *WAYS.values())
        console().print(table((*heads, ""), lines, leaves=leaves))
        if args.json:
            told = json.dumps(to_json(machine.describe(), found), indent=1)
            write_whole(args.json, f"{told}\n")


def play(part: Part) -> list[Row]:
    """For another process."""
    return list(part())


def cells(row: Row) -> list[str]:
    """Of whole processes, faults, ours and the bound."""
    figures = [*(row.ways.get(way) for way in WAYS), row.figure, row.ways.get("bound")]
    return ["" if figure is None else f"{figure:.3g}" for figure in figures]


def shown(files: Sequence[Measured], names: Sequence[str]) -> str:
    """A table of these tests (none: of all): of what was played, and beside it what GPUs measured,
    or of that alone.
    """
    chosen = [
        (told, [one for one in rows if not names or one.test.split()[0] in names])
        for told, rows in files
    ]
    return beside(chosen) if files[0][0]["gpu"] == NO_GPU else against_bars(chosen)


def against_bars(files: Sequence[Measured]) -> str:
    """A table of rows, each with its bar."""
    lines = [
        [one.what, f"{one.figure:.3g} {one.unit}", in_words(one)]
        for _, rows in files
        for one in rows
    ]
    told = captions(told for told, _ in files)
    return f"{told}\n\n{markdown(['', 'measured', 'bar'], lines)}"


def beside(files: Sequence[Measured]) -> str:
    """A table of the first file's rows, with the figures of the others: a column a GPU."""
    (told, rows), *measured = files
    gpus = dict.fromkeys(there["gpu"] for there, _ in measured)
    lines, before = [], ""
    for one in rows:
        more = []
        for gpu in gpus:
            there = [
                other
                for machine, others in measured
                for other in others
                if machine["gpu"] == gpu and (other.test, other.what) == (one.test, one.what)
            ]
            more += [f"{o.figure:.3g} ({apart(one, o):.0%})" for o in there[-1:]] or ["-"]
        kind = f"{one.test}, {one.unit}: "
        lines.append([kind * (kind != before) + one.what, *cells(one), *more])
        before = kind
    heads = ["", *WAYS.values(), "PUMP", BOUND, *(f"{gpu} (apart)" for gpu in gpus)]
    where = captions(there for there, _ in measured)
    where = f"{caption(told, simulated=True)} {where}".rstrip()
    return f"{where}\n\n{markdown(heads, lines)}"


def draw(args: argparse.Namespace) -> str:
    """Writes the picture; says which. Raises FormatError, OSError."""
    if not can_plot():
        return f"no picture: it needs matplotlib ({INSTALL})"
    with reading():
        looks = recorded(args.looks) if args.looks else played()
    path: Path = args.plots / f"sharing.{'svg' if args.svg else 'png'}"
    plot_sharing(looks, path)
    return f"wrote {path}"
