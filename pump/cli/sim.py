"""`pump sim`."""

import argparse
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import NamedTuple

from rich.table import Table

from pump.cli.recording import open_step
from pump.cli.sim_tenants import share, share_table
from pump.paths import trace_name
from pump.sim.broker import TENANTS
from pump.sim.engine import CompiledEngine, policies
from pump.sim.link import LINKS, PAGE_BYTES, Link, link_for
from pump.sim.sequence import Sequence
from pump.sim.simulator import Simulator, settings_for
from pump.sizes import format_size, parse_size
from pump.terminal.command import UsageError
from pump.terminal.hint import hint
from pump.terminal.number import number, whole
from pump.terminal.render import console
from pump.terminal.tables import table

RATIOS = 0.01, 1000.0
"""Of memory needed to memory there is, at least and at most."""
ODD = 0.1
"""A step is not settled that takes so much longer or shorter, as a share of the median."""


@dataclass(frozen=True)
class Row:
    """One run: the steady state of a sequence under a policy, over a link."""

    sequence: str
    footprint: int  # bytes
    native_ms: float
    link: str
    over: float  # footprint : budget
    policy: str
    step_ms: float
    bytes_in: float  # a step
    bytes_out: float
    useless: float  # share of the bytes filled
    came: float  # pages a step that came, where a page is a handle
    back: float  # of these, those that got the frame back that they had left


@dataclass(frozen=True)
class Steps:
    """One run: every step of a trace, as it was recorded."""

    sequence: str
    footprint: int  # bytes
    link: str
    over: float  # footprint : budget
    policy: str
    steps_ms: tuple[float, ...]


class Run(NamedTuple):
    """What is to be played."""

    name: str
    sequence: Sequence
    link: Link
    over: float
    policy: str


class Sim:
    """Play recorded sequences of operations in virtual time, under policies, over links.

    A sequence is a file as in bench/traces. It needs no GPU: engine and times are the same on every
    machine. Shown is the steady state, after the program's sequence was learnt: the last step that
    was recorded, again and again.
    """

    name = "sim"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """What to play, and how to show it."""
        parser.add_argument("files", nargs="+", metavar="SEQUENCE", type=Path)
        parser.add_argument(
            "--over",
            action="append",
            type=number(*RATIOS),
            metavar="RATIO",
            help="memory needed : memory there is (again and again; default: 1.5, 2, 3)",
        )
        parser.add_argument(
            "--policy", action="append", metavar="NAME", help="one policy (default: all)"
        )
        parser.add_argument(
            "--link",
            action="append",
            choices=LINKS,
            help="one link model (default: all); vmm: maps what is away as the backend would,"
            " only where a kernel of the sequence may use it there",
        )
        parser.add_argument(
            "--page",
            metavar="SIZE",
            help="what memory moves in (default: 2MiB with um, 8MiB with vmm)",
        )
        parser.add_argument(
            "--each-step",
            action="store_true",
            help="play all steps of a trace, once each, and tell when they have been learnt",
        )
        parser.add_argument(
            "--tenants",
            type=whole(1, TENANTS),
            metavar="N",
            help="play N copies of a sequence at the same time, under the broker's policy and as"
            " whole processes in turns (over: what all need : memory)",
        )
        parser.add_argument(
            "--turn-ms",
            type=number(0),
            default=0,
            metavar="MS",
            help="of tenants (default: chosen)",
        )
        parser.add_argument("--json", action="store_true", help="print the rows as JSON")

    def runs(self, args: argparse.Namespace) -> list[Run]:
        """All that were asked for. Raises UsageError for what is no sequence or policy."""
        names = args.policy or policies()
        if wrong := set(names) - set(policies()):
            known, one = ", ".join(policies()), min(wrong)
            raise UsageError(f"no policy is named {one}: {known}{hint(one, policies())}")
        ratios = args.over or [1.5, 2, 3]
        sequences = {trace_name(path): open_step(path, args.each_step) for path in args.files}
        page = page_size(args.page) if args.page else 0
        return [
            Run(name, sequence, replace(link, page_bytes=page or link.page_bytes), ratio, policy)
            for name, sequence in sequences.items()
            for link in [link_for(each, sequence) for each in args.link or LINKS]
            for ratio in ratios
            for policy in names
            if policy != "none" or link.rate_fault
        ]

    def main(self, args: argparse.Namespace) -> int:
        """Prints the runs, and how policies compare."""
        runs = self.runs(args)
        if args.tenants is not None:
            return self.share(args, {(run.name, run.over): run.sequence for run in runs})
        rows = [] if args.each_step else [play(*run) for run in runs]
        each = [play_each(*run) for run in runs] if args.each_step else []
        if args.json:
            print(json.dumps([asdict(row) for row in rows or each], indent=1))
            return 0
        out = console()
        out.print(step_table(each) if args.each_step else run_table(rows))
        for line in comparisons(rows):
            out.print(line)
        return 0

    def share(self, args: argparse.Namespace, runs: dict[tuple[str, float], Sequence]) -> int:
        """Prints how copies of each sequence share memory."""
        rows = [
            row
            for (name, over), sequence in runs.items()
            for row in share(name, sequence, args.tenants, over, args.turn_ms)
        ]
        if args.json:
            print(json.dumps([asdict(row) for row in rows], indent=1))
        else:
            console().print(share_table(rows))
        return 0


def page_size(text: str) -> int:
    """Bytes. Raises UsageError for what is no power of two."""
    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if size & (size - 1):
        raise UsageError(f"a page of {text} is no power of two")
    return size


def simulator_of(sequence: Sequence, link: Link, over: float, policy: str) -> Simulator:
    """The compiled engine with a share of the memory that the sequence needs."""
    budget = int(sequence.footprint(PAGE_BYTES) / over) // link.page_bytes * link.page_bytes
    return Simulator(CompiledEngine(settings_for(link, policy, budget)), link, policy)


def play(name: str, sequence: Sequence, link: Link, over: float, policy: str) -> Row:
    """One run of the last step, again and again."""
    result = simulator_of(sequence, link, over, policy).run(sequence)
    footprint, native_ms = sequence.footprint(PAGE_BYTES), sequence.native_ns() / 1e6
    figures = (result.step_ms, result.bytes_in, result.bytes_out, result.useless)
    pages = (result.came / result.steps, result.back / result.steps)
    return Row(name, footprint, native_ms, link.name, over, policy, *figures, *pages)


def play_each(name: str, sequence: Sequence, link: Link, over: float, policy: str) -> Steps:
    """One run of every step."""
    steps_ms = tuple(ns / 1e6 for ns in simulator_of(sequence, link, over, policy).each(sequence))
    return Steps(name, sequence.footprint(PAGE_BYTES), link.name, over, policy, steps_ms)


def step_table(rows: list[Steps]) -> Table:
    """One row a run: how long steps take once they are learnt, and how many that takes."""
    columns = ("sequence", ">needs", "link", ">over", "policy", ">steps", ">settled after")
    cells = []
    for row in rows:
        late = row.steps_ms[len(row.steps_ms) // 2 :]
        usual = median(late)
        odd = [i for i, ms in enumerate(row.steps_ms, 1) if abs(ms - usual) > ODD * usual]
        cells.append(
            (
                row.sequence,
                format_size(row.footprint),
                row.link,
                f"{row.over:g}",
                row.policy,
                str(len(row.steps_ms)),
                str(max(odd, default=0)),
                f"{usual:.1f}",
                f"{max(late):.1f}",
            )
        )
    leaves = ("needs", "steps", "slowest of the later half", "link")
    return table((*columns, ">then ms", ">slowest of the later half"), cells, leaves=leaves)


def run_table(rows: list[Row]) -> Table:
    """One row a run."""
    columns = ("sequence", ">needs", ">alone ms", "link", ">over", "policy", ">step ms")
    cells = [
        (
            row.sequence,
            format_size(row.footprint),
            f"{row.native_ms:.1f}",
            row.link,
            f"{row.over:g}",
            row.policy,
            f"{row.step_ms:.1f}",
            f"{row.bytes_in / 1e9:.2f}",
            f"{row.bytes_out / 1e9:.2f}",
            f"{row.useless:.1%}",
            f"{row.back:.0f} of {row.came:.0f}" if row.came else "",
        )
        for row in rows
    ]
    leaves = ("back", "useless", "needs", "alone ms", "GB out", "GB in")
    return table((*columns, ">GB in", ">GB out", ">useless", ">back"), cells, leaves=leaves)


def speedup(rows: list[Row], link: str, slow: str, fast: str) -> float | None:
    """How many times faster one policy is than another: the geometric mean over what both ran."""
    times = {
        policy: {
            (row.sequence, row.over): row.step_ms
            for row in rows
            if (row.link, row.policy) == (link, policy)
        }
        for policy in (slow, fast)
    }
    both = times[slow].keys() & times[fast].keys()
    return geometric_mean(times[slow][run] / times[fast][run] for run in both) if both else None


def comparisons(rows: list[Row]) -> list[str]:
    """A line for each link and policy: the default policy against it."""
    best = policies()[0]
    lines = []
    for link in dict.fromkeys(row.link for row in rows):
        for policy in dict.fromkeys(row.policy for row in rows):
            factor = speedup(rows, link, policy, best)
            if policy != best and factor:
                lines.append(f"{link}: {best} is {factor:.2f} times as fast as {policy}")
    return lines
