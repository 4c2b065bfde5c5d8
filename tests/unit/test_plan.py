"""The compiled plan against the same in plain Python: gaps, moves and times are equal."""

import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.bound import core  # noqa: E402
from bench.bound.core import Link, Period, Planner, Touch  # noqa: E402
from tests.reference import plan as reference  # noqa: E402

pytestmark = pytest.mark.unit

RATES = [Link(100, 100, 100, 100), Link(80, 150, 170, 170), Link(7, 3, 10, 5)]
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def periods(draw: st.DrawFn) -> tuple[Period, int]:
    """Up to 12 operations on up to 10 pages, each of which is touched; and a budget.

    The budget is from too small by one page to what holds everything, mostly scarce.
    """
    chance = random.Random(draw(st.integers(0, 2**32)))
    pages, n = chance.randint(2, 10), chance.randint(1, 12)
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
    expected = reference.search(period, budget, link)
    choice = Planner(period).search(budget, link)
    assert choice == expected
    if choice:
        event("plan" if choice.plan.ns < choice.greedy.ns else "greedy")
