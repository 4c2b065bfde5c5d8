"""The tests of pump.bench.share_row in virtual time, under the compiled policy of the broker.

Programs are made from first principles: a token takes as long as its weights are read, a step of
training sweeps what it needs there and back and writes all of it, a loop of products moves nothing.
What a GPU does while two programs run at once is an input, which a GPU measured. Hand-overs, and
what a program alone pays, are times of real code: not here.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from pump.bench.share_row import DECODERS, FITTING, TRAININGS, Row, decoders_of, row, trainings_of
from pump.sim.broker import Group
from pump.sim.hardware import REFERENCE
from pump.sim.link import figure
from pump.sim.peers import brokered, paged, policy_for, swapped
from pump.sim.resident import Program, Work, decoder, training
from pump.sim.tenants import Machine, Sharing
from pump.sizes import GIB, MIB

S = 1_000_000_000
MACHINE = Machine(int(figure("vmm.swap") * S), together=0.9)
"""together: of two loops of products, nothing preloaded, on an H100."""
HBM, FAULTS = REFERENCE.bandwidth * S, figure("um.fault") * S
LAYER = 416 * MIB
STEP_NS, PAUSE_NS = 38_000_000, 1_000_000  # of ResNet-50, batch 74, which waits for each loss
FLOPS = 50e12  # of FP32 products
TOGETHER = dict(zip(FITTING, (MACHINE.together, 1.215, 1.0), strict=True))
"""What two do that co-run, as a part of one alone: the first two as measured on an H100."""
BY_HAND = 0.996  # the same in turns of 100 ms
ASKED, LOAD = 10, 0.2  # products of a request; part of the GPU that all of them use
SETTLE_NS, TRIED_NS = 6 * S, 25 * S  # memory; co-running and turns


def loop(size: int) -> Program:
    """Products of square matrices, FP32, one after the other."""
    return Program(f"gemm-{size}", (Work(int(2 * size**3 / FLOPS * S), (0, 1, 2), (2,)),))


def ways(
    programs: Sequence[Program], memory: int, turn_s: float, chosen: bool = False
) -> dict[str, float]:
    """What programs that are alike do in sum, as a part of one alone. chosen: the turns of the
    broker's policy are as long as it likes.
    """
    turn, span = int(turn_s * S), int(max(4, 2 * len(programs) * turn_s) * S)
    alone = programs[0].round_ns / programs[0].works_ns
    return {
        "broker": alone * brokered(MACHINE, programs, memory, 0 if chosen else turn, span).total,
        "swap": alone * swapped(MACHINE, programs, memory, turn, span).total,
        "faults": paged(programs, memory, FAULTS),
        "bound": most_possible(programs, memory, turn),
    }


def most_possible(programs: Sequence[Program], memory: int, turn_ns: int) -> float:
    """In turns of just that length. Who begins one has no more there than the one before left room
    for: the rest comes first, or while it sweeps once over what it has. And the link brings what a
    turn lacks.
    """
    count, need = len(programs), programs[0].need
    lacks = max(0, 2 * need - memory) / MACHINE.rate * S
    brings = max(0, count * need - memory) / (count - 1) / MACHINE.rate * S
    return turn_ns / max(turn_ns + max(0.0, lacks - programs[0].round_ns), brings)


def decoders(count: int) -> Iterator[Row]:
    for turn_s in sorted(turn_s for n, turn_s in DECODERS if n == count):
        parts = ways([decoder(18 * LAYER, HBM)] * count, 16 * GIB, turn_s)
        found = {way: 100 * part for way, part in parts.items()}
        yield row("decoders", decoders_of(count, turn_s), [found.pop("broker")], **found)


def trains(size: int) -> Program:
    return replace(training(size, STEP_NS), pause_ns=PAUSE_NS)


def two_trainings(turn_s: float) -> Iterator[Row]:
    parts = ways([trains(int(0.95 * 8 * GIB))] * 2, 8 * GIB, turn_s)
    found = {way: 1 / part for way, part in parts.items()}
    yield row("trainings", trainings_of(turn_s), [found.pop("broker")], **found)


def three_trainings() -> Iterator[Row]:
    parts = ways([trains(15 * GIB // 2)] * 3, 15 * GIB, 2.0, chosen=True)
    found = {way: 100 * part for way, part in parts.items()}
    yield row("trainings", "3 that need 150 %", [found.pop("broker")], **found)


def running(
    groups: Sequence[Group], programs: Sequence[Program], machine: Machine = MACHINE
) -> Sharing:
    """Programs that fit, each in a group of its own, for long enough."""
    run = Sharing(machine, policy_for(machine, 80 * GIB, len(programs), groups), programs)
    run.run(TRIED_NS)
    return run


def fitting(kinds: tuple[str, str]) -> Iterator[Row]:
    machine = replace(MACHINE, together=TOGETHER[kinds])
    made = {"gemm-4096": loop(4096), "resnet-32": training(3 * GIB, STEP_NS // 2, 8)}
    total = running([Group()] * 2, [made[kind] for kind in kinds], machine).measure(12 * S).total
    better = max(machine.together, BY_HAND)
    yield row("fitting", " and ".join(kinds), [100 * total / better])


def limits() -> Iterator[Row]:
    hard = [Group(limit=300, hard=1), Group(limit=700, hard=1)]
    both = halves(running(hard, [loop(4096)] * 2), 15)
    for tenant, part in enumerate((30, 70)):
        yield row("limits", f"limit of {part} %, over any 5 s", [worst(both, tenant, part)])
    yield row("limits", "both limits in sum", [100 * statistics.fmean(map(sum, both))])
    one = halves(running([Group(limit=500, hard=1)], [loop(4096)]), 15)
    yield row("limits", "50 %, alone", [worst(one, 0, 50)])


def halves(run: Sharing, seconds: int) -> list[tuple[float, ...]]:
    """What each does in every half of a second."""
    return [run.measure(S // 2).parts for _ in range(2 * seconds)]


def worst(found: Sequence[tuple[float, ...]], tenant: int, part: float) -> float:
    """How far it is from its part in any five seconds, in points."""
    spans = [statistics.fmean(p[tenant] for p in found[i : i + 10]) for i in range(len(found) - 9)]
    return max(abs(100 * span - part) for span in spans)


def requests() -> Iterator[Row]:
    both = running([Group(request=750), Group(request=250)], [loop(4096)] * 2).measure(20 * S)
    yield row("requests", "75 and 25 %, over 20 s", [abs(100 * both.parts[0] / both.total - 75)])
    yield row("requests", "lost", [100 - 100 * both.total])


def interactive() -> Iterator[Row]:
    work = loop(2048).work * ASKED
    took_ns = sum(one.duration_ns for one in work)
    asks = Program("requests-20", work, int(took_ns / LOAD) - took_ns)
    run = running([Group(), Group()], [asks, loop(2048)])
    lost = 100 * (1 - run.measure(6 * S).parts[1] - LOAD)
    beside = late(run)
    run.stop(2)
    yield row("interactive", "P99 of requests", [beside / late(run)])
    yield row("interactive", "the other loses, beyond 20 %", [lost])


def late(run: Sharing) -> float:
    """The 99th of 100 rounds of the first tenant, from now on: nanoseconds."""
    rounds_ns = run.tenants[1].rounds_ns
    first = len(rounds_ns)
    run.run(run.now + 6 * S)
    return statistics.quantiles(rounds_ns[first:], n=100)[98]


def first_token() -> Iterator[Row]:
    program, memory = decoder(36 * LAYER, HBM), 16 * GIB
    run = Sharing(MACHINE, policy_for(MACHINE, memory, 2), [program] * 2)
    run.run(SETTLE_NS)
    run.stop(1)
    run.run(run.now + 4 * S)
    run.stop(2)
    run.run(run.now + S // 20)
    run.start(1)
    count = len(run.tenants[1].rounds_ns)
    run.run(run.now + 3 * S)
    others = {
        "swap": program.need / MACHINE.rate + program.round_ns / S,
        "faults": program.need / FAULTS + program.round_ns / S,
        "bound": (2 * program.need - memory) / MACHINE.rate,
    }
    yield row("first token", "15 GiB, away", [run.tenants[1].rounds_ns[count] / S], **others)


TESTS: dict[str, tuple[Callable[[], Iterator[Row]], ...]] = {
    "decoders": tuple(partial(decoders, n) for n in sorted({n for n, _ in DECODERS})),
    "trainings": (*(partial(two_trainings, turn_s) for turn_s in TRAININGS), three_trainings),
    "fitting": tuple(partial(fitting, kinds) for kinds in FITTING),
    "limits": (limits,),
    "requests": (requests,),
    "interactive": (interactive,),
    "first": (first_token,),
}
"""Parts of each, which may be played beside each other."""
