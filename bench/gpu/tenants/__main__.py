"""How well programs share a GPU: the bars of docs/sharing.md, under a broker and software budgets.

Each figure is the median of its rounds, which alternate with what it is compared with.
"""

import itertools
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import cli
from bench.gpu import link, machine
from bench.gpu.tenants import away
from bench.gpu.tenants.group import Group, Steps, TenantError
from pump.bench import share_row
from pump.bench.machine import figure_in
from pump.bench.share_row import DECODERS, FITTING, TRAININGS, Row, decoders_of, trainings_of

DECODER_LAYERS = 5
TRAINING = "resnet-74"
GIB = 1 << 30
ROUNDS = 3
SETTLE_S = 2.0
"""After which the host's memory is pinned, and what was learnt has settled."""


@dataclass(frozen=True)
class Options:
    """logs: folder of what programs said. rounds: of each figure."""

    logs: Path
    rounds: int


def decoders(options: Options) -> Iterator[Row]:
    """Tokens a second of all, as a part of what one does natively."""
    kind = f"decoder-{DECODER_LAYERS}"
    for n, turns in itertools.groupby(sorted(DECODERS), key=lambda at: at[0]):
        logs = options.logs / f"decoders-{n}"
        with (
            Group([kind], [None], logs / "native") as native,
            Group([kind] * n, ["g,memory=16GiB"] * n, logs) as group,
        ):
            group.step(n * SETTLE_S)
            for _, turn_s in turns:
                group.with_turns(turn_s)
                found = [parts(native, group, turn_s) for _ in range(options.rounds)]
                yield row("decoders", decoders_of(n, turn_s), found)


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
            print(f"each needs {group.need() / GIB / 8:.0%}", flush=True)
            group.step(4 * SETTLE_S)
            for turn_s in TRAININGS:
                group.with_turns(turn_s)
                found = [100 / parts(native, group, turn_s) for _ in range(options.rounds)]
                yield row("trainings", trainings_of(turn_s), found)
        with Group([TRAINING] * 3, ["g,memory=15GiB"] * 3, logs / "three") as group:
            print(f"they need {3 * group.need() / GIB / 15:.0%}", flush=True)
            group.step(6 * SETTLE_S)
            found = [parts(native, group, 2.0) for _ in range(options.rounds)]
            yield row("trainings", "3 that need 150 %", found)


def fitting(options: Options) -> Iterator[Row]:
    """Jobs that fit together, beside the better of plain co-running and turns by hand."""
    for kinds in FITTING:
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
            yield row("fitting", " and ".join(kinds), found)


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
            yield row("limits", f"limit of {part} %, over any 5 s", [off])
        total = 100 * sum(steps.rate(5.0) for steps in both) / full
        yield row("limits", "both limits in sum", [total])
    with Group(kinds[:2], ["a,limit=0.5,hard", "c"], options.logs / "limit") as group:
        full = group.step(3.0, [1])[0].rate(1.0)
        off = worst(group.step(20.0, [0])[0], 5.0, full, 50)
        yield row("limits", "50 %, alone", [off])
    shares = ["a,request=0.75", "b,request=0.25"]
    with Group(kinds[:2], shares, options.logs / "requests") as group:
        full = group.step(3.0, [0])[0].rate(1.0)
        both = group.step(25.0)
        rates = [steps.rate(5.0) for steps in both]
        off = abs(100 * rates[0] / sum(rates) - 75)
        yield row("requests", "75 and 25 %, over 20 s", [off])
        yield row("requests", "lost", [100 - 100 * sum(rates) / full])


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
        yield row("interactive", "P99 of requests", slower)
        yield row("interactive", "the other loses, beyond 20 %", lost)


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
        yield row("hand-over", "half of them", [found[49]])
        yield row("hand-over", "99 of 100", [found[98]])


def first(options: Options) -> Iterator[Row]:
    """The first token of a decoder of 15 GiB that was away."""
    kinds, shares = ["decoder-10", "decoder-10"], ["g,memory=16GiB"] * 2
    with Group(kinds, shares, options.logs / "first") as group:
        found = []
        group.step(4 * SETTLE_S)
        for _ in range(options.rounds):
            group.step(4.0, [1])
            [steps] = group.step(3.0, [0])
            found.append(steps.took[0])
        yield row("first token", "15 GiB, away", found)


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
        yield row("alone", "a step, beside no broker", found)


def suspend(options: Options) -> Iterator[Row]:
    """A program leaves the GPU and comes back."""
    link_out = 1e9 * figure_in(link.described()["link_out"])
    for what, found in away.measured(options.logs / "suspend", options.rounds, link_out):
        yield row("suspend", what, found)


TESTS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "decoders": decoders,
    "trainings": trainings,
    "fitting": fitting,
    "limits": limits,
    "interactive": interactive,
    "hand-over": handover,
    "first": first,
    "alone": alone,
    "suspend": suspend,
}


def row(test: str, what: str, rounds: Sequence[float]) -> Row:
    """The median of the rounds."""
    found = share_row.row(test, what, rounds)
    print(share_row.line(found), flush=True)
    return found


def main() -> None:
    parser = cli.parser(__doc__)
    parser.add_argument("--tests", default=",".join(TESTS), help=f"of {', '.join(TESTS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"(default {ROUNDS})")
    parser.add_argument("--logs", type=Path, default=Path("build/tenants"))
    asked = parser.parse_args()
    machine.refuse_unless_safe()
    cli.end_with_children()
    rows: list[Row] = []
    told, failed = machine.describe(), []
    for name in cli.backends(parser, asked.tests, TESTS):
        try:
            for found in TESTS[name](Options(asked.logs / name, asked.rounds)):
                rows.append(found)
                cli.write(asked.json, share_row.to_json(told, rows))
        except TenantError as error:
            print(f"{name} failed: {error}", file=sys.stderr, flush=True)
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
