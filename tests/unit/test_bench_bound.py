"""The bound and the oracle: on both sides of the least that an exhaustive search finds."""

import random
import sys
from pathlib import Path
from statistics import geometric_mean

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump import paths  # noqa: E402
from pump.predict.oracle import ITERATIONS, WARM, oracle, uses_of  # noqa: E402
from pump.sim.link import LINKS  # noqa: E402
from pump.sim.period import PageTimes, PageTouch, Period, page_times, period_of  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from tests.reference.exhaustive import Search, least_mean, least_of  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TICKS = [(1, 1), (1, 2), (2, 1)]
TICK_NS = 1000.0


def small(seed: int) -> tuple[Period, int]:
    """Two to four operations on up to four pages, and a budget that is scarce."""
    chance = random.Random(seed)
    while True:
        pages, n = chance.randint(3, 4), chance.randint(2, 4)
        dies, writes = chance.choice([0, 0.4]), chance.choice([0, 0.5, 1])
        operations = [
            [
                PageTouch(page, chance.random() < writes, chance.random() < dies)
                for page in range(pages)
                if chance.random() < 0.5
            ]
            for _ in range(n)
        ]
        touched = {touch.page for row in operations for touch in row}
        largest = max(map(len, operations))
        if all(operations) and len(touched) == pages and largest < pages:
            durations = [chance.randint(1, 2) for _ in operations]
            return Period(operations, durations), chance.randint(largest, pages - 1)


def in_ns(period: Period) -> Period:
    return Period(period.operations, [round(TICK_NS * d) for d in period.durations])


def bounds(period: Period, budget: int, times: PageTimes) -> list[float]:
    """With as many intervals as there are operations, and with fewer: several in one, then."""
    from pump.predict import bound as lp

    every = range(len(period.operations), 0, -1)
    return [lp.bound(in_ns(period), budget, times, intervals) for intervals in every]


def test_bound_and_oracle_enclose_what_is_possible() -> None:
    pytest.importorskip("scipy")
    over, under = [], []
    for seed in range(24):
        period, budget = small(seed)
        ticks = TICKS[seed % len(TICKS)]
        times = PageTimes(*(TICK_NS * t for t in (*ticks, *ticks)))
        matrix = Search(period, budget, ticks).iterations()
        best = TICK_NS * least_mean(matrix)
        finest, *coarser = bounds(period, budget, times)
        reached = oracle(in_ns(period), budget, times).ns
        counted = ITERATIONS - WARM
        for bound in (finest, *coarser):
            assert sum(period.durations) * TICK_NS <= bound * (1 + 1e-6)
            assert bound <= best * (1 + 1e-6), seed
        assert reached * counted >= TICK_NS * least_of(matrix, counted) * (1 - 1e-6), seed
        over.append(reached / best)
        under.append(best / finest)
    assert geometric_mean(over) < 1.02
    assert geometric_mean(under) < 1.6


def test_the_bound_holds_where_pages_are_used_in_place() -> None:
    """Also where an operation uses more than may be resident."""
    pytest.importorskip("scipy")
    for seed in range(24):
        operations, chance = small(seed)[0].operations, random.Random(seed)
        period = Period(operations, [chance.randint(1, 4) for _ in operations])
        fresh = max(sum(use.fresh for use in row) for row in uses_of(period))
        budget = max(1, fresh)
        ticks = TICKS[seed % len(TICKS)]
        times = PageTimes(*(TICK_NS * t for t in (*ticks, *ticks)))
        best = TICK_NS * least_mean(Search(period, budget, ticks, in_place=True).iterations())
        assert max(bounds(period, budget, times)) <= best * (1 + 1e-6), seed


def test_what_is_used_in_place_comes_while_its_operation_runs() -> None:
    """All of that operation is on one side of a cut: its bytes have all of its time."""
    pytest.importorskip("scipy")
    period = Period([[PageTouch(0, True)], [PageTouch(0, True), PageTouch(1)]], [1, 2])
    times = PageTimes(*(TICK_NS * t for t in (2, 1, 2, 1)))
    best = least_mean(Search(period, 1, (2, 1), in_place=True).iterations())
    assert best == 3
    assert bounds(period, 1, times) == pytest.approx([3 * TICK_NS] * 2)


def test_pages_that_take_turns() -> None:
    """Two pages, one frame: each leaves and comes once an iteration."""
    period = Period([[PageTouch(0, True)], [PageTouch(1, True)]], [1000, 1000])
    done = oracle(period, 1, PageTimes(400, 500, 900, 900))
    assert done.ns == pytest.approx(2 * (1000 + 400 + 500))
    assert done[1:] == (2, 2)


def test_both_ways_share_the_link() -> None:
    """Three pages, two frames: while one is worked on, one comes after another has left."""
    period = Period([[PageTouch(p, True)] for p in range(3)], [1, 1, 1])
    alone = oracle(period, 2, PageTimes(100, 100, 100, 100))
    shared = oracle(period, 2, PageTimes(100, 100, 200, 200))
    assert alone.ns <= shared.ns
    assert alone.pages_in == alone.pages_out > 0


def test_dead_pages_need_no_bytes() -> None:
    period = Period([[PageTouch(p, True, True)] for p in range(3)], [10, 20, 30])
    done = oracle(period, 1, PageTimes(100, 100, 100, 100))
    assert done.ns == pytest.approx(60)
    assert done[1:] == (0, 0)


def test_clean_pages_leave_for_nothing() -> None:
    period = Period([[PageTouch(0)], [PageTouch(1)]], [10, 10])
    done = oracle(period, 1, PageTimes(100, 1e9, 100, 1e9))
    assert done.ns == pytest.approx(2 * (10 + 100))
    assert done[1:] == (2, 0)


def test_what_fits_does_not_move() -> None:
    period = Period([[PageTouch(0, True)], [PageTouch(1, True)]], [10, 10])
    done = oracle(period, 2, PageTimes(1, 1, 1, 1))
    assert done.ns == pytest.approx(20)
    assert done[1:] == (0, 0)


def test_an_operation_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="more pages"):
        oracle(Period([[PageTouch(0), PageTouch(1)]], [1]), 1, PageTimes(1, 1, 1, 1))


@pytest.mark.parametrize("link", LINKS)
def test_the_oracle_is_near_the_bound(link: str) -> None:
    """On a recorded training step at twice its memory."""
    pytest.importorskip("scipy")
    from pump.predict import bound as lp

    rates = LINKS[link]
    period = period_of(open_sequence(paths.traces()["resnet50"]), rates.page_bytes)
    times = page_times(rates)
    bound = lp.bound(period, period.pages // 2, times, 30)
    assert bound <= oracle(period, period.pages // 2, times).ns <= 1.08 * bound
