"""Workloads on a device for pump-bench: every system is a process of its own under a budget.

The pressure is ULMS_GPU_MEMORY, a software budget; the card itself is never filled. Nothing starts
without ULMS_MANAGED_LIMIT, and no workload that needs more than it is run on managed memory.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.gpu import workloads
from pump.bench.machine import LIMIT, refuse_unless_safe
from pump.bench.row import Row
from pump.bench.systems import BY_NAME, GPU
from pump.cli.command import UsageError
from pump.cli.render import progress_bar
from pump.paths import library

ROOT = Path(__file__).resolve().parents[2]
WARM, TIMED = 4, 5
SECONDS = 900
PAGE = 2 << 20
MANAGED_SHARE = 15 / 16  # of the limit on managed memory that a workload may need
COUNTERS = ("filled_bytes", "evicted_bytes", "faulted_bytes", "held_ns")


@dataclass(frozen=True)
class Told:
    """What a process reported. Times in milliseconds; counters grew over the timed steps."""

    numbers: list[str]
    step_ms: list[float]
    reserved: int  # bytes the framework held at most
    counters: dict[str, int]


class Programs:
    """The workloads of bench/gpu/workloads on this machine's GPU."""

    def __init__(self, device: str) -> None:
        if device != GPU:
            raise UsageError(f"no workload runs on the {device} yet: pump-bench run --device sim")

    def workloads(self) -> dict[str, str]:
        """Their names, and what each is."""
        return workloads.names()

    def rows(
        self, names: Sequence[str], systems: Sequence[str], ratios: Sequence[float], quiet: bool
    ) -> list[Row]:
        """Every run that succeeded; the others are told on standard error."""
        refuse_unless_safe()
        rows: list[Row] = []
        for name in names:
            with progress_bar(sys.stderr, quiet) as bar:
                task = bar.add_task(name, total=1 + len(systems) * len(ratios))
                native = run(name, "native", None)
                if native is None:
                    continue
                for system in systems:
                    for over in ratios if system != "native" else ratios[:1]:
                        bar.update(task, advance=1, description=f"{name} {over:g}: {system}")
                        row = row_of(name, system, over, native)
                        rows += [row] if row else []
        return rows


def row_of(name: str, system: str, over: float, native: Told) -> Row | None:
    """A run beside the native one; None where it cannot be made."""
    footprint = -(-native.reserved // PAGE) * PAGE
    capacity = int(footprint / over) // PAGE * PAGE
    if system == "native":
        told, over, capacity = native, 1.0, footprint
    else:
        if obstacle := obstacle_of(system, footprint):
            print(f"{name} {system}: left out: {obstacle}", file=sys.stderr)
            return None
        found = run(name, system, capacity)
        if found is None:
            return None
        told = found
    steps = len(told.step_ms)
    moved = {key: value / steps for key, value in told.counters.items()}
    known = bool(moved)
    return Row(
        workload=name,
        device=GPU,
        system=system,
        oversubscription=over,
        capacity_bytes=capacity,
        footprint_bytes=footprint,
        step_ms=told.step_ms,
        native_ms=statistics.median(native.step_ms),
        bytes_in=moved["filled_bytes"] + moved["faulted_bytes"] if known else None,
        bytes_out=moved["evicted_bytes"] if known else None,
        faults=moved["faulted_bytes"] / PAGE if known else None,
        gate_ms=moved["held_ns"] / 1e6 if known else None,
        numbers_equal=told.numbers == native.numbers,
    )


def obstacle_of(system: str, footprint: int) -> str | None:
    """Why a system cannot run a workload; None: it can."""
    if BY_NAME[system].link == "um" and footprint > LIMIT * MANAGED_SHARE:
        return f"it needs {footprint >> 20} MiB, too near to the limit of managed memory"
    return None


def run(name: str, system: str, budget: int | None) -> Told | None:
    """One process to its end; None where it failed, which is told on standard error."""
    command = [sys.executable, "-m", "bench.gpu.workloads", name, str(WARM), str(TIMED)]
    if system in workloads.VARIANTS:
        command += ["--variant", system]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(system, budget),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{name} {system}: not done after {SECONDS} s", file=sys.stderr)
        return None
    told = told_of(done.stdout)
    if done.returncode or told is None:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"{name} {system}: failed with status {done.returncode}: {last}", file=sys.stderr)
        return None
    return told


def environment(system: str, budget: int | None) -> dict[str, str]:
    """Of a process: plain, held to a budget, or under a backend with one."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    if budget is None:
        return env
    one = BY_NAME[system]
    env |= {
        "LD_PRELOAD": str(library()),
        "ULMS_BACKEND": one.link or "observe",
        "ULMS_GPU_MEMORY": str(budget),
        "REPORT_COUNTERS": ",".join(COUNTERS) if one.link else "",
    }
    if one.policy:
        env |= {"ULMS_POLICY": one.policy, "ULMS_GPU_MEMORY_FACTOR": "100"}
    return env


def told_of(output: str) -> Told | None:
    """The report in a program's output; None: there is none."""
    for line in output.splitlines():
        if line.startswith("REPORT "):
            told = json.loads(line.removeprefix("REPORT "))
            counters = {key: int(value) for key, value in told.get("counters", {}).items()}
            return Told(told["numbers"], told["step_ms"], int(told["max_reserved"]), counters)
    return None
