"""What every program prints last: one line of JSON with its numbers and its step times."""

import json
import os
import sys
import time
from collections.abc import Callable

from told import charged, counter, held

COUNTERS = [name for name in os.environ.get("REPORT_COUNTERS", "").split(",") if name]
"""Counters of ulms.so, by name: before the timed steps, and their growth over these."""

PACED = bool(os.environ.get("REPORT_PACED"))
"""Steps run when standard input asks for them, so that processes can take turns."""

HELD_MOST = 12
"""Kernels or calls that are told, of those that were held."""

_before: dict[str, int] = {}
_grown: dict[str, int] = {}
_held: dict[str, tuple[int, int]] = {}


def _counters() -> dict[str, int]:
    """The counters now; none without ulms.so."""
    values = {name: counter(name) for name in COUNTERS}
    return {name: value for name, value in values.items() if value is not None}


def _mark() -> None:
    """Timed steps begin."""
    _before.update(_counters())
    _held.update(held())


def _grow() -> None:
    """They have ended."""
    _grown.update({name: now - _before[name] for name, now in _counters().items()})
    for name, (ns, missing) in held().items():
        before = _held.get(name, (0, 0))
        _held[name] = ns - before[0], missing - before[1]


def _timed(step: Callable[[], object], wait: Callable[[], object], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def _paced(step: Callable[[], object], wait: Callable[[], object]) -> list[float]:
    """For each line of standard input, a number of steps, prints a line with the block's times."""
    times = []
    for line in sys.stdin:
        block = _timed(step, wait, int(line))
        print("BLOCK " + json.dumps(block), flush=True)
        times += block
    return times


def run_steps(
    step: Callable[[], object], wait: Callable[[], object], warm: int, timed: int
) -> list[float]:
    """Milliseconds of each timed step, the device waited for at the end of each.

    When PACED, standard input says how many in place of `timed`, and its end ends them.
    """
    for _ in range(warm):
        step()
    wait()
    _mark()
    times = _paced(step, wait) if PACED else _timed(step, wait, timed)
    _grow()
    return times


def report(numbers: list[float], step_ms: list[float], **more: object) -> None:
    """Prints the line. `numbers` as hexadecimal, so that equal means equal to the last bit."""
    line = {
        "numbers": [float(n).hex() for n in numbers],
        "step_ms": step_ms,
        "counters": _grown,
        "counters_before": _before,
        "charged": charged(),
        "held": dict(sorted(_held.items(), key=lambda each: -each[1][0])[:HELD_MOST]),
        **more,
    }
    print("REPORT " + json.dumps(line), flush=True)
