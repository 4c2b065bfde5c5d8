"""How much of the device a measured process may use, and the environment that holds it to that."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bench.gpu.counters import asked_for
from pump import frameworks
from pump.paths import library
from pump.predict.plan import default_factor
from pump.predict.systems import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
PAGE = 2 << 20
VMM_ROOM = 2
"""Times its footprint: what `vmm` may provide to a program, and pin on the host."""


class Budget(NamedTuple):
    """Bytes that may be on the device at a time, and bytes that the program needs in all."""

    capacity: int
    footprint: int


def capacity_at(footprint: int, over: float) -> int:
    """Bytes, whole pages."""
    return int(footprint / over) // PAGE * PAGE


def memory_at(capacity: int) -> dict[str, str]:
    """Pages may have the capacity, in bytes, and as much is left beside them as by default."""
    factor = default_factor()
    memory = -(-capacity * 100 // factor)
    return {"ULMS_GPU_MEMORY": str(memory), "ULMS_GPU_MEMORY_FACTOR": str(factor)}


def observed() -> dict[str, str]:
    """Of a process whose memory is counted: frameworks allocate as where memory is short."""
    env = _observed()
    return env | _of_frameworks(env)


def environment(system: str, budget: Budget | None) -> dict[str, str]:
    """Of a process: plain, held to a budget, or under a backend with one, as by `pump run`."""
    if budget is None:
        return {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    one, env = BY_NAME[system], _observed()
    env["ULMS_GPU_MEMORY"] = str(budget.capacity)
    env |= asked_for() if one.link else asked_for(())
    env |= one.env
    if one.policy:
        env |= {"ULMS_POLICY": one.policy} | memory_at(budget.capacity)
    if one.in_place:  # its counters are of whole pages: they say too much where most is small
        env |= asked_for(("held_ns",))
    if env["ULMS_BACKEND"] == "vmm":  # pinned, not managed: that guard would refuse memory
        env["ULMS_MANAGED_LIMIT"] = str(budget.footprint * VMM_ROOM)
    return env | _of_frameworks(env) if frameworks.is_short({}, env) else env


def _observed() -> dict[str, str]:
    return environment("native", None) | {
        "LD_PRELOAD": str(library()),
        "ULMS_BACKEND": "observe",
    }


def _of_frameworks(env: Mapping[str, str]) -> dict[str, str]:
    """What `pump run` adds to it."""
    return frameworks.chosen([sys.executable], {}, env)
