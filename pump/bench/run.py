"""`pump-bench run`, and where things run."""

import argparse
import math
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from pump import paths
from pump.bench import machine, pictures, report
from pump.bench.measured import left_out, with_yardsticks
from pump.bench.outputs import Kept, add_outputs, try_outputs
from pump.bench.row import Results, read_results, results_at, timed, write_results
from pump.bench.runner import Asked, Runner
from pump.bench.simulated import Simulated
from pump.bench.steps import meant
from pump.predict import yardstick
from pump.predict.plots import INSTALL
from pump.predict.systems import ALIKE, BY_NAME, DEVICES, GPU, SIM, systems_on
from pump.sim.link import LINKS
from pump.terminal.command import UsageError, reading
from pump.terminal.hint import hint
from pump.terminal.number import number
from pump.terminal.render import console, progress_bar

RATIOS = [1.5, 2.0, 3.0]
ON_GPU = ("limit", "patience", "rounds", "resume", "elsewhere", "tiny")
"""Options that only programs have."""


class Run:
    """Compare systems on workloads.

    `pump-bench list` has workloads and systems. An example: `pump-bench run resnet50 --device sim
    --system um,vmm --oversubscription 1.5,2`.
    """

    name = "run"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """What to run, where, and what to write."""
        parser.add_argument(
            "workloads",
            nargs="*",
            metavar="WORKLOAD",
            help="(default: every one, which takes minutes; see list)",
        )
        parser.add_argument(
            "--system",
            action="extend",
            type=systems_in,
            metavar="NAMES",
            help="systems, like um,vmm; may be repeated (default: all; see list)",
        )
        parser.add_argument(
            "--oversubscription",
            action="extend",
            type=ratios_of,
            metavar="RATIOS",
            help="memory needed : memory there is; may be repeated (default: 1.5,2,3)",
        )
        add_device(parser)
        add_intervals(parser)
        add_outputs(parser)
        parser.add_argument("--quiet", action="store_true", help="show no progress")
        programs = parser.add_argument_group("with --device gpu")
        programs.add_argument(
            "--limit",
            type=number(0),
            metavar="SECONDS",
            help="begin nothing, and stop, after them; no oracle, no bound (see `bound`)",
        )
        programs.add_argument(
            "--patience",
            type=number(0),
            metavar="SECONDS",
            help="a run that takes longer has failed (default: 900)",
        )
        programs.add_argument(
            "--rounds",
            type=rounds_of,
            metavar="N",
            help="run each so many times, all systems of a workload in turn, and keep every step:"
            " processes of one program differ among themselves (default: 1)",
        )
        programs.add_argument(
            "--resume", action="store_true", help="keep the rows that --json's file has"
        )
        programs.add_argument(
            "--elsewhere",
            action="append",
            type=Path,
            default=[],
            metavar="PATH",
            help="run nothing that these results have, of whatever machine: a file, or a folder of"
            " them; may be repeated",
        )
        programs.add_argument(
            "--tiny", action="store_true", help="try the programs, small, on the CPU"
        )

    def run(self, args: argparse.Namespace) -> Results:
        """Every row, written as they come. Raises UsageError, FormatError, OSError."""
        device = device_of(args)
        if device != GPU and (given := [f"--{name}" for name in ON_GPU if getattr(args, name)]):
            raise UsageError(f"{given[0]} is for --device gpu")
        where = runner(device, args.intervals, args.tiny)
        names = names_of(args, where, device)
        systems, before = systems_of(args, device), known_results(args)
        known = before.every if before else []
        there = {row.system for row in known}
        described = list(dict.fromkeys([*systems, *there]))

        def here() -> dict[str, str]:
            """What was measured of this machine for these systems is not measured again."""
            if before and there.issuperset(systems):
                return before.machine
            return where.machine(described)

        kept = Kept(args.json, here)
        with reading():
            elsewhere = [told for path in args.elsewhere for told in results_at(path)]
        try_outputs(args)
        asked = Asked(
            names,
            systems,
            ratios_in(args),
            args.quiet,
            known=known,
            elsewhere=[row for told in elsewhere for row in told.every],
            keep=kept.keep,
            seconds=args.limit,
            patience=args.patience,
            rounds=args.rounds or 1,
        )
        try:
            rows = where.rows(asked)
        except KeyboardInterrupt:
            print(f"pump-bench: {kept.interrupted(asked.runs)}", file=sys.stderr)
            raise
        found = Results.of(here(), rows)
        if device != GPU or args.limit:
            return found
        with progress_bar(sys.stderr, args.quiet) as bar:
            task = bar.add_task("bound and oracle", total=None)
            rows = with_yardsticks(
                found.rows,
                found.machine,
                args.intervals,
                lambda done: bar.update(task, description=done),
            )
            return replace(found, rows=rows)

    def main(self, args: argparse.Namespace) -> int:
        """Prints the table, writes pictures."""
        found = self.run(args)
        device = device_of(args)
        console().print(f"{'tiny programs on the CPU' if args.tiny else DEVICES[device]}\n")
        show(found, args)
        if refused := [row for row in found.rows if row.over_budget and row.device != SIM]:
            print(f"pump-bench: refused, as over its budget: {len(refused)} rows", file=sys.stderr)
            return 1
        if found.rows or args.elsewhere:  # that may have all of them
            return 0
        print("pump-bench: none of these runs could be made", file=sys.stderr)
        return 1


def show(found: Results, args: argparse.Namespace) -> None:
    """Prints the table, and what there is to say about it; writes rows and pictures."""
    asked = getattr(args, "system", None)
    out, every = console(), found.every if asked else report.without_twin(found.every)
    rows = timed(every)
    out.print(report.run_table(every))
    measured = [row for row in every if not row.failed]
    if resident := report.resident_table(measured):
        out.print(resident)
    for line in [*report.verdicts(rows), *report.not_counted(measured)]:
        out.print(line)
    if len(every) < len(found.every):
        out.print("{1} is as {0}: every kernel is trusted".format(*ALIKE))
    played = [row for row in rows if row.device == SIM]
    links = dict.fromkeys(BY_NAME[row.system].link for row in played)
    for link in [LINKS[name] for name in links if name]:
        out.print(f"{link.name}: {link.note}")
    if getattr(args, "limit", None):
        out.print("oracle and bound were not worked out: `pump-bench bound FILE` does")
    else:
        for line in left_out(rows, found.machine["gpu"]):
            out.print(line)
    if any(row.oracle_ms and not row.bound_ms for row in rows) and not yardstick.bounded():
        out.print(f"no bound: it needs scipy ({INSTALL})")
    if args.json:
        write_results(args.json, found.machine, found.every)
        out.print(f"wrote {args.json}")
    if args.plots:
        watches = pictures.watched(played, asked)
        out.print(pictures.draw(every, watches, args.plots, "svg" if args.svg else "png"))


def add_intervals(to: argparse.ArgumentParser) -> None:
    """The option that says how fine the bound is."""
    to.add_argument(
        "--intervals",
        type=intervals_of,
        default=yardstick.INTERVALS,
        metavar="N",
        help="stretches that a step is cut into for the bound: more raise it and take longer;"
        " 0: no bound (default: %(default)s)",
    )


def add_device(to: argparse.ArgumentParser) -> None:
    """The option that says where."""
    to.add_argument("--device", choices=DEVICES, help="(default: gpu where there is one, else sim)")


def device_of(args: argparse.Namespace) -> str:
    """The one asked for, else the best there is."""
    return args.device or best_device()


def best_device() -> str:
    """Where things run if nobody says."""
    return GPU if machine.has_gpu() and programs_root() else SIM


def runner(device: str, intervals: int, tiny: bool = False) -> Runner:
    """A device by its name. Raises UsageError where it cannot be had."""
    if device == SIM:
        return Simulated(intervals)
    root = programs_root()
    if not root:
        raise UsageError(f"--device {device} needs PUMP's sources (bench/): run `pump-bench` there")
    sys.path.append(str(root))  # behind what is installed: that has the library
    module = import_module(f"bench.{device}.run")
    programs: Runner = module.Programs(tiny) if device == GPU else module.Programs()
    return programs


def programs_root() -> Path | None:
    """Where the programs for devices are, if they are."""
    root = paths.sources()
    return root if root and (root / "bench" / "gpu" / "run.py").exists() else None


def names_of(args: argparse.Namespace, where: Runner, device: str) -> list[str]:
    """The workloads asked for. Raises UsageError."""
    known = where.names()
    names = args.workloads or known
    if unknown := set(names) - set(known):
        one = min(unknown)
        other = f"did you mean {found}? " if (found := meant(one, known)) else ""
        raise UsageError(f"no workload {one} on {device}: {other}{', '.join(known)}")
    return names


def systems_of(args: argparse.Namespace, device: str) -> list[str]:
    """The systems asked for, in order. Raises UsageError."""
    known = [system.name for system in systems_on(device)]
    if unknown := set(args.system or []) - set(known):
        one = min(unknown)
        raise UsageError(f"no system {one} on {device}: {', '.join(known)}{hint(one, known)}")
    return [name for name in known if name in (args.system or known)]


def known_results(args: argparse.Namespace) -> Results | None:
    """Of an interrupted run, to go on with. Raises UsageError, FormatError, OSError."""
    if not args.resume:
        return None
    if not args.json:
        raise UsageError("--resume needs --json FILE: what was written before")
    if not args.json.exists():
        return None
    before, now = read_results(args.json), machine.describe()
    for fact in ("gpu", "driver", "commit"):
        if before.machine.get(fact) != now[fact]:
            raise UsageError(f"{args.json} is of another {fact}: {before.machine.get(fact)}")
    return before


def systems_in(text: str) -> list[str]:
    """`um,vmm`. Raises ArgumentTypeError."""
    names = text.split(",")
    if not all(names):
        raise argparse.ArgumentTypeError(f"`{text}`: write names, like um,vmm")
    return names


def ratios_in(args: argparse.Namespace) -> list[float]:
    """Those asked for, each once."""
    return list(dict.fromkeys(args.oversubscription or RATIOS))


def ratios_of(text: str) -> list[float]:
    """`1.5,2,3`. Raises ArgumentTypeError."""
    try:
        ratios = [float(word) for word in text.split(",")]
    except ValueError:
        ratios = []
    if not ratios or not all(1 <= ratio < math.inf for ratio in ratios):
        raise argparse.ArgumentTypeError(f"`{text}`: write ratios of 1 and more, like 1.5,2,3")
    return ratios


def intervals_of(text: str) -> int:
    """`30`. Raises ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"`{text}`: write how many, like 30, or 0")
    return int(text)


def rounds_of(text: str) -> int:
    """`3`. Raises ArgumentTypeError."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"`{text}`: write how many, like 3")
    return int(text)
