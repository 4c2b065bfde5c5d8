"""`pump plan`."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pump.cli.recording import open_step, step_line
from pump.paths import trace_name
from pump.predict import plan, plots
from pump.predict.roofline import bytes_ms, peaks, recorder
from pump.predict.systems import OVER
from pump.regular import open_regular
from pump.sim.hardware import (
    GPUS,
    INTERCONNECTS,
    REFERENCE,
    Gpu,
    Interconnect,
    was_measured,
)
from pump.sim.link import FIGURES, LINKS, figure
from pump.sim.sequence import Sequence, SequenceError
from pump.sizes import format_size, parse_memory
from pump.terminal.command import UsageError, reading
from pump.terminal.number import number
from pump.terminal.progress import Runs
from pump.terminal.render import console, progress_bar
from pump.terminal.tables import table

LEAST_MS = 0.001


class Plan:
    """Predict a traced program's step time with less memory, by backend and factor.

    TRACE is what `pump trace` recorded, with enough memory or while pages moved, or a recorded step
    as in bench/traces. The engine plays it in virtual time over a model of the link. Operations
    take as long as they did where they were recorded. With --gpu they are scaled by data sheets:
    what loads by the memories' rates, what computes by the arithmetic, and the start of a kernel
    not. A trace does not tell which it is of every operation, so a step takes from least to most.
    """

    name = "plan"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """What to predict."""
        parser.add_argument("trace", nargs="?", type=Path, metavar="TRACE")
        parser.add_argument("--memory", type=size_of, metavar="SIZE", help="such as 24GiB")
        parser.add_argument(
            "--gpu",
            choices=GPUS,
            metavar="NAME",
            help=f"memory, link and speed of this one: {', '.join(GPUS)}",
        )
        parser.add_argument(
            "--link", choices=INTERCONNECTS, help="to the host (default: the GPU's)"
        )
        parser.add_argument(
            "--backend",
            action="append",
            choices=LINKS,
            help="one backend (default: all); vmm-known is vmm where all kernels are trusted",
        )
        parser.add_argument(
            "--step-ms",
            type=number(LEAST_MS),
            default=0.0,
            metavar="MS",
            help="what a step takes from end to end where everything fits, untraced (default: what"
            " its operations take): where the program's own thread bounds it, it takes longer",
        )
        parser.add_argument("--plot", type=Path, metavar="FILE", help="draw step time over memory")
        parser.add_argument("--json", action="store_true", help="print the prediction as JSON")
        parser.add_argument(
            "--hardware", action="store_true", help="list GPUs, links and costs, and stop"
        )

    def step(self, args: argparse.Namespace) -> Sequence:
        """The step whose time is predicted. Raises UsageError."""
        if args.trace:
            with reading(), open_regular(args.trace):  # before what else is missing
                pass
        if not args.trace or not (args.memory or args.gpu):
            raise UsageError("plan needs a TRACE, and --memory or --gpu: how much there will be")
        return open_step(args.trace)

    def run(self, args: argparse.Namespace, sequence: Sequence) -> plan.Plan:
        """The prediction."""
        backends = plan.backends_for(sequence, args.backend or LINKS)
        with progress_bar(sys.stderr) as bar:
            shown = bar.add_task("predicting", total=None)
            lines = Runs(told=bar.disable)

            def progress(done: int, runs: int) -> None:
                bar.update(shown, completed=done, total=runs)
                lines.done(done, runs)

            return plan.plan(
                sequence,
                memory_of(args),
                link_of(args, sequence),
                backends,
                progress,
                curve=bool(args.plot or args.json),
                step_ns=args.step_ms * 1e6,
                gpu=GPUS.get(args.gpu),
            )

    def main(self, args: argparse.Namespace) -> int:
        """Prints it: what is known first, as the rest may take minutes."""
        out = console()
        if args.hardware:
            for listing in hardware_tables():
                out.print(listing)
            return 0
        if args.plot:
            refuse_unless_drawable(args.plot)
        recorded = self.step(args)
        try:
            gpu = GPUS.get(args.gpu)
            needs = plan.needs_of(recorded, memory_of(args), args.step_ms * 1e6, gpu)
        except SequenceError as error:
            raise UsageError(f"{args.trace}: {error}") from error
        plays = bool(args.plot or args.json or not needs.roomy)
        if not args.json:
            for line in opening(args, recorded, needs, plays):
                out.print(line)
        if not plays:
            return 0
        found = self.run(args, recorded)
        if args.json:
            print(json.dumps(asdict(found), indent=1))
        elif not found.roomy:
            show(out, found, args.memory)
        if args.plot:
            plots.plot_plan(found, trace_name(args.trace), args.plot)
            print(f"wrote {args.plot}", file=sys.stderr)
        return 0


def memory_of(args: argparse.Namespace) -> int:
    """How much there is, bytes."""
    return int(args.memory or GPUS[args.gpu].memory)


def gpu_of(args: argparse.Namespace, sequence: Sequence) -> Gpu:
    """The one asked for, or what the step was recorded on, or what costs were measured on."""
    return GPUS.get(args.gpu) or recorder(sequence) or REFERENCE


def link_of(args: argparse.Namespace, sequence: Sequence) -> Interconnect:
    """The one asked for, or the GPU's."""
    return INTERCONNECTS[args.link or gpu_of(args, sequence).interconnect]


def refuse_unless_drawable(picture: Path) -> None:
    """Before anything takes time. Raises UsageError."""
    if not plots.can_plot():
        raise UsageError(f"--plot needs matplotlib: {plots.INSTALL}")
    if picture.suffix[1:].lower() not in plots.formats():
        raise UsageError(
            f"--plot {picture}: its name must end in one of {', '.join(plots.formats())}"
        )
    if not picture.absolute().parent.is_dir():
        raise UsageError(f"--plot {picture}: there is no such folder")


def size_of(text: str) -> int:
    """Bytes. Raises ArgumentTypeError."""
    try:
        return parse_memory(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def slower_step(sequence: Sequence) -> list[str]:
    """What was traced took longer than its operations: the program's thread may bound it."""
    if not sequence.thread_ns(sequence.traced_ns):
        return []
    return [
        f"its operations take {sequence.native_ns() / 1e6:.1f} ms, and the traced step took"
        f" {sequence.traced_ns / 1e6:.1f}. If it takes longer than they do untraced, too, the"
        " program's own thread bounds it: tell by --step-ms how long"
    ]


def opening(
    args: argparse.Namespace, recorded: Sequence, needs: plan.Needs, plays: bool
) -> Iterator[str]:
    """What is known before anything is played, and where the figures of what is are from."""
    gpu, source = gpu_of(args, recorded), recorder(recorded)
    if plays:
        yield from link_lines(gpu, link_of(args, recorded))
    if source and gpu is not source:
        yield scaled_line(recorded, source, gpu)
    if plays:
        backends = plan.backends_for(recorded, args.backend or LINKS)
        yield from (f"{name}: {LINKS[name].note}" for name in backends)
    yield step_line(recorded)
    yield from [] if args.step_ms else slower_step(recorded)
    yield (
        f"\nneeds {format_size(needs.footprint)}, has {format_size(needs.memory)};"
        f" {plan.span(needs.native_ms, needs.most_native_ms, 1)} ms a step where everything"
        " fits\n"
    )
    if needs.roomy:
        yield (
            f"It fits, with {format_size(needs.spare)} to spare: run it as it is, nothing has to"
            " move."
        )
        if not plays:
            yield "What less would cost is told with --memory SIZE, and drawn with --plot FILE."


def scaled_line(recorded: Sequence, source: Gpu, gpu: Gpu) -> str:
    """How times on one GPU became those on another."""
    arithmetic = " and ".join(f"{a / b:.2g}" for a, b in peaks(source, gpu))
    return (
        f"{gpu.name}: operations take, by data sheet, {source.bandwidth / gpu.bandwidth:.2g} times"
        f" as long as on an {source.name} if memory bounds them and {arithmetic} times (16-bit"
        " tensor cores, 32-bit) if arithmetic does; the start of a kernel takes as long. The bytes"
        f" that they touch alone take {bytes_ms(recorded, gpu):.1f} ms ({gpu.source})"
    )


def link_lines(gpu: Gpu, link: Interconnect) -> Iterator[str]:
    """How fast a link is taken to be."""
    yield f"link {link.name}: {link.raw:g} GB/s each way ({link.source}: {link.note})"
    share = f"{figure('vmm.copy'):g} of {INTERCONNECTS[REFERENCE.interconnect].raw:g} GB/s"
    if was_measured(gpu, link):
        yield f"what of it is reachable, measured: {share} by plain copies"
    else:
        yield (
            f"what of it is reachable: the share measured on an {REFERENCE.name}'s link, {share} by"
            " plain copies"
        )


def show(out: Console, found: plan.Plan, limit: int | None) -> None:
    """Prints what was predicted. limit: bytes, as `plan.advice` has it."""
    if found.backends:
        out.print(factor_table(found))
    for line in [*notes(found), *plan.advice(found, limit)]:
        out.print(line, soft_wrap=line.startswith(" "))  # a command is to be copied


def factor_table(found: plan.Plan) -> Table:
    """A line a factor: milliseconds for each backend, and the slowdown where it is no range."""
    headings = [">factor", ">has"]
    for name in found.backends:
        headings += [f">{name} ms"] if found.ranges else [f">{name} ms", ">slower"]
    lines = []
    for factor, row in found.factors.items():
        cells = [f"{factor} %", format_size(found.memory * factor // 100)]
        for name in found.backends:
            cells += times(row.get(name), found)
        lines.append(cells)
    return table(headings, lines, leaves=("slower",))


def times(point: plan.Point | None, found: plan.Plan) -> list[str]:
    """Milliseconds and slowdown, or why there are none. None: it has no page."""
    if not point or point.over_budget:
        return [OVER if point else "no page", *([] if found.ranges else [""])]
    if found.ranges:
        return [plan.span(point.step_ms, point.most_ms)]
    return [f"{point.step_ms:.1f}", f"{point.step_ms / found.native_ms:.1f}x"]


def notes(found: plan.Plan) -> Iterator[str]:
    """What a table leaves open, a line each."""
    points = [point for row in found.factors.values() for point in row.values()]
    if over := dict.fromkeys(point.backend for point in points if point.over_budget):
        yield (
            f"{OVER}: {' and '.join(over)} had more resident than that, so there is no time: what"
            " kernels fault in stays as long as they are queued."
        )
    less = dict.fromkeys(point.backend for point in points if point.budget < found.largest)
    if used := [name for name in less if not LINKS[name].rate_fault]:
        yield (
            f"One operation alone touches {format_size(found.largest)}: with less it uses in place"
            f" what does not fit ({', '.join(used)})."
        )


def hardware_tables() -> list[Table]:
    """Every GPU, link and cost, with its source."""
    gpus = [
        (
            g.name,
            format_size(g.memory),
            f"{g.bandwidth:g}",
            f"{g.tensor:g}, {g.fp32:g}",
            g.interconnect,
            g.source,
        )
        for g in GPUS.values()
    ]
    links = [(i.name, f"{i.raw:g}", i.source, i.note) for i in INTERCONNECTS.values()]
    figures = [(name, f"{f.value:g}", f.unit, f.what, f.source) for name, f in FIGURES.items()]
    return [
        table(
            ("GPU", ">memory", ">GB/s", ">TFLOP/s of 16, 32 bit", "link", "source"),
            gpus,
            leaves=("source",),
        ),
        table(("link", ">raw GB/s each way", "source", "note"), links, leaves=("note",)),
        table(("on an H200", ">cost", "", "of", "source"), figures, leaves=("source",)),
    ]
