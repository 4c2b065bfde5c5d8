"""Backend `vmm`, where the driver refuses each of its calls at every step, once or from then on.

What a program computes is what it computes without `ulms.so`; or it hears of no memory, where the
driver goes on refusing.
"""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import Compile, RunEmulated
from tests.emu.test_hidden import VERIFY, VIOLATION
from tests.random_programs import driver_functions

pytestmark = pytest.mark.emu

PROGRAMS = {
    "train": ("2", "2", "2"),  # blocks of a framework that come and go
    "churn": ("3", "2", "2"),  # frees in stream order
    "graph": ("3", "2", "2"),
}
"""Shapes of steps.c: layers, MiB of each buffer, steps."""
SETTINGS = {
    "ULMS_BACKEND": "vmm",
    "ULMS_GPU_MEMORY": "6MiB",
    "ULMS_GPU_MEMORY_FACTOR": "100",
    "ULMS_MANAGED_LIMIT": "1GiB",
}
MAPS = ("cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemCreate")
"""Functions of which every other call fails, one in each run: where a page is mapped, the first of
two calls or the second."""
MOVES = {*MAPS} | {"cuMemAddressReserve", "cuMemcpyAsync", "cuStreamSynchronize"}
LOOKS = {"cuMemcpyDtoHAsync", "cuStreamSynchronize"}
"""What looking at a page needs."""
WHOLE = "train"
"""The shape in which each of them does; `make soak` draws others without end."""
POINTS, OTHER_POINTS = 3, 2
"""So many of the calls to a function that moves need, or to another, fail, one in each run."""
ASKED_ONCE = "cuDeviceGetAttribute"
"""Where it fails once, the device is left alone from then on."""
WATCHDOG_S = 90
WORKERS = 2


@dataclass(frozen=True)
class Result:
    """How a run ended, what was computed, and how often which calls of ours were made."""

    status: int
    computed: list[str]
    calls: dict[str, int]
    stderr: str


class Survival(NamedTuple):
    """Whether the failure was met, and the program right: else it was refused memory."""

    met: bool
    right: bool


class Program:
    """A shape of steps.c, and what it computes natively."""

    def __init__(
        self, binary: Path, shape: str, run: RunEmulated, settings: Mapping[str, str] = SETTINGS
    ) -> None:
        self.shape = shape
        self.command = [binary, shape, *PROGRAMS[shape]]
        self.run_emulated = run
        self.settings = settings
        self.native = self.run({}, preloaded=False)
        assert self.native.status == 0

    def run(self, env: dict[str, str], *names: str, preloaded: bool = True) -> Result:
        command = [*self.command, *names]
        done = self.run_emulated(command, env, preloaded=preloaded, timeout=WATCHDOG_S)
        lines = [line.split() for line in done.stdout.splitlines()]
        calls = {words[1]: int(words[2]) for words in lines if words[0] == "driver"}
        computed = sorted(" ".join(w) for w in lines if w[0] not in ("driver", "counter"))
        return Result(done.returncode, computed, calls, done.stderr)

    def own_calls(self) -> dict[str, int]:
        """The driver functions that ulms.so calls by itself, and how often."""
        found = self.run({**self.settings}, *driver_functions())
        assert (found.status, found.computed) == (0, self.native.computed), found.stderr
        return {name: n for name, n in found.calls.items() if n and name != "failed"}

    def survives(self, name: str, after: int, sticky: str) -> Survival:
        """Fails unless the program did what it may."""
        fail = f"{name}:after={after}{sticky}"
        found = self.run({**self.settings, "EMU_FAIL": fail})
        right = (found.status, found.computed) == (0, self.native.computed)
        said = [line for line in found.stderr.splitlines() if not line.startswith("[ulms]")]
        refused = found.status == 1 and said[-1:] != [] and said[-1].endswith(": error 2")
        may_refuse = sticky or name == ASKED_ONCE
        assert right or (refused and may_refuse), f"EMU_FAIL={fail}: {found}"
        assert VIOLATION not in found.stderr, f"EMU_FAIL={fail}: {found}"
        return Survival(found.calls.get("failed", 1) > 0, right)


def steps(shape: str, name: str, calls: int, sticky: str) -> Iterable[int]:
    """Which of its calls fail: every other, or evenly spread, with the first and the last."""
    if name in MAPS and shape == WHOLE and not sticky:
        return range(MAPS.index(name) % 2, calls, 2)
    points = POINTS if name in MOVES else OTHER_POINTS if shape == WHOLE else 1
    return sorted({i * (calls - 1) // max(points - 1, 1) for i in range(points)})


def met_failures(program: Program, calls: Mapping[str, int], sticky: str) -> set[str]:
    """The functions of which a call failed, in a run each; pre: the program survives all."""
    failures = [
        (name, after)
        for name, n in calls.items()
        for after in steps(program.shape, name, n, sticky)
    ]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda f: program.survives(f[0], f[1], sticky), failures))
    assert 2 * sum(s.right for s in found) >= len(found)
    return {name for (name, _), s in zip(failures, found, strict=True) if s.met}


@pytest.mark.parametrize("sticky", ["", ":sticky"])
@pytest.mark.parametrize("shape", PROGRAMS)
def test_a_call_of_ours_fails_at_every_step(
    shape: str, sticky: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    binary = compiled("steps", str(emulator_dir / "libcuda.so.1"))
    program = Program(binary, shape, run_emulated)
    calls = program.own_calls()
    assert set(calls) >= MOVES
    assert met_failures(program, calls, sticky) >= MOVES


@pytest.mark.parametrize("sticky", ["", ":sticky"])
@pytest.mark.parametrize("shape", PROGRAMS)
def test_a_page_cannot_be_looked_at(
    shape: str, sticky: str, compiled: Compile, run_emulated: RunEmulated, emulator_dir: Path
) -> None:
    """Nothing is told of a page that was not read, and nothing is lost."""
    binary = compiled("steps", str(emulator_dir / "libcuda.so.1"))
    program = Program(binary, shape, run_emulated, {**SETTINGS, **VERIFY})
    calls = program.own_calls()
    assert met_failures(program, {name: calls[name] for name in LOOKS}, sticky) == LOOKS
