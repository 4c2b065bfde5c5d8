"""How well programs share a GPU: the bars of docs/sharing.md, under a broker and software budgets.

Each figure is the median of its rounds, which alternate with what it is compared with.
"""

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import cli
from bench.gpu import machine
from bench.gpu.tenants.group import Group, Steps, TenantError

DECODER_LAYERS = 18
TRAINING = "resnet-74"
GIB = 1 << 30
ROUNDS = 3
SETTLE_S = 2.0
"""After which the host's memory is pinned, and what was learnt has settled."""


@dataclass(frozen=True)
class Row:
    """A figure and its bar. most: it may not be above that; else it must reach it."""

    test: str
    what: str
    figure: float
    bar: float
    unit: str
    most: bool = False
    rounds: Sequence[float] = ()

    @property
    def held(self) -> bool:
        return self.figure <= self.bar if self.most else self.figure >= self.bar


@dataclass(frozen=True)
class Options:
    """logs: folder of what programs said. rounds: of each figure."""

    logs: Path
    rounds: int


def decoders(options: Options, counts: Sequence[int] = (3, 4, 6)) -> Iterator[Row]:
    """Tokens a second of all, as a part of what one does natively."""
    bars = {0.5: {3: 80, 4: 77, 6: 74}, 2.0: {3: 94, 4: 92, 6: 91}}
    kind = f"decoder-{DECODER_LAYERS}"
    for n in counts:
        logs = options.logs / f"decoders-{n}"
        with (
            Group([kind], [None], logs / "native") as native,
            Group([kind] * n, ["g,memory=16GiB"] * n, logs) as group,
        ):
            group.step(n * SETTLE_S)
            for turn_s, by_count in bars.items():
                group.with_turns(turn_s)
                found = [parts(native, group, turn_s) for _ in range(options.rounds)]
                what = f"{n} of {DECODER_LAYERS * 416 / 1024:.1f} GiB, turns of {turn_s:g} s"
                yield row("decoders", what, found, by_count[n], "% of alone")


def parts(native: Group, group: Group, turn_s: float) -> float:
    """What programs that are alike do together in whole rounds of turns, as per cent of what one of
    them does natively.
    """
    n = len(group.tenants)
    settle, span = max(SETTLE_S, 2 * n * turn_s), max(4.0, 3 * n * turn_s)
    full = native.step(3.0)[0].rate(1.0)
    each = [100 * steps.rate(settle) / full for steps in group.step(settle + span)]
    print(f"{full:.1f} a second alone; each {' '.join(f'{x:.1f}' for x in each)} %", flush=True)
    return sum(each)


def trainings(options: Options) -> Iterator[Row]:
    """Time of two that do not fit together over one after the other, and three that need 150 %."""
    logs = options.logs / "trainings"
    with Group([TRAINING], [None], logs / "native") as native:
        with Group([TRAINING] * 2, ["g,memory=8GiB"] * 2, logs / "two") as group:
            need = group.need() / GIB / 8
            group.step(4 * SETTLE_S)
            for turn_s, bar in ((2.0, 1.10), (5.0, 1.04)):
                group.with_turns(turn_s)
                found = [100 / parts(native, group, turn_s) for _ in range(options.rounds)]
                what = f"2 of {need:.0%}, turns of {turn_s:g} s"
                yield row("trainings", what, found, bar, "x serial", most=True)
        with Group([TRAINING] * 3, ["g,memory=15GiB"] * 3, logs / "three") as group:
            need = group.need() / GIB / 15
            group.step(6 * SETTLE_S)
            found = [parts(native, group, 2.0) for _ in range(options.rounds)]
            yield row("trainings", f"3 of {need:.0%}", found, 93, "% of ideal")


def fitting(options: Options) -> Iterator[Row]:
    """Jobs that fit together, beside the better of plain co-running and turns by hand."""
    for kinds in (("gemm-4096",) * 2, ("resnet-32",) * 2, ("gemm-4096", "resnet-32")):
        logs = options.logs / "-".join(kinds)
        with (
            Group(kinds, [None] * 2, logs / "native") as native,
            Group(kinds, ["a", "b"], logs / "shared") as shared,
        ):
            shared.step(25.0)  # both ways are tried first
            found = []
            for _ in range(options.rounds):
                alone = [native.step(2.0, [i])[0].rate(0.5) for i in range(2)]
                corun = sum_of([s.rate(1.0) for s in native.step(4.0)], alone)
                turns = sum_of(native.take_turns(4.0, 0.1), alone)
                ours = sum_of([s.rate(1.0) for s in shared.step(4.0)], alone)
                found.append(100 * ours / max(corun, turns))
                print(f"{kinds}: co-run {corun:.3f} turns {turns:.3f} ours {ours:.3f}", flush=True)
            yield row("fitting", " and ".join(kinds), found, 97, "% of the better")


def sum_of(rates: Sequence[float], alone: Sequence[float]) -> float:
    """What they do together, in programs that run alone."""
    return sum(rate / most for rate, most in zip(rates, alone, strict=True))


def limits(options: Options) -> Iterator[Row]:
    """Limits and requests of two loops of products; one without says what they do alone."""
    kinds = ["gemm-4096"] * 3
    shares = ["a,limit=0.3,hard", "b,limit=0.7,hard", "c"]
    with Group(kinds, shares, options.logs / "limits") as group:
        full = group.step(3.0, [2])[0].rate(1.0)
        both = group.step(20.0, [0, 1])
        for steps, part in zip(both, (30, 70), strict=True):
            off = worst(steps, 5.0, full, part)
            yield row("limits", f"limit of {part} %, over any 5 s", [off], 2, "points off", True)
        total = 100 * sum(steps.rate(5.0) for steps in both) / full
        yield row("limits", "both limits in sum", [total], 98, "% of no limit")
    with Group(kinds[:2], ["a,limit=0.5,hard", "c"], options.logs / "limit") as group:
        full = group.step(3.0, [1])[0].rate(1.0)
        off = worst(group.step(20.0, [0])[0], 5.0, full, 50)
        yield row("limits", "50 %, alone", [off], 2, "points off", True)
    shares = ["a,request=0.75", "b,request=0.25"]
    with Group(kinds[:2], shares, options.logs / "requests") as group:
        full = group.step(3.0, [0])[0].rate(1.0)
        both = group.step(25.0)
        rates = [steps.rate(5.0) for steps in both]
        off = abs(100 * rates[0] / sum(rates) - 75)
        yield row("requests", "75 and 25 %, over 20 s", [off], 1, "points off", True)
        yield row("requests", "lost", [100 - 100 * sum(rates) / full], 1.5, "%", True)


def worst(steps: Steps, window: float, alone: float, part: float) -> float:
    """How far from its part it is over any such window after the first, in points."""
    starts = [window + i / 2 for i in range(int(2 * (steps.span - 2 * window)) + 1)]
    return max(abs(100 * steps.rate(at, at + window) / alone - part) for at in starts)


def interactive(options: Options) -> Iterator[Row]:
    """Requests that use a fifth of the GPU beside a loop that would use all."""
    kinds = ["requests-20", "gemm-2048"]
    with Group(kinds, ["a", "b"], options.logs / "interactive") as group:
        slower, lost = [], []
        for _ in range(options.rounds):
            [alone] = group.step(6.0, [0])
            [full] = group.step(4.0, [1])
            request, batch = group.step(10.0)
            slower.append(late(request) / late(alone))
            lost.append(100 - 100 * batch.rate(4.0) / full.rate(1.0) - 20)
            print(f"p99 {late(alone) * 1e3:.2f} {late(request) * 1e3:.2f} ms", flush=True)
        yield row("interactive", "P99 of requests", slower, 1.3, "x alone", True)
        yield row("interactive", "the other loses, beyond 20 %", lost, 3, "points", True)


def late(steps: Steps) -> float:
    """The 99th of 100 steps after the first second: seconds."""
    took = [t for end, t in zip(steps.ends, steps.took, strict=True) if end > steps.span * 0.4]
    return statistics.quantiles(took, n=100)[98]


def handover(options: Options) -> Iterator[Row]:
    """From the end of one's last step to the start of another's first one."""
    with Group(["gemm-2048"] * 2, ["a", "b"], options.logs / "handover") as group:
        group.step(25.0)
        a, b = group.step(15.0)
        ends = sorted([(end, 0) for end in a.ends] + [(end, 1) for end in b.ends])
        step = statistics.median([*a.took, *b.took])
        gaps = [y[0] - x[0] - step for x, y in itertools.pairwise(ends) if x[1] != y[1]]
        found = statistics.quantiles([gap * 1e3 for gap in gaps], n=100)
        print(f"{len(gaps)} hand-overs", flush=True)
        yield row("hand-over", "half of them", [found[49]], 0.2, "ms", True)
        yield row("hand-over", "99 of 100", [found[98]], 1.0, "ms", True)


def first(options: Options) -> Iterator[Row]:
    """The first token of a decoder of 15 GiB that was away."""
    kinds, shares = ["decoder-36", "decoder-36"], ["g,memory=16GiB"] * 2
    with Group(kinds, shares, options.logs / "first") as group:
        found = []
        group.step(4 * SETTLE_S)
        for _ in range(options.rounds):
            group.step(4.0, [1])
            [steps] = group.step(3.0, [0])
            found.append(steps.took[0])
        yield row("first token", "15 GiB, away", found, 0.6, "s", True)


def alone(options: Options) -> Iterator[Row]:
    """What a broker costs a program that is alone."""
    kinds = ["resnet-32"]
    with (
        Group(kinds, [""], options.logs / "alone") as plain,
        Group(kinds, ["a"], options.logs / "alone-shared") as shared,
    ):
        found = []
        for _ in range(options.rounds * 5):
            a, b = (statistics.median(group.step(2.0)[0].took) for group in (plain, shared))
            found.append(100 * (b / a - 1))
        yield row("alone", "a step, beside no broker", found, 0.3, "% more", True)


TESTS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "decoders": decoders,
    "trainings": trainings,
    "fitting": fitting,
    "limits": limits,
    "interactive": interactive,
    "hand-over": handover,
    "first": first,
    "alone": alone,
}


def row(
    test: str, what: str, rounds: Sequence[float], bar: float, unit: str, most: bool = False
) -> Row:
    """The median of the rounds."""
    found = Row(test, what, statistics.median(rounds), bar, unit, most, rounds)
    print(line(found), flush=True)
    return found


def line(one: Row) -> str:
    """For a person."""
    sign = "<=" if one.most else ">="
    all_of = " ".join(f"{x:.3g}" for x in one.rounds[:8])
    told = f"{one.figure:8.3f} {sign} {one.bar:<5g} {one.unit:18} {one.test}: {one.what} ({all_of})"
    return f"{'ok  ' if one.held else 'MISS'} {told}"


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--tests", default=",".join(TESTS), help=f"of {', '.join(TESTS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"(default {ROUNDS})")
    parser.add_argument("--logs", type=Path, default=Path("build/tenants"))
    asked = parser.parse_args()
    machine.refuse_unless_safe()
    cli.end_with_children()
    result: dict[str, Any] = {"machine": machine.describe(), "rows": []}
    failed = []
    for name in cli.backends(parser, asked.tests, TESTS):
        try:
            for found in TESTS[name](Options(asked.logs / name, asked.rounds)):
                result["rows"].append(asdict(found) | {"held": found.held})
                cli.write(asked.json, result)
        except TenantError as error:
            print(f"{name} failed: {error}", file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
