"""What a recorded step would take with less memory: by backend, over memory and factors."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from pump.bench.processes import results
from pump.bench.systems import BY_NAME
from pump.binding import default_of
from pump.sim.engine import CompiledEngine
from pump.sim.hardware import Interconnect, link_over
from pump.sim.link import LINKS, PAGE_BYTES, VMM, VMM_KNOWN, Link, link_for
from pump.sim.sequence import Event, Given, Operation, pages_of
from pump.sim.sequence import Sequence as Recorded
from pump.sim.simulator import Simulator, settings_for
from pump.sizes import write_size

FACTORS = tuple(range(100, 0, -10))
SHARES = tuple(n / 10 for n in range(2, 12))
"""Of what the step needs: where the curve has its points."""
AS_GOOD = 1.05
"""A smaller factor is recommended if its step takes no longer than this times the least."""
FEW = 5000
"""Operations that are played sooner than other processes start, in all runs of a step."""
SLOW = 3.0
"""From so many times the time of a step that fits, other ways deserve a look."""


@dataclass(frozen=True)
class Point:
    """A step with a budget."""

    backend: str
    budget: int  # bytes
    step_ms: float
    bytes_in: float  # a step
    bytes_out: float


@dataclass(frozen=True)
class Plan:
    """What is predicted. Bytes; milliseconds."""

    memory: int
    footprint: int
    native_ms: float
    factors: dict[int, dict[str, Point]]  # by per cent of the memory, and backend
    curve: list[Point]

    @property
    def backends(self) -> list[str]:
        """Those that can run with some memory."""
        return list(dict.fromkeys(point.backend for point in self.curve))

    @property
    def fits(self) -> bool:
        """It needs nothing of us."""
        return self.footprint <= self.memory

    @property
    def best(self) -> tuple[int, Point] | None:
        """The least factor that is about as fast as any up to the default, and its backend; None:
        none can run. What the default leaves of a device is for contexts, images and what others
        allocate plain, none of which is played. A backend that takes a promise is chosen only where
        no other was asked for.
        """
        most = default_factor()
        rows = {factor: row for factor, row in self.factors.items() if factor <= most}
        every = [(factor, p) for factor, row in rows.items() for p in row.values()]
        runs = [run for run in every if not BY_NAME[run[1].backend].promise] or every
        if not runs:
            return None
        least = min(point.step_ms for _, point in runs)
        good = [run for run in runs if run[1].step_ms <= AS_GOOD * least]
        smallest = min(factor for factor, _ in good)
        return min((run for run in good if run[0] == smallest), key=lambda run: run[1].step_ms)


def backends_for(sequence: Recorded, asked: Collection[str]) -> list[str]:
    """Those asked for, in order. Where `vmm` does the same without, nobody need promise anything:
    it stands for `vmm-known`.
    """
    same = {VMM_KNOWN.name: VMM.name} if sequence.vouched else {}
    chosen = {same.get(name, name) for name in asked}
    return [name for name in LINKS if name in chosen]


@dataclass(frozen=True)
class Task:
    """A step to be played with a budget, in whole pages."""

    sequence: Recorded
    backend: str
    link: Link
    pages: int
    thread_ns: float  # what the program's thread computes for each operation

    @property
    def budget(self) -> int:
        """In bytes."""
        return self.pages * self.link.page_bytes


Progress = Callable[[int, int], None]
"""Told how many runs are done, and of how many: first of none."""


def plan(
    sequence: Recorded,
    memory: int,
    interconnect: Interconnect,
    backends: Sequence[str],
    progress: Progress = lambda done, runs: None,
    *,
    curve: bool = True,
    step_ns: float = 0.0,
    workers: int | None = None,
) -> Plan:
    """Plays every factor and, if it is asked for, the curve. Where an operation needs more than a
    budget there is no point: it cannot run there.

    step_ns: what a step takes from end to end where everything fits; 0: what its operations take.
    workers: processes; None: as many as this one may use processors, if they are worth it.
    """
    links = {name: link_over(interconnect, link_for(name, sequence)) for name in backends}
    footprint = sequence.footprint(PAGE_BYTES)
    sizes = {link.page_bytes for link in links.values()}
    all_pages = {size: sequence.footprint(size) // size for size in sizes}
    largest = {size: largest_operation(sequence, size) for size in sizes}
    factors = {factor: memory * factor // 100 for factor in FACTORS}
    shares = [int(share * footprint) for share in SHARES] if curve else []

    def pages(backend: str, budget: int) -> int:
        size = links[backend].page_bytes
        found = min(budget // size, all_pages[size])
        return found if found >= largest[size] else 0

    asked = {(name, pages(name, budget)) for name in backends for budget in factors.values()}
    asked |= {(name, pages(name, budget)) for name in backends for budget in shares}
    thread_ns = sequence.thread_ns(step_ns)
    tasks = [Task(sequence, name, links[name], found, thread_ns) for name, found in asked if found]
    tasks.sort(key=lambda task: (task.budget, task.backend))  # those that take longest first
    if len(tasks) * len(sequence.steps[-1]) < FEW:
        workers = 1
    progress(0, len(tasks))
    played: dict[tuple[str, int], Point] = {}
    for task, point in results(play, tasks, workers):
        played[task.backend, task.pages] = point
        progress(len(played), len(tasks))

    def points(budget: int) -> dict[str, Point]:
        found = {name: played.get((name, pages(name, budget))) for name in backends}
        return {name: replace(one, budget=budget) for name, one in found.items() if one}

    rows = {factor: points(budget) for factor, budget in factors.items()}
    every = [one for row in (*map(points, shares), *rows.values()) for one in row.values()]
    native_ms = max(sequence.native_ns(), step_ns) / 1e6
    return Plan(memory, footprint, native_ms, rows, sorted(every, key=lambda p: p.budget))


def play(task: Task) -> Point:
    """The steady state under a backend's default policy; for another process."""
    policy = BY_NAME[task.backend].policy
    engine = CompiledEngine(settings_for(task.link, policy, task.budget))
    result = Simulator(engine, task.link, policy, task.thread_ns).run(task.sequence)
    return Point(task.backend, task.budget, result.step_ms, result.bytes_in, result.bytes_out)


def largest_operation(sequence: Recorded, page_bytes: int) -> int:
    """Pages of the operation that touches most."""
    step = sequence.steps[-1]
    return max(len(pages_of(e.touches, page_bytes)) for e in step if isinstance(e, Operation))


def stretched(sequence: Recorded, times: float) -> Recorded:
    """The same, each operation taking so many times as long."""

    def event(one: Event) -> Event:
        if isinstance(one, Given):
            return one
        return one._replace(duration_ns=round(one.duration_ns * times))

    return replace(sequence, steps=tuple(tuple(map(event, step)) for step in sequence.steps))


def default_factor() -> int:
    """Per cent of the memory that data may occupy where nobody says."""
    return int(default_of("ULMS_GPU_MEMORY_FACTOR"))


def command(backend: str, factor: int, limit: int | None) -> str:
    """What starts a program so. limit: bytes; None: all that the device has."""
    env = dict(BY_NAME[backend].env)
    words = ["pump run", f"--backend {env.pop('ULMS_BACKEND')}"]
    words += [f"--memory {write_size(limit)}"] if limit else []
    settings = [f"{name}={value}" for name, value in env.items()]
    return " ".join([*settings, *words, f"--factor {factor}", "-- PROGRAM"])


def unless(backend: str) -> str:
    """The end of a sentence: what the user promises by choosing it."""
    promise = BY_NAME[backend].promise
    return f". You promise by it that {promise}: else data are spoilt." if promise else "."


def advice(found: Plan, limit: int | None = None) -> list[str]:
    """What follows, a line each. limit: bytes that the program is to be held to, of a larger
    device.
    """
    if found.fits:
        return ["It fits: run it as it is, nothing has to move."]
    if not found.best:
        return [
            f"It cannot run there: one operation alone touches more than {default_factor()} % of"
            " the memory. The rest is for contexts, images and what is allocated plain."
        ]
    factor, point = found.best
    slowdown = point.step_ms / found.native_ms
    lines = [
        f"Use {point.backend}: {point.step_ms:.0f} ms a step, {slowdown:.1f} times what it takes"
        f" where everything fits{unless(point.backend)}",
        f"    {command(point.backend, factor, limit)}",
    ]
    lines += [risk] if (risk := BY_NAME[point.backend].risk) else []
    row = found.factors[factor]
    lines += [
        f"With {other}: {p.step_ms:.0f} ms{unless(other)}"
        for other, p in row.items()
        if p is not point and (p.step_ms < point.step_ms or not BY_NAME[other].promise)
    ]
    if slowdown > SLOW:
        lines.append(
            "That is slow. If the program can be changed, checkpointing, a smaller batch or fewer"
            " bytes (lower precision, offloaded states) may be faster; a trace cannot tell."
        )
    return lines
