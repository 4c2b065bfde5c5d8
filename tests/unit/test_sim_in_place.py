"""Pages used where they lie, in virtual time: against sums that can be worked out by hand."""

import random
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.sim.engine import (  # noqa: E402
    FILL,
    IN_PLACE_ALL,
    READ,
    SPARSE,
    UPDATE,
    CompiledEngine,
    Move,
    Touch,
)
from pump.sim.lane import UnderWay  # noqa: E402
from pump.sim.link import Kind, Part  # noqa: E402
from pump.sim.period import period_of  # noqa: E402
from pump.sim.sequence import (  # noqa: E402
    Block,
    Operation,
    Sequence,
)
from pump.sim.simulator import (  # noqa: E402
    Issued,
    Simulator,
    settings_for,
)
from tests.played import PAGE, PLAIN, simulate, turns  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.mark.parametrize(("mode", "rate"), [(READ, 20), (UPDATE, 10)])
def test_what_is_faster_in_place_is_used_there(mode: int, rate: float) -> None:
    link = replace(PLAIN, in_place=IN_PLACE_ALL)
    result = simulate(turns(mode, mode), link, "ahead", 1)
    assert result.step_ms == pytest.approx((1000 + PAGE / rate) / 1e6)
    assert result.sums.filled_bytes == result.sums.evicted_bytes == 0
    assert result.gate_ms == pytest.approx(0, abs=1e-9)


def test_what_is_slower_in_place_is_brought() -> None:
    """More operations a step than the program runs ahead, so that the trial ends soon."""
    pages = turns(*[UPDATE] * 1200)
    result = simulate(pages, replace(PLAIN, in_place=IN_PLACE_ALL, rate_update=4), "ahead", 600)
    assert result.step_ms == pytest.approx(simulate(pages, PLAIN, "ahead", 600).step_ms, rel=0.02)
    assert result.sums.in_place_bytes == 0


@pytest.mark.parametrize("slower", [1, 1000])
def test_what_few_rows_are_read_of_stays_away(slower: float) -> None:
    """However slow the link is in place; and it is not tried. More operations a step than the
    program runs ahead, so that the sums are those of steps.
    """
    link = replace(PLAIN, in_place=IN_PLACE_ALL, rate_read=PLAIN.rate_read / slower)
    table, others = [READ | SPARSE] * 600, [UPDATE] * 600
    result = simulate(turns(*table, *others), link, "ahead", 600)
    assert result.step_ms == pytest.approx(1200 * 1000 / 1e6)
    assert result.sums.hit_bytes == 600 * PAGE * result.steps
    assert result.bytes_in == result.bytes_out == 0
    assert simulate(turns(*[READ] * 600, *others), link, "ahead", 600).bytes_in >= 599 * PAGE
    nothing = simulate(turns(*table, *others), PLAIN, "ahead", 600)
    assert nothing.bytes_in >= 599 * PAGE  # where kernels may use nothing in place
    assert period_of(turns(*table, *others), PAGE).pages == 600


def layers(others: int, places: Callable[[], int] = lambda: 0) -> tuple[Operation, ...]:
    """32 layers of eight pages that are only read, and so many operations in small buffers."""
    step = []
    for layer in range(32):
        for i in range(8):
            page = Touch((SMALL + 8 * layer + i) * 2 * PAGE, PAGE, READ)
            step.append(Operation(i, 1000, (page,)))
        for i in range(others):
            page = Touch(places() * 2 * PAGE, PAGE, UPDATE)
            step.append(Operation(8 + i + 100 * others, 1000, (page,)))
    return tuple(step)


SMALL = 4
LAYERS = tuple(Block(2 * i * PAGE, PAGE) for i in range(SMALL + 32 * 8))


def decoded_ns(steps: list[tuple[Operation, ...]]) -> list[float]:
    """How long each takes where filling takes twice the time of reading in place."""
    link = replace(PLAIN, in_place=IN_PLACE_ALL, rate_in=10)
    simulator = Simulator(CompiledEngine(settings_for(link, "ahead", 32 * PAGE)), link, "ahead")
    simulator.warm = len(steps)
    simulator.play(Sequence(LAYERS, tuple(steps)))
    return [end.ns - begin.ns for begin, end in pairwise(simulator.marks)]


def test_another_kernel_in_each_layer_starts_no_trial() -> None:
    steps_ns = decoded_ns([layers(1)] * 16 + [layers(2)] * 8)
    assert max(steps_ns[:6]) > 1.5 * steps_ns[12]
    assert max(steps_ns[12:]) < 1.05 * steps_ns[12]


def test_small_buffers_that_lie_elsewhere_are_no_other_step() -> None:
    """As those of a decoder, whose cache grows: its weights tell which step repeats."""
    chance = random.Random(5)
    steps_ns = decoded_ns([layers(12, lambda: chance.randrange(SMALL)) for _ in range(40)])
    assert max(steps_ns[:6]) > 1.5 * steps_ns[12]
    assert max(steps_ns[12:]) < 1.05 * steps_ns[12]


def test_what_others_made_slow_at_first_is_tried_again() -> None:
    """The link carries a third less than kernels read over it, and later twice as much. A program
    that is not held runs steps ahead, and only laps that begin behind those count.
    """
    link = replace(PLAIN, in_place=IN_PLACE_ALL, rate_in=15, rate_out=40, rate_both=80)

    class Freed(Simulator):
        def retire(self, done: Issued) -> None:
            super().retire(done)
            if len(self.marks) > 16:
                self.alone = self.beside = (40, 40)

    simulator = Freed(CompiledEngine(settings_for(link, "ahead", 32 * PAGE)), link, "ahead")
    steps = (layers(1),) * 360
    simulator.warm = len(steps)
    simulator.play(Sequence(LAYERS, steps))
    steps_ns = [end.ns - begin.ns for begin, end in pairwise(simulator.marks)]
    in_place_ns = steps_ns[14]
    assert min(steps_ns[:4]) > 1.2 * in_place_ns
    assert max(steps_ns[16:256]) < 1.05 * in_place_ns
    assert max(steps_ns[-8:]) < 0.6 * in_place_ns


@pytest.mark.parametrize("others", [1, 10, 18])
def test_steps_that_count_are_of_the_way_that_was_chosen(others: int) -> None:
    """A program of short steps is some ahead, and compares both ways for longer."""
    steady = simulate(
        Sequence(LAYERS, (layers(others),)), replace(PLAIN, in_place=IN_PLACE_ALL), "ahead", 32
    )
    assert steady.sums.in_place_bytes in (0, steady.bytes_in * steady.steps)
    assert max(steady.steps_ns) < 1.05 * min(steady.steps_ns)


def test_nothing_moves_while_a_kernel_has_the_link() -> None:
    """It takes as long as its own work or its bytes, and the link for the latter."""
    read_ns = PAGE / 20
    for own_ns in (1000, 3 * read_ns):
        engine = CompiledEngine(settings_for(replace(PLAIN, in_place=IN_PLACE_ALL), "ahead", PAGE))
        simulator = Simulator(engine, PLAIN, "ahead")
        simulator.running = Issued(0, 0, max(own_ns, read_ns), False, in_place_ns=read_ns)
        simulator.end_ns = simulator.running.duration_ns
        copy = UnderWay(Move(1, 0, PAGE, 0, FILL, 0), deque([Part(Kind.COPY, PAGE)]))
        simulator.lanes[0].moves.append(copy)
        simulator.lanes[0].look()
        while simulator.running:
            simulator.advance()
        assert copy.left == pytest.approx(max(0, PAGE - 40 * max(0, own_ns - read_ns)))
