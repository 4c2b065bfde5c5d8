"""How much of a device is really in use, as NVML tells it to a process of its own.

A measured program cannot be asked: `ulms.so` answers it with what the program may see. NVML counts
what all processes hold, so a figure is the growth since before the program started.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType

from pump.bench.row import Row
from pump.nvml import NoNvmlError, Nvml

BESIDE = 64 << 20
"""Bytes that may be resident beyond the budget, an operation and what else is counted: page tables,
and what the driver rounds up. On an H100 NVML counts in pieces of 2 MiB.
"""
SAMPLED_S = 0.002
"""Between two looks."""


def seen_by_cuda(variables: Mapping[str, str]) -> int | str:
    """The device that a program with this environment has first."""
    first = variables.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() else first or 0


class Sampler:
    """Looks every few milliseconds, on a thread of its own, from entry to exit."""

    def __init__(self, nvml: Nvml) -> None:
        """Begins at the memory that is in use now. Raises NoNvmlError."""
        self._nvml = nvml
        self.before = nvml.used()
        """Bytes in use when it was made."""
        self._most = self.before
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            self.look()
            time.sleep(SAMPLED_S)

    def look(self) -> int:
        """Bytes in use now."""
        try:
            used = self._nvml.used()
        except NoNvmlError:
            return 0
        with self._lock:
            self._most = max(self._most, used)
        return used

    def take_peak(self) -> int:
        """The most bytes that were in use since the last call, or since it was made."""
        now = self.look()
        with self._lock:
            most, self._most = self._most, now
        return most


def judged(row: Row, resident: int, operation: int, beside: int = BESIDE) -> Row:
    """The row of a system that holds a program to its budget, given the most that was resident of
    the program's data and the most that an operation of it touches.

    An operation may need more than the budget, and what it needs must be there while it runs.
    """
    allowed = row.capacity_bytes + operation + beside
    return replace(
        row,
        resident_bytes=max(resident, 0),
        operation_bytes=operation,
        over_budget=resident > allowed,
    )
