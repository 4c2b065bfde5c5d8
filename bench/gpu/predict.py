"""Step times that were measured, beside what virtual time predicts.

It reads files of `pump-bench run --device gpu --json` and plays the recorded step of each program,
under each system that moves pages, over the link of the measured machine. --step names a recorded
step for a program that bench/traces does not have. If a program takes longer than its recorded step
while everything fits, its own thread bounds it: that time passes between operations.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from bench import cli
from bench.gpu.calls import managed_as
from pump.bench.markdown import markdown
from pump.bench.measured import copying_as, step_of
from pump.bench.row import FormatError, Row, read_results
from pump.predict.systems import BY_NAME, GPU, title_of
from pump.sim.engine import CompiledEngine
from pump.sim.link import LINKS, UM, Link, link_for
from pump.sim.recorded import open_sequence
from pump.sim.result import Result
from pump.sim.sequence import Sequence, SequenceError
from pump.sim.simulator import AT_ONCE, Pace, Simulator, settings_for
from pump.terminal.command import UsageError

ROOT = Path(__file__).resolve().parents[2]
NEAR = 0.15
"""A prediction is near that differs by no more than this share."""
DECIDES = ("csrc/engine", "csrc/backend")
"""What a measured step time depends on, of this repository."""


@dataclass(frozen=True)
class Measured:
    """A run that succeeded. Bytes; milliseconds a step."""

    program: str
    footprint: int
    native_ms: float  # everything resident, by itself
    budget: str  # a share of the footprint, or "all"
    budget_bytes: int
    system: str
    link: str  # of pump.sim.link
    policy: str
    ms: float
    bytes_in: float | None  # a step, None: not counted
    mapped: float | None = None  # the same, of pages that were mapped anew


@dataclass(frozen=True)
class Predicted:
    """A measured run and its prediction: milliseconds a step, bytes in and mapped anew."""

    run: Measured
    native_ms: float  # the recorded step, everything resident
    ms: float
    bytes_in: float
    mapped: float

    @property
    def ratio(self) -> float:
        """Predicted : measured."""
        return self.ms / self.run.ms

    @property
    def near(self) -> bool:
        return abs(self.ratio - 1) <= NEAR


def read_measured(path: Path) -> tuple[dict[str, str], list[Measured]]:
    """The machine, and what ran there. Raises FormatError, OSError."""
    results = read_results(path)
    return results.machine, list(of_bench(results.rows))


def of_bench(rows: Iterable[Row]) -> Iterator[Measured]:
    """What pump-bench wrote, of systems whose moves the engine decides, on a GPU."""
    for row in rows:
        system = BY_NAME.get(row.system)
        if row.device != GPU or not system or not system.policy:
            continue
        yield Measured(
            row.workload,
            row.footprint_bytes,
            row.native_ms,
            f"1/{row.oversubscription:g}",
            row.capacity_bytes,
            system.name,
            system.link,
            system.policy,
            row.ms,
            row.bytes_in,
            row.counters.get("mapped_bytes"),
        )


def predictions(
    measured: Iterable[Measured],
    steps: Mapping[str, Path],
    links: Mapping[str, Link],
    left_out: list[str],
) -> Iterator[Predicted]:
    """Every run whose program's step is in `steps`, or known. Raises SequenceError, OSError."""
    sequences: dict[str, Sequence] = {}
    for run in measured:
        path = steps.get(run.program) or step_of(run.program)
        if not path:
            left_out += [run.program] if run.program not in left_out else []
            continue
        if run.program not in sequences:
            sequences[run.program] = open_sequence(path)
        sequence = sequences[run.program]
        link = link_for(run.link, sequence, links)
        native_ms = sequence.native_ns() / 1e6
        pace = Pace(sequence.thread_ns(run.native_ms * 1e6))
        played = play(sequence, run.budget_bytes, run.policy, link, pace)
        mapped = (played.came - played.back) * link.page_bytes / played.steps
        yield Predicted(run, native_ms, played.step_ms, played.bytes_in, mapped)


def play(sequence: Sequence, budget: int, policy: str, link: Link, pace: Pace = AT_ONCE) -> Result:
    """The steady state in virtual time."""
    pages = min(budget, sequence.footprint(link.page_bytes)) // link.page_bytes
    engine = CompiledEngine(settings_for(link, policy, pages * link.page_bytes))
    return Simulator(engine, link, policy, pace).run(sequence)


HEAD = ("program", "memory", "system", "measured ms", "predicted ms", "predicted : measured")


def table(rows: Iterable[Predicted]) -> str:
    """A line a run, in Markdown."""
    return markdown(
        HEAD,
        (
            (
                row.run.program,
                row.run.budget,
                title_of(row.run.system),
                f"{row.run.ms:.1f}",
                f"{row.ms:.1f}",
                f"{row.ratio:.2f}",
            )
            for row in rows
        ),
    )


def summary(rows: list[Predicted]) -> str:
    """How many are near, and the mean miss."""
    near = sum(row.near for row in rows)
    miss = geometric_mean(max(row.ratio, 1 / row.ratio) for row in rows)
    return f"{near} of {len(rows)} within 15 %; off by a factor of {miss:.2f} in the mean"


def natives(rows: list[Predicted]) -> list[str]:
    """A line a program: what its own time between operations is taken from."""
    known = {row.run.program: row for row in rows}
    return [
        f"{name}: where everything fits, {row.run.native_ms:.1f} ms measured"
        f" and {row.native_ms:.1f} in the recorded step"
        for name, row in known.items()
    ]


def short(commit: str) -> str:
    """As people write it, and whether the tree differed."""
    return commit[:7] + "+" * commit.endswith("+")


def changed_since(commit: str) -> bool | None:
    """The engine or the backends have changed since a commit. None: git does not tell."""
    command = ["git", "-C", str(ROOT), "diff", "--quiet", commit, "--", *DECIDES]
    try:
        status = subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return None
    return {0: False, 1: True}.get(status)


def predicted(
    path: Path, steps: Mapping[str, Path], left_out: list[str]
) -> tuple[dict[str, str], list[Predicted]]:
    """A file's machine and runs, over that machine's link. Raises FormatError, SequenceError,
    UsageError, OSError.
    """
    machine, measured = read_measured(path)
    links = {
        name: copying_as(machine, link) if link.handles else link for name, link in LINKS.items()
    }
    links[UM.name] = managed_as(machine)
    return machine, list(predictions(measured, steps, links, left_out))


def within(rows: Iterable[Predicted], managed: bool) -> tuple[int, int]:
    """How many are near, of how many: of managed memory, or of the other links."""
    some = [row for row in rows if (row.run.link == UM.name) == managed]
    return sum(row.near for row in some), len(some)


def overview(paths: Iterable[Path], steps: Mapping[str, Path]) -> Iterator[str]:
    """A line a file in Markdown, and one of all, each when it is known. Files without a step that
    can be played have none.
    """
    total = {False: (0, 0), True: (0, 0)}
    yield "| file | GPU | commit | within 15 %, vmm | um |\n|---|---|---|---|---|"
    for path in paths:
        try:
            machine, rows = predicted(path, steps, [])
        except (FormatError, SequenceError, UsageError) as error:
            print(error, file=sys.stderr)
            continue
        counts = {managed: within(rows, managed) for managed in total}
        total = {
            key: (total[key][0] + near, total[key][1] + of) for key, (near, of) in counts.items()
        }
        if rows:
            said = " | ".join(f"{near} of {of}" if of else "" for near, of in counts.values())
            gpu = machine["gpu"].removeprefix("NVIDIA ")
            yield f"| {path.name} | {gpu} | {short(machine['commit'])} | {said} |"
    yield "| all | | | " + " | ".join(f"{near} of {of}" for near, of in total.values()) + " |"


def tell(path: Path, steps: Mapping[str, Path]) -> None:
    """All of a file. Raises as `predicted`."""
    left_out: list[str] = []
    machine, rows = predicted(path, steps, left_out)
    print(f"{path.name}: {machine['gpu']}, commit {short(machine['commit'])}", end="")
    changed = machine["commit"].endswith("+") or changed_since(machine["commit"])
    told = {True: "engine or backends have changed since", False: "as here"}
    print(f" ({told[changed]})\n" if changed is not None else "\n")
    if rows:
        print(f"{table(rows)}\n\n{summary(rows)}")
    for line in natives(rows):
        print(line)
    for name in left_out:
        print(f"no recorded step of {name}: trace one and give --step {name}=FILE")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT.json")
    parser.add_argument(
        "--step",
        action="append",
        type=cli.named,
        default=[],
        metavar="NAME=FILE",
        help="the recorded step of a program",
    )
    options = parser.parse_args()
    steps = dict(options.step)
    if len(options.results) > 1:
        for line in overview(options.results, steps):
            print(line, flush=True)
        return
    try:
        tell(options.results[0], steps)
    except (FormatError, SequenceError, UsageError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
