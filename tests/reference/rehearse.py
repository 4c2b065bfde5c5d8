"""Plans and greedy choice in virtual time, in plain Python.

The same times as csrc/engine/greedy.c and rehearse.c (tests/unit/test_plan.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from math import inf

from bench.bound.core import ITERATIONS, WARM, Choice, Link, Period, Rehearsal
from tests.reference.plan import (
    ABSENT,
    COMING,
    LEAVING,
    RESIDENT,
    Gaps,
    Mover,
    Page,
    Run,
    Step,
    plan,
)


@dataclass
class Greedy(Mover):
    """Pages come in order of need; the page with the farthest next touch leaves, dead ones first.

    It looks at what has retired only: `ahead` is the operation whose pages are being brought.
    """

    gaps: Gaps
    frames: int
    operation: int = 0
    ahead: int = 0

    def __post_init__(self) -> None:
        self.pages: dict[int, Page] = {}
        for i, (k, page) in enumerate(self.gaps.touches):
            self.pages.setdefault(page, Page(k))
            if self.gaps.next[i] <= i:
                self.pages[page].dead = self.gaps.dies[i]

    def numbers(self, operation: int) -> list[int]:
        operations = self.gaps.period.operations
        return [touch.page for touch in operations[operation % len(operations)]]

    def wanted(self) -> int | None:
        n = len(self.gaps.period.operations)
        self.ahead = max(self.ahead, self.operation)
        while self.ahead < self.operation + n:
            for number in self.numbers(self.ahead):
                if self.pages[number].state not in (RESIDENT, COMING):
                    return number
            self.ahead += 1
        return None

    def into(self, bytes_too: bool) -> Step:
        number = self.wanted()
        if number is None or self.pages[number].state == LEAVING or not self.frames:
            return None
        if not (bytes_too or self.pages[number].dead):
            return None
        self.pages[number].state = COMING
        self.frames -= 1
        return number, not self.pages[number].dead

    def out(self, bytes_too: bool) -> Step:
        number = self.wanted()
        if number is None or self.pages[number].state == LEAVING or self.frames:
            return None
        for dead in (True, False) if bytes_too else (True,):
            may = [
                (-page.need, number)
                for number, page in self.pages.items()
                if page.state == RESIDENT and page.dead == dead and page.need > self.ahead
            ]
            if may:
                victim = min(may)[1]
                self.pages[victim].state = LEAVING
                return victim, self.pages[victim].dirty
        return None

    def left(self, page: int) -> None:
        self.pages[page].state = ABSENT
        self.pages[page].dirty = False
        self.frames += 1

    def came(self, page: int) -> None:
        self.pages[page].state = RESIDENT

    def start(self) -> bool:
        return all(self.pages[number].state == RESIDENT for number in self.numbers(self.operation))

    def retired(self) -> None:
        k = self.operation % len(self.gaps.period.operations)
        for i, touch in enumerate(self.gaps.period.operations[k], self.gaps.first[k]):
            page = self.pages[touch.page]
            page.dirty = not touch.dies and (page.dirty or touch.writes or page.dead)
            page.dead = touch.dies
            page.need = self.operation + self.gaps.length(i)
        self.operation += 1


# --- in virtual time ---


def events(period: Period, mover: Mover, link: Link) -> Iterator[tuple[float, int, int]]:
    """Time, and pages that began to move in and out until then, at the end of each operation."""
    now, ends = 0.0, inf
    pages = {"in": 0, "out": 0}
    lanes: dict[str, tuple[int, float] | None] = {"in": None, "out": None}
    for operation in count():
        while True:
            moving = True
            while moving:
                moving = False
                for lane, ask, done in (
                    ("out", mover.out, mover.left),
                    ("in", mover.into, mover.came),
                ):
                    while step := ask(lanes[lane] is None):
                        moving = True
                        if step[1]:
                            lanes[lane] = (step[0], 1.0)
                            pages[lane] += 1
                        else:
                            done(step[0])
                if ends == inf and mover.start():
                    ends = now + period.durations[operation % len(period.operations)]
                    moving = True
            both = all(lanes.values())
            rates = {
                "in": link.in_both_ns if both else link.in_ns,
                "out": link.out_both_ns if both else link.out_ns,
            }
            lasts = {lane: job[1] * rates[lane] for lane, job in lanes.items() if job}
            step_ns = min([ends - now, *lasts.values()])
            if step_ns == inf:
                return
            ended = ends - now == step_ns
            finished = next((x for x in ("in", "out") if lasts.get(x) == step_ns), None)
            now += step_ns
            for lane, job in lanes.items():
                if job:
                    lanes[lane] = (job[0], job[1] - step_ns / rates[lane])
            if ended:
                ends = inf
                mover.retired()
                yield now, pages["in"], pages["out"]
                break
            job = lanes[finished] if finished else None
            if finished and job:
                lanes[finished] = None
                (mover.came if finished == "in" else mover.left)(job[0])


def rehearse(period: Period, mover: Mover, link: Link) -> Rehearsal:
    """The mean of an iteration, the first ones left out."""
    n = len(period.operations)
    marks = []
    for k, event in enumerate(events(period, mover, link), 1):
        if k in (WARM * n, ITERATIONS * n):
            marks.append(event)
        if k == ITERATIONS * n:
            break
    if len(marks) < 2:
        return Rehearsal(inf, 0, 0)
    ns, pages_in, pages_out = (
        (late - early) / (ITERATIONS - WARM) for early, late in zip(*marks, strict=True)
    )
    return Rehearsal(ns, pages_in, pages_out)


def search(period: Period, budget: int, link: Link) -> Choice | None:
    """The fastest plan of four sweeps beside greedy choice; None: one operation is too large."""
    gaps = Gaps(period)
    held, n = gaps.base([False] * len(gaps.touches)), len(period.operations)
    starts = [held.index(min(held)), (held.index(max(held)) + 1) % n, 0, n // 2]
    plans: dict[tuple[bool, ...], Rehearsal] = {}
    for start in starts:
        made = plan(period, budget, start)
        if made is None:
            return None
        if tuple(made[0]) not in plans:
            run = Run(gaps, budget, made[0])
            plans[tuple(made[0])] = rehearse(period, run, link)
    away = min(plans, key=lambda one: plans[one].ns)
    greedy = rehearse(period, Greedy(gaps, budget), link)
    return Choice(list(away), gaps.base(list(away)), plans[away], greedy)
