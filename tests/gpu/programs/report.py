"""What every program prints last: one line of JSON with its numbers and its step times."""

import json
import time
from collections.abc import Callable


def run_steps(
    step: Callable[[], object], wait: Callable[[], object], warm: int, timed: int
) -> list[float]:
    """Milliseconds of each timed step, the device waited for at the end of each."""
    for _ in range(warm):
        step()
    wait()
    times = []
    for _ in range(timed):
        start = time.perf_counter()
        step()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def report(numbers: list[float], step_ms: list[float], **more: object) -> None:
    """Prints the line. `numbers` as hexadecimal, so that equal means equal to the last bit."""
    line = {"numbers": [float(n).hex() for n in numbers], "step_ms": step_ms, **more}
    print("REPORT " + json.dumps(line), flush=True)
