"""The command line: `pump-bench [list | run | compare]`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

from pump import __version__, paths
from pump.bench import compare, machine, plots, report, simulate
from pump.bench.row import FormatError, Row, read_results, write_results
from pump.bench.systems import BY_NAME, DEVICES, GPU, SIM, systems_on
from pump.bench.timeline import record, write_timeline
from pump.cli.command import UsageError
from pump.cli.render import console, progress_bar, table
from pump.sim.link import LINKS
from pump.sim.sequence import SequenceError, read_sequence
from pump.sim.simulator import settings_for
from pump.sizes import format_size

INTERRUPTED = 130
RATIOS = [1.5, 2.0, 3.0]
FOLDER = Path("pump-bench")
"""Where the main comparison leaves its pictures."""
RESIDENCY_OVER = 2.0


class Runner(Protocol):
    """A device that workloads run on."""

    def workloads(self) -> dict[str, str]:
        """Names, and what each is."""

    def rows(
        self, names: Sequence[str], systems: Sequence[str], ratios: Sequence[float], quiet: bool
    ) -> list[Row]:
        """Runs. Raises UsageError where that cannot be done."""


class Simulated:
    """Recorded steps in virtual time."""

    def __init__(self, intervals: int) -> None:
        self.intervals = intervals

    def workloads(self) -> dict[str, str]:
        """The recorded steps."""
        told = {}
        for name, path in paths.traces().items():
            sequence = read_sequence(path)
            needs = format_size(sequence.footprint(LINKS["um"].page_bytes))
            told[name] = f"a recorded step: needs {needs}, {sequence.native_ns() / 1e6:.1f} ms"
        return told

    def rows(
        self, names: Sequence[str], systems: Sequence[str], ratios: Sequence[float], quiet: bool
    ) -> list[Row]:
        """Every row; progress goes to standard error."""
        chosen = [paths.traces()[name] for name in names]
        tasks = len(simulate.tasks_for(chosen, systems, ratios, self.intervals))
        try:
            with progress_bar(sys.stderr, quiet) as bar:
                task = bar.add_task("simulating", total=tasks)
                return simulate.rows_of(
                    chosen,
                    systems,
                    ratios,
                    self.intervals,
                    lambda done: bar.update(task, advance=1, description=done),
                )
        except ValueError as error:
            raise UsageError(str(error)) from error


def runner(device: str, intervals: int) -> Runner:
    """A device by its name. Raises UsageError where it cannot be had."""
    if device == SIM:
        return Simulated(intervals)
    root = programs_root()
    if not root:
        raise UsageError(f"--device {device} needs PUMP's sources: its programs are in bench/gpu")
    sys.path.insert(0, str(root))
    programs: Runner = import_module("bench.gpu.run").Programs(device)
    return programs


def programs_root() -> Path | None:
    """Where the programs for a GPU are, if they are."""
    root = paths.checkout()
    return root if root and (root / "bench" / "gpu" / "run.py").exists() else None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs what argv says and returns the exit status: 2 for wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = parser().parse_args(words or ["run", "--plots", str(FOLDER)])
    try:
        status: int = args.main(args)
        sys.stdout.flush()
    except (UsageError, FormatError, SequenceError) as error:
        return complain(str(error), 2)
    except OSError as error:
        return complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except paths.NotBuiltError as error:
        return complain(str(error), 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def complain(line: str, status: int) -> int:
    """Says what went wrong and returns the exit status."""
    print(f"pump-bench: {line}", file=sys.stderr)
    return status


def parser() -> argparse.ArgumentParser:
    """Of all commands."""
    made = argparse.ArgumentParser(
        prog="pump-bench",
        description="Compare ways to run programs that need more GPU memory than there is. Without"
        f" a command: everything, where it stands, with pictures in ./{FOLDER}.",
    )
    made.add_argument("--version", action="version", version=f"pump-bench {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="compare", description="Compare systems on workloads.")
    run.set_defaults(main=run_main)
    run.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="(default: all; see list)")
    run.add_argument("--system", action="append", metavar="NAME", help="one system (default: all)")
    run.add_argument(
        "--oversubscription",
        type=ratios_of,
        default=RATIOS,
        metavar="RATIOS",
        help="memory needed : memory there is (default: 1.5,2,3)",
    )
    add_device(run)
    run.add_argument(
        "--intervals", type=int, default=simulate.INTERVALS, help="of the bound; 0: none"
    )
    run.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    run.add_argument("--plots", type=Path, metavar="FOLDER", help="write pictures there")
    run.add_argument("--quiet", action="store_true", help="show no progress")
    listing = commands.add_parser("list", help="what can be run", description="What can be run.")
    listing.set_defaults(main=list_main)
    add_device(listing)
    both = commands.add_parser("compare", help="two results", description="What became slower.")
    both.set_defaults(main=compare_main)
    both.add_argument("before", type=Path, metavar="A.json")
    both.add_argument("after", type=Path, metavar="B.json")
    both.add_argument(
        "--noise", type=float, default=compare.NOISE, metavar="SHARE", help="(default: %(default)s)"
    )
    return made


def add_device(to: argparse.ArgumentParser) -> None:
    """The option that says where."""
    to.add_argument(
        "--device",
        choices=DEVICES,
        help="(default: gpu where there is one, else sim)",
    )


def ratios_of(text: str) -> list[float]:
    """`1.5,2,3`. Raises ValueError."""
    ratios = [float(word) for word in text.split(",")]
    if min(ratios) < 1:
        raise ValueError(text)
    return ratios


def device_of(args: argparse.Namespace) -> str:
    """The one asked for, else the best there is."""
    return args.device or (GPU if machine.has_gpu() and programs_root() else SIM)


def run_main(args: argparse.Namespace) -> int:
    """`pump-bench run`."""
    device = device_of(args)
    where = runner(device, args.intervals)
    names = args.workloads or list(where.workloads())
    if unknown := set(names) - set(where.workloads()):
        raise UsageError(f"no workload {min(unknown)} on {device}: {', '.join(where.workloads())}")
    known = [system.name for system in systems_on(device)]
    systems = [name for name in BY_NAME if name in (args.system or known)]
    if unknown := set(args.system or []) - set(known):
        raise UsageError(f"no system {min(unknown)} on {device}: {', '.join(known)}")
    rows = where.rows(names, systems, args.oversubscription, args.quiet)
    out = console()
    out.print(f"{DEVICES[device]}:\n")
    out.print(report.run_table(rows))
    for line in report.verdicts(rows):
        out.print(line)
    if device == SIM and not simulate.bounded():
        out.print("no bound: it needs scipy (pip install 'pump[bench]')")
    if args.json:
        write_results(args.json, machine.describe(), rows)
        out.print(f"wrote {args.json}")
    if args.plots:
        out.print(draw(rows, names if device == SIM else [], args.plots))
    return 0


def draw(rows: list[Row], names: Sequence[str], folder: Path) -> str:
    """Writes pictures of rows, and of recorded steps by name; says which. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    timelines = []
    for name in names:
        sequence, link = read_sequence(paths.traces()[name]), LINKS["vmm"]
        pages = simulate.budget_pages(sequence, link, RESIDENCY_OVER)
        settings = settings_for(link, BY_NAME["vmm"].policy, pages * link.page_bytes)
        title = f"{name}, {RESIDENCY_OVER:g} times its memory, vmm"
        timelines.append((title, record(sequence, link, settings)[1]))
        written.append(folder / f"timeline-{name}.json")
        write_timeline(written[-1], timelines[-1][1], title)
    if not plots.can_plot():
        return "no pictures: they need matplotlib (pip install 'pump[bench]')"
    pictures = [folder / "step-time.png", folder / "bytes.png"]
    plots.plot_times(rows, pictures[0])
    plots.plot_bytes(rows, pictures[1])
    if timelines:
        pictures.append(folder / "residency.png")
        plots.plot_residency(timelines, pictures[-1])
    return f"wrote {', '.join(map(str, pictures + written))}"


def list_main(args: argparse.Namespace) -> int:
    """`pump-bench list`."""
    device = device_of(args)
    out = console()
    out.print(f"on {device}: {DEVICES[device]}\n")
    out.print(table(("workload", "what"), runner(device, 0).workloads().items()))
    out.print(table(("system", "what"), [(s.name, s.help) for s in systems_on(device)]))
    return 0


def compare_main(args: argparse.Namespace) -> int:
    """`pump-bench compare`."""
    before, after = read_results(args.before), read_results(args.after)
    found = compare.compare(before.rows, after.rows)
    if not found.changes:
        raise UsageError("the two results have no run in common")
    out = console()
    out.print(compare.comparison_table(found, args.noise))
    for system, ratio in found.means().items():
        out.print(f"{system}: {ratio:.3f} times as long (geometric mean)")
    if found.missing or found.new:
        out.print(
            f"only in the first: {len(found.missing)} runs; only in the second: {len(found.new)}"
        )
    slower = found.slower(args.noise)
    out.print(
        f"{len(slower)} of {len(found.changes)} runs became slower by more than {args.noise:.0%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
