"""The compiled plan against the same in plain Python: gaps, moves and times are equal."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.bound import core  # noqa: E402
from bench.bound.core import Link, Period, Planner, Touch  # noqa: E402
from tests.reference import plan as reference  # noqa: E402
from tests.reference.rehearse import search  # noqa: E402

pytestmark = pytest.mark.unit

RATES = [Link(100, 100, 100, 100), Link(80, 150, 170, 170), Link(7, 3, 10, 5)]
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def periods(draw: st.DrawFn) -> tuple[Period, int]:
    """Up to 12 operations on up to 10 or 60 pages, each of which is touched; and a budget.

    The budget is from too small by one page to what holds everything, mostly scarce.
    """
    chance = random.Random(draw(st.integers(0, 2**32)))
    pages, n = chance.randint(2, chance.choice([10, 10, 60])), chance.randint(1, 12)
    dense, writes, dies = chance.uniform(0.1, 0.6), chance.random(), chance.choice([0, 0.2, 0.5])
    touched = [[page for page in range(pages) if chance.random() < dense] for _ in range(n)]
    touched[0] = touched[0] or [0]
    numbers = {page: i for i, page in enumerate(sorted({page for op in touched for page in op}))}
    operations = [
        [Touch(numbers[page], chance.random() < writes, chance.random() < dies) for page in op]
        for op in touched
    ]
    longest = chance.choice([1, 100, 1000])
    period = Period(operations, [chance.randint(0, longest) for _ in operations])
    largest = max(map(len, operations))
    budget = chance.randint(largest - (chance.random() < 0.05), (largest + period.pages) // 2)
    return period, max(1, budget)


def test_constants_are_those_of_the_header() -> None:
    lib = core.library()
    assert (lib.REHEARSE_ITERATIONS, lib.REHEARSE_WARM) == (core.ITERATIONS, core.WARM)


def test_a_page_twice_in_an_operation_is_no_period() -> None:
    with pytest.raises(ValueError, match="twice"):
        Planner(Period([[Touch(0), Touch(0)]], [1]))


@QUICK
@given(periods(), st.integers(0, 11))
def test_the_same_gaps_are_chosen(given_period: tuple[Period, int], start: int) -> None:
    period, budget = given_period
    start %= len(period.operations)
    expected = reference.plan(period, budget, start)
    assert Planner(period).choose(budget, start) == expected
    event("too small" if expected is None else "moves" if any(expected[0]) else "all fits")


@QUICK
@given(periods(), st.sampled_from(RATES))
def test_the_same_times_are_rehearsed(given_period: tuple[Period, int], link: Link) -> None:
    period, budget = given_period
    expected = search(period, budget, link)
    choice = Planner(period).search(budget, link)
    assert choice == expected
    if choice:
        event("plan" if choice.plan.ns < choice.greedy.ns else "greedy")


class Chance:
    """Events in an order that a seed decides, for the compiled run and the plain one alike."""

    def __init__(self, seed: int, compiled: core.Run, plain: reference.Run) -> None:
        self.chance = random.Random(seed)
        self.compiled, self.plain = compiled, plain
        self.admitted = plain.operation
        self.moving: dict[str, int] = {}

    def ask(self, name: str) -> Any:
        """A move that both would make now."""
        idle = self.chance.random() < 0.8
        found = self.plain.into(idle) if name == "in" else self.plain.out(idle)
        assert self.compiled.step(name, idle) == found
        return found

    def move(self, name: str) -> None:
        """A lane ends its move, or begins the next."""
        if name in self.moving:
            page = self.moving.pop(name)
            (self.plain.came if name == "in" else self.plain.left)(page)
            self.compiled.step("came" if name == "in" else "left", page)
        elif step := self.ask(name):
            self.moving[name] = step[0]

    def admit(self) -> None:
        """The next operation, up to two ahead, if it is ready."""
        if self.admitted > self.plain.operation + min(2, len(self.plain.base) - 1):
            return
        ready = self.plain.ready(self.admitted)
        assert self.compiled.step("ready", self.admitted) == ready
        if ready:
            self.plain.admitted(self.admitted)
            self.compiled.step("admitted", self.admitted)
            self.admitted += 1

    def retire(self) -> None:
        """The operation that runs; of pages that die, some are told of."""
        if self.admitted == self.plain.operation:
            return
        k = self.plain.operation % len(self.plain.base)
        for touch in self.plain.gaps.period.operations[k]:
            if touch.dies and self.chance.random() < 0.5:
                self.plain.died(touch.page)
                self.compiled.step("died", touch.page)
        self.plain.retired()
        self.compiled.step("retired")
        assert self.compiled.step("check")

    def die(self) -> None:
        """Any page, wherever it is."""
        page = self.chance.randrange(self.plain.gaps.period.pages)
        self.plain.died(page)
        self.compiled.step("died", page)

    def event(self) -> None:
        """Any; deaths are rarer."""
        events = [lambda: self.move("in"), lambda: self.move("out"), self.admit, self.retire]
        (self.die if self.chance.random() < 0.05 else self.chance.choice(events))()


@QUICK
@given(periods(), st.integers(0, 2**32))
def test_the_same_moves_are_made(given_period: tuple[Period, int], seed: int) -> None:
    period, budget = given_period
    chance = random.Random(seed)
    n = len(period.operations)
    start, operation = chance.randrange(n), chance.randrange(3 * n)
    made = reference.plan(period, budget, start)
    if made is None:
        return
    pages: list[tuple[bool, bool, bool]] = []
    for _ in range(period.pages):
        resident = sum(page[0] for page in pages) < budget and chance.random() < 0.5
        dead = chance.random() < 0.2
        pages.append((resident, not dead and (not resident or chance.random() < 0.5), dead))
    plain = reference.Run(reference.Gaps(period), budget, made[0], operation, pages, tells=False)
    with core.Run(Planner(period), budget, start, operation, pages) as compiled:
        play = Chance(seed, compiled, plain)
        for _ in range(60 * n):
            play.event()
    event("a whole period" if plain.operation >= operation + n else "less than a period")
