"""A lower bound on an iteration, whatever moves when: a linear programme. Needs scipy.

The period is cut into intervals; a cut lies at the very end of the busiest operation of its
stretch, where all pages of that operation are still resident or were used in place. Pages that are
touched alike are one class, and any share of a class may move. What must hold at the cuts and
between them:

- a page touched in an interval is resident at its start, or comes in it, or is fresh, or is used in
  place: then its bytes come, and go if they are written, and it need not be resident;
- live content exists: resident and valid host copies together are no fewer than the pages. A write
  ends the validity of the host's copy, unless it is in place, and only moving out brings it back;
- resident pages are at most the budget;
- an interval lasts as long as its operations, and long enough for its bytes.

A schedule that does not repeat obeys it too: its average over the iterations is feasible.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from pump.sim.period import PageTimes, PageTouch, Period

SECONDS = 600


class Use(NamedTuple):
    """What an interval does to a page."""

    fresh: bool  # its first touch needs no bytes
    written: bool
    dies: bool  # after its last touch
    at_cut: bool  # touched by the operation that the interval ends with
    written_at_cut: bool


@dataclass(frozen=True)
class Cuts:
    """Where the intervals end, and what happens in each."""

    operations: list[int]  # with which interval b ends
    durations: list[float]  # ns of operations in interval b
    classes: list[tuple[dict[int, Use], int]]  # interval: use, and how many pages are used so


def cut(period: Period, intervals: int) -> Cuts:
    """Stretches of equal shares of time and touches, each cut behind its busiest operation."""
    operations, n = period.operations, len(period.operations)
    time = sum(period.durations) or 1
    touches = sum(map(len, operations))
    shares = [
        d / time + len(op) / touches for d, op in zip(period.durations, operations, strict=True)
    ]
    stretch = [min(int(x / 2 * intervals), intervals - 1) for x in accumulate(shares)]
    held = _held(period)
    busiest: dict[int, int] = {}
    for k in range(n):
        if stretch[k] not in busiest or held[k] > held[busiest[stretch[k]]]:
            busiest[stretch[k]] = k
    ends = sorted(busiest.values())
    interval = [next((b for b, end in enumerate(ends) if k <= end), 0) for k in range(n)]
    durations = [0.0] * len(ends)
    for k, duration in enumerate(period.durations):
        durations[interval[k]] += duration
    return Cuts(ends, durations, _classes(period, ends, interval))


def _held(period: Period) -> list[int]:
    """Live pages at each operation."""
    n = len(period.operations)
    change = [0] * (2 * n + 1)
    for page in _touches(period):
        for (k, touch), (after, _) in pairwise([*page, (page[0][0] + n, page[0][1])]):
            change[k] += 1
            change[k + 1 if touch.dies else after] -= 1
    held = list(accumulate(change))
    return [held[k] + held[k + n] for k in range(n)]


def _touches(period: Period) -> list[list[tuple[int, PageTouch]]]:
    """Of each page, its touches in order."""
    pages: list[list[tuple[int, PageTouch]]] = [[] for _ in range(period.pages)]
    for k, operation in enumerate(period.operations):
        for touch in operation:
            pages[touch.page].append((k, touch))
    return pages


def _classes(
    period: Period, ends: list[int], interval: list[int]
) -> list[tuple[dict[int, Use], int]]:
    found: Counter[tuple[tuple[int, Use], ...]] = Counter()
    n, first = len(period.operations), (ends[-1] + 1) % len(period.operations)
    for page in _touches(period):
        ordered = sorted(page, key=lambda at: (at[0] - first) % n)
        uses: dict[int, Use] = {}
        dead = ordered[-1][1].dies
        for k, touch in ordered:
            old = uses.get(interval[k], Use(dead, False, False, False, False))
            at_cut = k == ends[interval[k]]
            uses[interval[k]] = Use(
                old.fresh,
                old.written or touch.writes,
                touch.dies,
                at_cut,
                at_cut and touch.writes,
            )
            dead = touch.dies
        found[tuple(sorted(uses.items()))] += 1
    return [(dict(uses), pages) for uses, pages in found.items()]


class Programme:
    """Rows `sum of coefficient * variable <= most`, over variables with limits."""

    def __init__(self, variables: int) -> None:
        self.low, self.high = [0.0] * variables, [float("inf")] * variables
        self.cost = [0.0] * variables
        self.rows: list[Mapping[int, float]] = []
        self.most: list[float] = []

    def add(self, row: Mapping[int, float], most: float) -> None:
        self.rows.append(row)
        self.most.append(most)

    def least(self) -> float:
        """The least cost. Raises RuntimeError when there is none."""
        at = [(r, v, x) for r, row in enumerate(self.rows) for v, x in row.items()]
        places = ([r for r, _, _ in at], [v for _, v, _ in at])
        matrix = csr_matrix(([x for _, _, x in at], places), (len(self.rows), len(self.cost)))
        limits = list(zip(self.low, self.high, strict=True))
        options = {"time_limit": SECONDS}
        done = linprog(
            self.cost, matrix, self.most, bounds=limits, method="highs-ipm", options=options
        )
        if done.status != 0:
            raise RuntimeError(done.message)
        return float(done.fun)


def bound(period: Period, budget: int, link: PageTimes, intervals: int) -> float:
    """No schedule takes less than these nanoseconds an iteration, `budget` pages being resident."""
    cuts = cut(period, intervals)
    n, classes = len(cuts.operations), len(cuts.classes)
    lp = Programme(5 * classes * n + 4 * n)

    def variable(kind: int, one: int, b: int) -> int:
        return (kind * classes + one) * n + b % n

    # At the start of interval b: resident, host. In it: come, gone, used in place.
    coming: list[dict[int, float]] = [{} for _ in range(n)]  # in place, in each interval
    going: list[dict[int, float]] = [{} for _ in range(n)]
    for one, (uses, pages) in enumerate(cuts.classes):
        dead = uses[max(uses)].dies
        for b in range(n):
            resident, host, come, gone, place = (variable(kind, one, b) for kind in range(5))
            resident_after, host_after = variable(0, one, b + 1), variable(1, one, b + 1)
            lp.high[resident] = min(lp.high[resident], pages)
            lp.high[host] = min(lp.high[host], pages)
            use = uses.get(b)
            if use:
                if not use.fresh:
                    lp.add({resident: -1, come: -1, place: -1}, -pages)
                    coming[b][place] = 1.0
                if use.written:
                    going[b][place] = 1.0
                kept = {place: -1} if use.written else {host: -1}
                lp.add({host_after: 1, gone: -1} | kept, 0)
                if use.at_cut:
                    lp.add({resident_after: -1, place: -1}, -pages)
                if use.written_at_cut:
                    lp.add({host_after: 1, place: -1}, 0)
                dead = use.dies
            elif not dead:
                lp.add({resident_after: 1, resident: -1, come: -1}, 0)
                lp.add({host_after: 1, host: -1, gone: -1}, 0)
            if not dead:
                lp.add({resident_after: -1, host_after: -1}, -pages)
    # Times in those of a page: as nanoseconds they spoil the solver's tolerances.
    unit = link.in_ns
    for b in range(n):
        lp.add({variable(0, one, b): 1.0 for one in range(classes)}, budget)
        only_in, only_out, both, neither = (5 * classes * n + 4 * b + i for i in range(4))
        for time in (only_in, only_out, both, neither):
            lp.cost[time] = 1
        all_come = {variable(2, one, b): 1.0 for one in range(classes)}
        all_gone = {variable(3, one, b): 1.0 for one in range(classes)}
        all_come |= coming[b]
        all_gone |= going[b]
        lp.add(all_come | {only_in: -1, both: -unit / link.in_both_ns}, 0)
        lp.add(all_gone | {only_out: -unit / link.out_ns, both: -unit / link.out_both_ns}, 0)
        lp.add({only_in: -1, only_out: -1, both: -1, neither: -1}, -cuts.durations[b] / unit)
    return unit * lp.least()
