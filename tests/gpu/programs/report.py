"""What every program prints last: one line of JSON with its numbers and its step times."""

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable

COUNTERS = [name for name in os.environ.get("REPORT_COUNTERS", "").split(",") if name]
"""Counters of ulms.so, by name: before the timed steps, and their growth over these."""

PACED = bool(os.environ.get("REPORT_PACED"))
"""Steps run when standard input asks for them, so that processes can take turns."""

_before: dict[str, int] = {}
_grown: dict[str, int] = {}


def _counters() -> dict[str, int]:
    """The counters now; none without ulms.so."""
    read = getattr(ctypes.CDLL(None), "ulms_counter", None)
    if read is None:
        return {}
    read.restype = ctypes.c_uint64
    return {name: int(read(name.encode())) for name in COUNTERS}


class _Allocation(ctypes.Structure):
    """struct ulms_allocation of csrc/ulms.h."""

    _fields_ = (
        ("start", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("charged", ctypes.c_uint64),
        ("device", ctypes.c_int32),
        ("kind", ctypes.c_uint32),
    )


def _held() -> int:
    """Bytes of the devices that the program holds now, whoever took them; 0 without ulms.so."""
    read = getattr(ctypes.CDLL(None), "ulms_allocations", None)
    if read is None:
        return 0
    read.restype = ctypes.c_size_t
    found = (_Allocation * 65536)()
    count = read(found, ctypes.c_size_t(len(found)))
    return sum(each.charged for each in found[:count] if each.device >= 0)


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
    _before.update(_counters())
    times = _paced(step, wait) if PACED else _timed(step, wait, timed)
    _grown.update({name: now - _before[name] for name, now in _counters().items()})
    return times


def report(numbers: list[float], step_ms: list[float], **more: object) -> None:
    """Prints the line. `numbers` as hexadecimal, so that equal means equal to the last bit."""
    line = {
        "numbers": [float(n).hex() for n in numbers],
        "step_ms": step_ms,
        "counters": _grown,
        "counters_before": _before,
        "held": _held(),
        **more,
    }
    print("REPORT " + json.dumps(line), flush=True)
