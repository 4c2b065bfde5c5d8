"""What the process of a workload reported, or why it reported nothing."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.gpu.counters import LARGEST

OURS, RAISED = re.compile(r"\[ulms\] (WARN|ERROR):"), re.compile(r"[\w.]*(Error|Exception)\b")


@dataclass(frozen=True)
class Report:
    """What a process reported. Times in milliseconds; counters grew over the timed steps."""

    numbers: list[str]
    step_ms: list[float]
    reserved: int  # bytes the framework held at most
    charged: int  # bytes of the device that the program took at most; 0: nobody counted
    counters: dict[str, int]
    largest: int = 0  # bytes that an operation touched at most; 0: not known, or nothing moved
    held: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # ns, and bytes missing
    tolerance: float = 0.0  # its numbers differ by no more from run to run: of their size
    most: int | None = None  # bytes of the device in use at a time; None: NVML was not there

    @property
    def a_step(self) -> dict[str, float]:
        """The counters of one."""
        return {key: value / len(self.step_ms) for key, value in self.counters.items()}

    @property
    def holds(self) -> dict[str, list[float]]:
        """Milliseconds a step that kernels and calls were held, and MiB that they waited for."""
        steps = len(self.step_ms)
        return {
            name: [round(ns / steps / 1e6, 3), round(missing / steps / (1 << 20), 1)]
            for name, (ns, missing) in self.held.items()
            if ns
        }


def report_of(output: str) -> Report | None:
    """The report in a program's output; None: there is none."""
    for line in output.splitlines():
        if line.startswith("REPORT "):
            told = json.loads(line.removeprefix("REPORT "))
            counters = {key: int(value) for key, value in told.get("counters", {}).items()}
            reserved, charged = int(told["max_reserved"]), int(told.get("charged", 0))
            held = {name: (ns, missing) for name, (ns, missing) in told.get("held", {}).items()}
            before = told.get("counters_before", {})
            largest = int(before.get(LARGEST, 0)) + counters.get(LARGEST, 0)
            return Report(
                told["numbers"],
                told["step_ms"],
                reserved,
                charged,
                counters,
                largest,
                held,
                float(told.get("tolerance", 0)),
            )
    return None


def is_start_of(numbers: Sequence[str], longer: Sequence[str], least: int, apart: float) -> bool:
    """To the last bit, or apart by no more than that share; there are so many at least."""

    def like(one: str, other: str) -> bool:
        return one == other or math.isclose(
            float.fromhex(one), float.fromhex(other), rel_tol=apart, abs_tol=0.0
        )

    return least <= len(numbers) <= len(longer) and all(map(like, numbers, longer))


def reason_in(said: str) -> str:
    """The last of our warnings and the exception, or the last line, of a failed process."""
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    ours = [line for line in lines if OURS.match(line)]
    others = [line for line in lines if not line.startswith("[ulms]")]
    raised = [line for line in others if RAISED.match(line)] or others
    return "; ".join([*ours[-3:], *raised[-1:]]) or "no output"
