"""Workloads on a device for pump-bench: every system is a process of its own under a budget.

The pressure is ULMS_GPU_MEMORY, a software budget; the card itself is never filled. Nothing starts
without ULMS_MANAGED_LIMIT, and no workload that needs more than it is run on managed memory.
"""

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import NamedTuple

from bench.gpu import calls, link, small, workloads
from bench.gpu.budget import PAGE, ROOT, Budget, capacity_at, environment, observed
from bench.gpu.counters import COUNTERS_IN, COUNTERS_OUT, COUNTERS_OWN, EXPLAIN, sum_of
from bench.gpu.report import Report, is_start_of, reason_in, report_of
from bench.gpu.wanted import known_from, varying, wanted_of
from bench.gpu.workloads import offload
from pump.bench import machine
from pump.bench.machine import LIMIT
from pump.bench.resident import Sampler, judged, seen_by_cuda
from pump.bench.row import Row, pooled
from pump.bench.runner import Asked
from pump.nvml import NoNvmlError, Nvml
from pump.predict.systems import BY_NAME, GPU, LEARNS
from pump.sim.link import UM
from pump.terminal.command import UsageError
from pump.terminal.render import progress_bar

BUILT = ROOT / "build" / "gpu"
# When training, the engine has tried both ways, to bring pages and to use them in place, by the 9th
# step on an H200; 8B decoding by the 16th, 3B decoding in virtual time by the 21st. Other systems
# learn nothing.
WARM, WARM_ONCE, WARM_UNLEARNT, TIMED = 10, 30, 4, 11
SECONDS = 900
MANAGED_SHARE = 15 / 16  # of the limit on managed memory that a workload may need


class Needs(NamedTuple):
    """Bytes of the device that a program takes, and that are in use beside them: its context, what
    libraries load; None: not known.
    """

    footprint: int
    beside: int | None


class Batch(NamedTuple):
    """Runs of a workload: its systems and ratios. before: rows that it has; needs: None: not
    known.
    """

    name: str
    runs: Sequence[tuple[str, float]]
    before: Sequence[Row]
    needs: Needs | None


class LeftOutError(Exception):
    """A run has no row; the text says why."""


class FailedError(LeftOutError):
    """A run was tried and has no time."""


class OverError(Exception):
    """The time is up."""


class Programs:
    """The workloads of bench/gpu/workloads on this machine's GPU; tiny: on the CPU, to try them."""

    def __init__(self, tiny: bool = False) -> None:
        self.tiny = tiny
        self.patience = float(SECONDS)
        self._of_ulms: dict[str, int] = {}

    def names(self) -> list[str]:
        """The programs."""
        return list(workloads.names())

    def workloads(self) -> dict[str, str]:
        """Their names, and what each is."""
        return workloads.names()

    def machine(self, systems: Sequence[str]) -> dict[str, str]:
        """This one, and how fast its link is; if a system has some, what calls on managed memory
        take, and who offloads weights.
        """
        managed = self.managed if any(map(is_managed, systems)) else {}
        offloaded = {"offload": offload.way()} if "offload" in systems else {}
        return machine.describe() | self.link | managed | offloaded

    @cached_property
    def link(self) -> dict[str, str]:
        """How fast it is: measured once."""
        return {} if self.tiny else link.described()

    @cached_property
    def managed(self) -> dict[str, str]:
        """What calls on managed memory take: measured once."""
        return {} if self.tiny else calls.described(BUILT)

    def rows(self, asked: Asked) -> list[Row]:
        """What was known, and every run that was tried; the others are told on standard error.
        Raises UsageError.
        """
        if not self.tiny:  # that runs on the CPU
            refuse_without_gpu()
        refuse_without_torch(asked.names)
        end = time.monotonic() + asked.seconds if asked.seconds else math.inf
        self.patience = asked.patience or SECONDS
        rows = {row.run: row for row in asked.known}
        wanted = {name: wanted_of(name, asked) for name in asked.names}
        needs = {
            row.workload: Needs(row.footprint_bytes, row.beside_bytes)
            for row in [*asked.elsewhere, *asked.known]
        }
        again = asked.rounds - 1
        left = sum(len(runs) + again * len(varying(runs)) for runs in wanted.values())
        with progress_bar(sys.stderr, asked.quiet) as bar:
            task = bar.add_task("", total=left)
            try:
                for name, runs in wanted.items():
                    before = [row for row in asked.known if row.workload == name]
                    batch = Batch(name, runs, before, needs.get(name))
                    for told, row in self.rounds(asked.rounds, batch, end):
                        left -= 1
                        bar.update(task, advance=1, description=told)
                        if row:
                            rows[row.run] = row
                            asked.keep([*rows.values()])
                        if not row or row.failed or (bar.disable and not asked.quiet):
                            tell(told)
            except OverError:
                tell(f"stopped after {asked.seconds:.0f} s, {left} runs left: --resume goes on")
        return [*rows.values()]

    def rounds(self, count: int, batch: Batch, end: float) -> Iterator[tuple[str, Row | None]]:
        """What came of each run so many times, in turn: a row is of all its processes up to then.
        Like `each` otherwise. Raises OverError.
        """
        found: dict[tuple[str, float], list[Row]] = {}
        for _ in range(count):
            needs = batch.needs
            for told, row in self.each(batch, end):
                if row:
                    same = found.setdefault((row.system, row.oversubscription), [])
                    same.append(row)
                    row, needs = pooled(same), Needs(row.footprint_bytes, row.beside_bytes)
                yield told, row
            runs = [run for run in varying(found) if not pooled(found[run]).failed]
            batch = batch._replace(runs=runs, needs=needs)

    def each(self, batch: Batch, end: float) -> Iterator[tuple[str, Row | None]]:
        """What came of each run, in words and as a row. Raises OverError."""
        name, runs, before, needs = batch
        native: Report | None = None
        done = list(before)
        for i, (system, over) in enumerate(runs):
            try:
                row = known_from(done, system, over)
                if not row:
                    native = native or self.run(name, "native", environment("native", None), end)
                    needs = needs or self.needs(name, native, end)
                    row = self.row(name, system, over, native, needs, end)
                    done.append(row)
                yield f"{name} {system} {over:g}: {row.failed or f'{row.ms:.1f} ms'}", row
            except LeftOutError as error:
                yield f"{name} {system} {over:g}: {error}", None
                if not native:
                    for other, ratio in runs[i + 1 :]:
                        yield f"{name} {other} {ratio:g}: left out: native failed", None
                    return

    def needs(self, name: str, native: Report, end: float) -> Needs:
        """What a program takes. What a library takes for itself, as cuBLAS does, the framework does
        not count: the ledger does. Raises LeftOutError, OverError.
        """
        if self.tiny:
            return Needs(whole_pages(native.reserved), None)
        counted = self.run(name, "native", observed(), end)
        footprint = whole_pages(counted.charged or native.reserved)
        return Needs(footprint, None if counted.most is None else counted.most - footprint)

    def row(
        self, name: str, system: str, over: float, native: Report, needs: Needs, end: float
    ) -> Row:
        """A run beside the native one, or that it failed. Raises LeftOutError, OverError."""
        row = Row(
            workload=name,
            device="tiny" if self.tiny else GPU,
            system=system,
            oversubscription=over,
            capacity_bytes=capacity_at(needs.footprint, over),
            footprint_bytes=needs.footprint,
            beside_bytes=needs.beside,
            step_ms=[],
            native_ms=statistics.median(native.step_ms),
        )
        if system == "native":
            told, row = native, replace(row, capacity_bytes=needs.footprint)
        else:
            if obstacle := obstacle_of(name, system, needs.footprint):
                raise LeftOutError(f"left out: {obstacle}")
            budget = Budget(row.capacity_bytes, needs.footprint)
            try:
                told = self.run(name, system, environment(system, budget), end)
            except FailedError as error:
                return replace(row, failed=str(error))
        moved = told.a_step
        row = self.with_resident(row, told)
        return replace(
            row,
            step_ms=told.step_ms,
            bytes_in=sum_of(moved, COUNTERS_IN),
            bytes_out=sum_of(moved, COUNTERS_OUT),
            faults=sum_of(moved, ("faulted_bytes",), PAGE),
            gate_ms=sum_of(moved, ("held_ns",), 1e6),
            own_ms=sum_of(moved, COUNTERS_OWN, 1e6),
            counters={key: round(moved[key], 1) for key in EXPLAIN if key in moved},
            held=told.holds,
            numbers_equal=is_start_of(
                told.numbers, native.numbers, len(told.step_ms), native.tolerance
            ),
        )

    def with_resident(self, row: Row, told: Report) -> Row:
        """The row with NVML's peak, judged by the budget where ulms.so keeps it and NVML shows it.

        The driver keeps the frames of evicted managed pages until something needs them, and NVML
        counts them: such a row is judged by its bound (pump.bench.measured).
        What ulms.so takes is measured with a program that has nearly no data.
        """
        if told.most is None or row.beside_bytes is None:
            return row
        system = BY_NAME[row.system]
        data = told.most - row.beside_bytes
        if system.policy:
            row = replace(row, operation_bytes=told.largest)
            data -= self.of_ulms(row.system)
        if not system.policy or is_managed(row.system):
            return replace(row, resident_bytes=max(data, 0))
        return judged(row, data, told.largest)

    def of_ulms(self, system: str) -> int:
        """Bytes of the device that ulms.so takes for itself: contexts of its own threads. Measured
        once for each system.
        """
        if system not in self._of_ulms:
            budget = Budget(small.BYTES // 2, small.BYTES)
            alone = peak_of_small(environment("native", None))
            under = peak_of_small(environment(system, budget))
            self._of_ulms[system] = max(under - budget.capacity - (alone - small.BYTES), 0)
        return self._of_ulms[system]

    def run(self, name: str, system: str, env: dict[str, str], end: float) -> Report:
        """One process, to its end or that of the time. Raises FailedError, OverError."""
        warm = warm_steps(name, system)
        command = [sys.executable, "-m", "bench.gpu.workloads", name, str(warm), str(TIMED)]
        if system in workloads.VARIANTS:
            command += ["--variant", system]
        if self.tiny:
            command += ["--tiny", "--device", "cpu"]
        remaining = end - time.monotonic()
        if remaining <= 0:
            raise OverError
        watch = None if self.tiny else watcher(env)
        try:
            with watch or nullcontext():
                done = subprocess.run(
                    command,
                    cwd=ROOT,
                    env=env,
                    capture_output=True,
                    text=True,
                    timeout=min(self.patience, remaining),
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            if remaining < self.patience:
                raise OverError from None
            said = reason_in((error.stderr or b"").decode(errors="replace"))
            raise FailedError(f"not done after {self.patience:g} s: {said}") from None
        told = report_of(done.stdout)
        if done.returncode or told is None:
            said = reason_in(done.stderr)
            raise FailedError(f"failed with status {done.returncode}: {said}")
        return replace(told, most=watch.take_peak() - watch.before) if watch else told


def watcher(env: Mapping[str, str]) -> Sampler | None:
    """Of the device that a process will use; None: NVML does not tell."""
    try:
        return Sampler(Nvml(seen_by_cuda(env)))
    except NoNvmlError:
        return None


def peak_of_small(env: Mapping[str, str]) -> int:
    """Bytes of the device that a program with nearly no data has in use at most. Raises
    LeftOutError where it fails.
    """
    watch = watcher(env)
    if not watch:
        return 0
    command = [sys.executable, "-P", "-m", "bench.gpu.small"]
    with watch:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise LeftOutError(f"what ulms.so takes could not be measured: {reason_in(done.stderr)}")
    return watch.take_peak() - watch.before


def whole_pages(count: int) -> int:
    """Bytes."""
    return -(-count // PAGE) * PAGE


def refuse_without_gpu() -> None:
    """Or where it is not safe. Raises UsageError."""
    if not machine.has_gpu():
        raise UsageError("there is no GPU here: nvidia-smi names none (--tiny needs none)")
    if why := machine.unsafe():
        raise UsageError(why)


def refuse_without_torch(names: Iterable[str]) -> None:
    """Raises UsageError where programs need it and it is not there, as each of them would say."""
    in_need = [name for name in names if workloads.framework_of(name) == "torch"]
    if in_need and find_spec("torch") is None:
        raise UsageError(f"{in_need[0]} needs PyTorch: pip install torch")


def warm_steps(name: str, system: str) -> int:
    """How many steps of a workload run before those that count; the native ones are at least as
    many, as they tell what the numbers are.
    """
    if system != "native" and BY_NAME[system].policy != LEARNS:
        return WARM_UNLEARNT
    return WARM_ONCE if name in workloads.ONCE else WARM


def tell(line: str) -> None:
    """To a person, beside the progress."""
    print(line, file=sys.stderr, flush=True)


def is_managed(system: str) -> bool:
    """It gives programs managed memory."""
    return BY_NAME[system].link == UM.name


def obstacle_of(name: str, system: str, footprint: int) -> str | None:
    """Why a system cannot run a workload; None: it can."""
    if system in workloads.VARIANTS and system not in workloads.variants(name):
        return "that cannot be done to this program"
    if is_managed(system) and footprint > LIMIT * MANAGED_SHARE:
        return f"it needs {footprint >> 20} MiB, too near to the limit of managed memory"
    return None
