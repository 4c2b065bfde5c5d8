"""What a recorded step would take with less memory: by backend, over memory and factors."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pump.binding import default_of
from pump.predict.budgeted import Budgeted
from pump.predict.processes import results
from pump.predict.roofline import Ends, ends
from pump.predict.systems import BY_NAME
from pump.sim.engine import CompiledEngine
from pump.sim.hardware import INTERCONNECTS, REFERENCE, Gpu, Interconnect, link_over
from pump.sim.link import LINKS, PAGE_BYTES, VMM, VMM_KNOWN, Link, link_for
from pump.sim.recorded import sequence_of
from pump.sim.sequence import Operation, SequenceError, pages_of
from pump.sim.sequence import Sequence as Recorded
from pump.sim.simulator import Pace, settings_for
from pump.sizes import format_size, write_size
from pump.trace import Trace

FACTORS = tuple(range(100, 0, -10))
SHARES = tuple(n / 10 for n in range(2, 12))
"""Of what the step needs: where the curve has its points."""
AS_GOOD = 1.05
"""A factor is as good as the fastest if its step takes no longer than this times as long."""
UNTOLD = 0.1
"""Share of a step's time above which nothing is predicted, if operations only ran without all of
their pages."""
FEW = 5000
"""Operations that are played sooner than other processes start, in all runs of a step."""
SLOW = 3.0
"""From so many times the time of a step that fits, other ways deserve a look."""


@dataclass(frozen=True)
class Point:
    """A step with a budget."""

    backend: str
    budget: int  # bytes
    step_ms: float  # at least
    most_ms: float  # at most
    bytes_in: float  # a step that takes the least
    bytes_out: float
    over_budget: bool = False  # more than the budget was resident: its time is none

    @property
    def middle_ms(self) -> float:
        """What it is compared by."""
        return (self.step_ms + self.most_ms) / 2


@dataclass(frozen=True)
class Needs:
    """What a step needs, and what there is. Bytes; milliseconds."""

    memory: int
    footprint: int
    largest: int  # of the footprint, what one operation touches at most
    native_ms: float  # a step where everything fits, at least
    most_native_ms: float  # and at most

    @property
    def ranges(self) -> bool:
        """Times are known no better than from least to most."""
        return self.native_ms < self.most_native_ms

    @property
    def fits(self) -> bool:
        """It needs nothing of us, if nothing else needs memory."""
        return self.footprint <= self.memory

    @property
    def roomy(self) -> bool:
        """The same, and what the default factor sets aside is left for what else needs memory."""
        return self.footprint <= self.memory * default_factor() // 100

    @property
    def spare(self) -> int:
        """What is left where it fits."""
        return self.memory - self.footprint


@dataclass(frozen=True)
class Plan(Needs):
    """What is predicted."""

    factors: dict[int, dict[str, Point]]  # by per cent of the memory, and backend
    curve: list[Point]

    @property
    def backends(self) -> list[str]:
        """Those that have a page with some memory."""
        return list(dict.fromkeys(point.backend for point in self.curve))

    @property
    def best(self) -> tuple[int, Point] | None:
        """The largest factor up to the default that is about as fast as any of them, and its
        backend; None: no time is known. What the default leaves of a device is for contexts, images
        and what others allocate plain, none of which is played. A backend that takes a promise is
        chosen only where no other was asked for.
        """
        most = default_factor()
        rows = {factor: row for factor, row in self.factors.items() if factor <= most}
        every = [(f, p) for f, row in rows.items() for p in row.values() if not p.over_budget]
        runs = [run for run in every if not BY_NAME[run[1].backend].promise] or every
        if not runs:
            return None
        least = min(point.middle_ms for _, point in runs)
        good = [run for run in runs if run[1].middle_ms <= AS_GOOD * least]
        return min(good, key=lambda run: (-run[0], run[1].middle_ms))


def backends_for(sequence: Recorded, asked: Collection[str]) -> list[str]:
    """Those asked for, in order. Where `vmm` does the same without, nobody need promise anything:
    it stands for `vmm-known`.
    """
    same = {VMM_KNOWN.name: VMM.name} if sequence.trusted else {}
    chosen = {same.get(name, name) for name in asked}
    return [name for name in LINKS if name in chosen]


@dataclass(frozen=True)
class Task:
    """A step to be played with a budget, in whole pages."""

    step: Ends
    backend: str
    link: Link
    pages: int
    step_ns: float = 0.0  # as `plan` has it

    @property
    def budget(self) -> int:
        """In bytes."""
        return self.pages * self.link.page_bytes


Progress = Callable[[int, int], None]
"""Told how many runs are done, and of how many: first of none."""


def plan(
    trace: Trace | Recorded,
    memory: int,
    interconnect: Interconnect = INTERCONNECTS[REFERENCE.interconnect],
    backends: Sequence[str] | None = None,
    progress: Progress = lambda done, runs: None,
    *,
    curve: bool = True,
    step_ns: float = 0.0,
    workers: int | None = None,
    gpu: Gpu | None = None,
) -> Plan:
    """What a step of a trace would take with so much memory, bytes.

    Plays every factor and, if it is asked for, the curve; what it tells of fitting it knows
    without. Where it is roomy and no curve is asked for there is nothing to be told. Where a budget
    is less than a page there is no point. `Plan.factors` has a `Point` for each per cent of the
    memory and backend: milliseconds, and bytes, of one step. Raises SequenceError for a trace
    without a step that repeats, or of no known times; KeyError for a backend that LINKS has not.

    trace: or a recorded step. backends: None: all. step_ns: what a step takes from end to end where
    everything fits; 0: what its operations take. workers: processes; None: as many as this one may
    use processors, if they are worth it. gpu: what it is to run on; None: where it was recorded.
    """
    sequence = trace if isinstance(trace, Recorded) else sequence_of(trace)
    needs = needs_of(sequence, memory, step_ns, gpu)
    if backends is None:
        backends = backends_for(sequence, LINKS)
    links = {name: link_over(interconnect, link_for(name, sequence)) for name in backends}
    sizes = {link.page_bytes for link in links.values()}
    all_pages = {size: sequence.footprint(size) // size for size in sizes}
    told = FACTORS if curve or not needs.roomy else ()
    factors = {factor: memory * factor // 100 for factor in told}
    shares = [int(share * needs.footprint) for share in SHARES] if curve else []

    def pages(backend: str, budget: int) -> int:
        size = links[backend].page_bytes
        return min(budget // size, all_pages[size])

    budgets = {*factors.values(), *shares}
    asked = {(name, pages(name, budget)) for name in backends for budget in budgets}
    played = {
        (name, found): Point(name, found, needs.native_ms, needs.most_native_ms, 0.0, 0.0)
        for name, found in asked
        if found == all_pages[links[name].page_bytes]
    }
    step = ends(sequence, gpu)
    tasks = [
        Task(step, name, links[name], found, step_ns)
        for name, found in asked - played.keys()
        if found
    ]
    for task, point in in_turn(tasks, progress, workers):
        played[task.backend, task.pages] = point

    def points(budget: int) -> dict[str, Point]:
        found = {name: played.get((name, pages(name, budget))) for name in backends}
        return {name: replace(one, budget=budget) for name, one in found.items() if one}

    rows = {factor: points(budget) for factor, budget in factors.items()}
    every = [one for row in (*map(points, shares), *rows.values()) for one in row.values()]
    ordered = sorted(every, key=lambda point: point.budget)
    return Plan(**vars(needs), factors=rows, curve=ordered)


def needs_of(
    sequence: Recorded, memory: int, step_ns: float = 0.0, gpu: Gpu | None = None
) -> Needs:
    """What is known before anything is played; arguments and errors are those of `plan`."""
    recorded_ns = sequence.native_ns()
    if sequence.untold_ns > UNTOLD * recorded_ns:
        raise SequenceError(
            f"{sequence.untold_ns / recorded_ns:.0%} of its time is of operations that never ran"
            " with all their pages on the device: what they take where everything fits is not"
            " known. Trace more steps, or with more memory"
        )
    largest = largest_operation(sequence, PAGE_BYTES) * PAGE_BYTES
    least, most = (max(end.native_ns(), step_ns) / 1e6 for end in ends(sequence, gpu))
    return Needs(memory, sequence.footprint(PAGE_BYTES), largest, least, most)


def in_turn(
    tasks: list[Task], progress: Progress, workers: int | None
) -> Iterator[tuple[Task, Point]]:
    """Plays tasks, those that take longest first."""
    tasks = sorted(tasks, key=lambda task: (task.budget, task.backend))
    if not tasks:
        return
    if len(tasks) * len(tasks[0].step.fast.steps[-1]) < FEW:
        workers = 1
    progress(0, len(tasks))
    for done, result in enumerate(results(play, tasks, workers), 1):
        yield result
        progress(done, len(tasks))


def play(task: Task) -> Point:
    """The steady state under a backend's default policy; for another process."""
    fast, slow = task.step
    least = play_end(task, fast)
    most = least if slow is fast else play_end(task, slow)
    over_budget = least.over_budget or most.over_budget
    return replace(least, most_ms=max(least.step_ms, most.step_ms), over_budget=over_budget)


def play_end(task: Task, sequence: Recorded) -> Point:
    """The same, where operations take so long."""
    policy = BY_NAME[task.backend].policy
    engine = CompiledEngine(settings_for(task.link, policy, task.budget))
    played = Budgeted(engine, task.link, policy, Pace(sequence.thread_ns(task.step_ns)))
    result = played.run(sequence)
    return Point(
        task.backend,
        task.budget,
        result.step_ms,
        result.step_ms,
        result.bytes_in,
        result.bytes_out,
        played.over_budget,
    )


def largest_operation(sequence: Recorded, page_bytes: int) -> int:
    """Pages of the operation that touches most."""
    step = sequence.steps[-1]
    return max(len(pages_of(e.touches, page_bytes)) for e in step if isinstance(e, Operation))


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


def unpredicted(found: Plan) -> str:
    """Why nothing is recommended."""
    share = f"{default_factor()} % of the memory"
    if not any(p.over_budget for row in found.factors.values() for p in row.values()):
        return f"Not predicted: {share} is less than a page."
    told = (
        "It runs, but how long a step takes is not predicted: with at most"
        f" {share} more is resident than that."
    )
    if VMM.name in found.backends or found.memory * default_factor() // 100 < VMM.page_bytes:
        return told
    return f"{told} vmm uses in place what does not fit: --backend vmm predicts it."


def advice(found: Plan, limit: int | None = None) -> list[str]:
    """What follows where it is not roomy, a line each. limit: bytes that the program is to be held
    to, of a larger device.
    """
    lines = [tight(found)] if found.fits else []
    if not found.best:
        return [*lines, unpredicted(found)]
    factor, point = found.best
    slower = (point.step_ms / found.native_ms, point.most_ms / found.most_native_ms)
    least, most = min(slower), max(slower)
    lines += [
        f"Use {point.backend}: {span(point.step_ms, point.most_ms)} ms a step,"
        f" {span(least, most, 1)} times what it takes where everything fits"
        f"{unless(point.backend)}",
        f"    {command(point.backend, factor, limit)}",
    ]
    lines += [risk] if (risk := BY_NAME[point.backend].risk) else []
    row = found.factors[factor]
    lines += [line for other, p in row.items() if (line := beside(other, p, point))]
    if most > SLOW:
        lines.append(
            "That is slow. If the program can be changed, checkpointing, a smaller batch or fewer"
            " bytes (lower precision, offloaded states) may be faster; a trace cannot tell."
        )
    return lines


def span(least: float, most: float, digits: int = 0) -> str:
    """Both ends, or what they have in common."""
    return " to ".join(dict.fromkeys(f"{end:.{digits}f}" for end in (least, most)))


def tight(found: Plan) -> str:
    """What is doubtful where the step alone fits."""
    return (
        f"It fits, with {format_size(found.spare)} to spare for contexts, images and what is"
        " allocated plain: if that is enough, run it as it is. Else:"
    )


def beside(name: str, other: Point, best: Point) -> str:
    """What is said of another backend with the same factor; "": nothing."""
    if other is best:
        return ""
    if other.over_budget:
        return f"With {name}: not predicted."
    if other.middle_ms >= best.middle_ms and BY_NAME[name].promise:
        return ""
    return f"With {name}: {span(other.step_ms, other.most_ms)} ms{unless(name)}"
