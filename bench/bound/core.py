"""The compiled plan (csrc/engine/plan.h, rehearse.h) through cffi, for benches and tests.

The library is the built core (`PUMP_CORE_LIB`) or, without it, compiled here.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cffi import FFI

from pump.sim.period import PageTimes as Link
from pump.sim.period import PageTouch as Touch
from pump.sim.period import Period

__all__ = ["Choice", "Link", "Period", "Planner", "Rehearsal", "Run", "Touch", "ffi", "library"]

CSRC = Path(__file__).resolve().parents[2] / "csrc"
HEADERS = ("heap.h", "occupancy.h", "mover.h", "plan.h", "plan_run.h", "rehearse.h")
SOURCES = ("greedy", "heap", "occupancy", "plan", "plan_run", "rehearse")


class Rehearsal(NamedTuple):
    """An iteration in virtual time; pages are those that went over the link."""

    ns: float
    pages_in: float
    pages_out: float


class Choice(NamedTuple):
    """A plan beside greedy choice."""

    away: list[bool]  # a touch: its page spends the time to its next one in host memory
    base: list[int]  # an operation: pages held
    plan: Rehearsal
    greedy: Rehearsal


@cache
def ffi() -> FFI:
    """What cffi knows of the headers: all but the preprocessor's lines."""
    one = FFI()
    texts = [
        re.sub(r"/\*.*?\*/", "", (CSRC / "engine" / h).read_text(), flags=re.S) for h in HEADERS
    ]
    one.cdef(re.sub(r"^#.*$", "", "".join(texts), flags=re.M))
    return one


@cache
def library() -> Any:
    """The core. Raises CalledProcessError when it has to be compiled and cannot be."""
    path = os.environ.get("PUMP_CORE_LIB", "")
    if path:
        return ffi().dlopen(path)
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "libplan.so"
        command = ["cc", "-std=gnu11", "-O2", "-fPIC", "-shared", f"-I{CSRC}", "-o", str(target)]
        subprocess.run([*command, *(f"{CSRC}/engine/{name}.c" for name in SOURCES)], check=True)
        return ffi().dlopen(str(target))


ITERATIONS, WARM = 6, 2
"""REHEARSE_ITERATIONS and REHEARSE_WARM."""


class Planner:
    """A period handed to the compiled core. Raises ValueError when it is not one."""

    def __init__(self, period: Period) -> None:
        touches = [touch for op in period.operations for touch in op]
        self.lib, self.period = library(), period
        self.made = self.lib.period_new(len(period.operations), len(touches), period.pages)
        if not self.made:
            raise ValueError("too large, or empty")
        first = 0
        for k, op in enumerate(period.operations):
            self.made.first[k] = first
            self.made.duration_ns[k] = period.durations[k]
            first += len(op)
        self.made.first[len(period.operations)] = first
        for i, touch in enumerate(touches):
            self.made.page[i] = touch.page
            self.made.does[i] = touch.writes * self.lib.PERIOD_WRITES
            self.made.does[i] |= touch.dies * self.lib.PERIOD_DIES
        if not self.lib.period_seal(self.made):
            raise ValueError("a page twice in an operation, or a hole in the numbers of the pages")

    def __del__(self) -> None:
        if getattr(self, "made", None):
            self.lib.period_free(self.made)

    def choose(self, budget: int, start: int) -> tuple[list[bool], list[int]] | None:
        """Gaps away after one sweep, and pages held; None: an operation is too large."""
        with _Plan(self, budget) as plan:
            result = self.lib.plan_choose(plan, start)
            return self._read(plan) if self._made(result) else None

    def search(self, budget: int, link: Link) -> Choice | None:
        """The fastest plan of a few sweeps beside greedy; None: an operation is too large."""
        choice = ffi().new("struct plan_choice *")
        with _Plan(self, budget) as plan:
            result = self.lib.plan_search(plan, ffi().new("struct link *", tuple(link)), choice)
            if not self._made(result):
                return None
            assert bool(choice.worthwhile) == (choice.plan.ns < choice.greedy.ns)
            return Choice(*self._read(plan), _rehearsal(choice.plan), _rehearsal(choice.greedy))

    def _made(self, result: int) -> bool:
        if result == self.lib.PLAN_NO_MEMORY:
            raise MemoryError
        return bool(result == self.lib.PLAN_MADE)

    def _read(self, plan: Any) -> tuple[list[bool], list[int]]:
        away = [bool(plan.away[i]) for i in range(self.made.touches)]
        return away, [int(plan.base[k]) for k in range(self.made.operations)]


class Run:
    """A plan carried out by the compiled core; the methods are those of csrc/engine/plan_run.h."""

    def __init__(
        self,
        planner: Planner,
        budget: int,
        start: int,
        operation: int,
        pages: Sequence[tuple[bool, bool, bool]],
    ) -> None:
        """Plans a sweep from `start`; pages are (resident, host's copy valid, dead) each."""
        lib = self.lib = planner.lib
        self.plan, self.run = _Plan(planner, budget), ffi().new("struct plan_run *")
        if not planner._made(lib.plan_choose(self.plan.plan, start)):
            raise ValueError("an operation is too large")
        bits = (lib.PLAN_RESIDENT, lib.PLAN_HOST, lib.PLAN_DEAD)
        flags = [sum(bit for bit, on in zip(bits, page, strict=True) if on) for page in pages]
        if not lib.plan_run_open(self.run, self.plan.plan, operation, bytes(flags)):
            raise MemoryError

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.lib.plan_run_close(self.run)
        self.plan.__exit__()

    def step(self, name: str, *arguments: int) -> Any:
        """What plan_run_NAME answers; of moves the page and whether its bytes go, or None."""
        answer = getattr(self.lib, f"plan_run_{name}")(self.run, *arguments)
        if name not in ("in", "out"):
            return answer
        return None if answer.page == self.lib.PAGE_NONE else (answer.page, bool(answer.bytes))


class _Plan:
    def __init__(self, planner: Planner, budget: int) -> None:
        self.planner, self.plan = planner, ffi().new("struct plan *")
        if not planner.lib.plan_open(self.plan, planner.made, budget):
            raise MemoryError

    def __enter__(self) -> Any:
        return self.plan

    def __exit__(self, *_: object) -> None:
        self.planner.lib.plan_close(self.plan)


def _rehearsal(one: Any) -> Rehearsal:
    return Rehearsal(one.ns, one.pages_in, one.pages_out)
