"""What the process of a workload reported, or why it reported nothing."""

import json
import re
from dataclasses import dataclass

from bench.gpu.counters import LARGEST

OURS, RAISED = re.compile(r"\[ulms\] (WARN|ERROR):"), re.compile(r"[\w.]*(Error|Exception)\b")


@dataclass(frozen=True)
class Report:
    """What a process reported. Times in milliseconds; counters grew over the timed steps."""

    numbers: list[str]
    step_ms: list[float]
    reserved: int  # bytes the framework held at most
    held: int  # bytes of the device that the program held in the end; 0: nobody counted
    counters: dict[str, int]
    largest: int = 0  # bytes that an operation touched at most; 0: not known, or nothing moved
    most: int | None = None  # bytes of the device in use at a time; None: NVML was not there

    @property
    def a_step(self) -> dict[str, float]:
        """The counters of one."""
        return {key: value / len(self.step_ms) for key, value in self.counters.items()}


def report_of(output: str) -> Report | None:
    """The report in a program's output; None: there is none."""
    for line in output.splitlines():
        if line.startswith("REPORT "):
            told = json.loads(line.removeprefix("REPORT "))
            counters = {key: int(value) for key, value in told.get("counters", {}).items()}
            reserved, held = int(told["max_reserved"]), int(told.get("held", 0))
            before = told.get("counters_before", {})
            largest = int(before.get(LARGEST, 0)) + counters.get(LARGEST, 0)
            return Report(told["numbers"], told["step_ms"], reserved, held, counters, largest)
    return None


def reason_in(said: str) -> str:
    """The last of our warnings and the exception, or the last line, of a failed process."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if OURS.match(line)]
    others = [line for line in lines if not line.startswith("[ulms]")]
    raised = [line for line in others if RAISED.match(line)] or others
    return "; ".join([*ours[-3:], *raised[-1:]]) or "no output"
