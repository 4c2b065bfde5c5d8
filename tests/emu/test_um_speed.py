"""Step times under `um` on the emulated device, whose moves, faults and kernels take modelled time.

`um_speed.c` needs more memory than `ULMS_GPU_MEMORY` lets it use. Its kernels compute samples and
`EMU_TIME` stretches the modelled times, so that sleeping, not this machine, decides: what the
machine is busy with can only make a step longer, and the shortest one counts. So a few programs run
beside one another, each once; one that is disturbed runs again, alone.
"""

import math
import re
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import ROOT, RunEmulated
from tests.emu.counters import counters_in

sys.path.insert(0, str(ROOT))

from bench.emulator.run import build

pytestmark = [pytest.mark.emu, pytest.mark.alone]

MIB = 1 << 20
PAGE = 2 * MIB
STRETCH = {"none": 20, "pump": 20, "ahead": 80}
"""Times an H200's. What threads of ours decide is slower than a GPU's on a small machine: a move
takes 30 to 80 ms then, and their wake-ups little of that."""
SHAPES = {"train": (8, 16, 16), "infer": (32, 16, 0)}
"""Layers, and MiB of the weights and of the activations of each."""
DECODED, SETTLED = 16, 3
"""Steps of a decoder, of which these are the last: by then both ways have been tried."""
WARM = {"none": 1, "pump": 1, "ahead": 2}
STEPS = {"none": 3, "pump": 3, "ahead": 8}
"""Steps until the time of a step repeats itself (`ahead` learns), and in all but a decoder's."""
FASTER = {"train": (3, 2), "infer": (6, 6)}
USELESS = 0.05
STRETCHED = (1, 2, 4)
"""What is disturbed is tried again, its times stretched more."""
STRETCH_IN_PLACE = 20
IN_PLACE_GBS = 51
"""What kernels read over the link, as in `emulator/cost.c`."""
WATCHDOG_S = 180
BESIDE = 4
"""Programs at a time: together they keep less than a processor busy."""
OVER = (1.5, 2)
BACKENDS = ("um", "vmm")
STEADY = 80 / 90
"""The share of a budget that is left at least, as moves go on while the driver is asked."""


class Step(NamedTuple):
    """Milliseconds, and the bytes that moved meanwhile and that kernels used on the host."""

    ms: float
    moved: int
    in_place: int


@dataclass(frozen=True)
class Run:
    """What a run printed: its steps, bytes allocated, its result, the counters."""

    steps: list[Step]
    footprint: int
    result: str
    counters: dict[str, int]


class Asked(NamedTuple):
    """A run with 1 / `over` of the memory that it needs."""

    shape: str
    steps: int
    over: float
    stretch: int
    env: tuple[tuple[str, str], ...]


def under(shape: str, over: float, policy: str) -> Asked:
    """Until steps under a policy are steady."""
    steps = DECODED if (shape, policy) == ("infer", "ahead") else STEPS[policy]
    env = (("ULMS_BACKEND", "um"), ("ULMS_POLICY", policy))
    return Asked(shape, steps, over, STRETCH[policy], env)


def decoder(backend: str, over: float, reads: int = 1) -> Asked:
    """Until a decoder whose kernels read their weights so often has tried both ways."""
    env = (("ULMS_BACKEND", backend), ("UM_SPEED_READS", str(reads)))
    return Asked("infer", DECODED, over, STRETCH_IN_PLACE, env)


ALL = [  # those that take long come first
    *(
        under(shape, over, policy)
        for policy in reversed(WARM)
        for shape in SHAPES
        for over in OVER[::-1]
    ),
    *(decoder(backend, 1.5, reads=8) for backend in BACKENDS),
    *(decoder(backend, over) for backend in BACKENDS for over in OVER),
]


@dataclass
class Programs:
    """Runs um_speed on the emulated device."""

    binary: Path
    run_emulated: RunEmulated
    run_native: RunEmulated
    first: dict[Asked, Future[Run]] = field(default_factory=dict)

    def run_all(self) -> None:
        """Everything for the first time."""
        with ThreadPoolExecutor(BESIDE) as pool:
            self.first = {asked: pool.submit(self.alone, asked) for asked in ALL}

    def over(self, asked: Asked, stretched: int = 1) -> Run:
        """The first run, or else another one, stretched more."""
        first = self.first.pop(asked, None)
        again = asked._replace(stretch=asked.stretch * stretched)
        return first.result() if first else self.alone(again)

    def run(self, shape: str, steps: int, env: dict[str, str] | None = None) -> Run:
        """One run; native and without modelled time when there is no `env`."""
        command = [str(word) for word in (self.binary, shape, *SHAPES[shape], steps)]
        if env is None:
            done = self.run_native(command)
        else:
            done = self.run_emulated(command, env, timeout=WATCHDOG_S)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        words = [line.split() for line in done.stdout.splitlines()]
        told = [Step(float(w[1]), int(w[2]), int(w[3])) for w in words if w[0] == "step"]
        (result,) = (line[1] for line in words if line[0] == "result")
        (footprint,) = (int(line[1]) for line in words if line[0] == "footprint")
        return Run(told, footprint, result, counters_in(done.stdout))

    def alone(self, asked: Asked) -> Run:
        """One run, which must compute what a native one does. Its milliseconds are modelled."""
        native = self.run(asked.shape, asked.steps)
        settings = {
            "EMU_TIME": str(asked.stretch),
            "ULMS_GPU_MEMORY": f"{native.footprint / asked.over / MIB:.0f}MiB",
            "ULMS_GPU_MEMORY_FACTOR": "100",
            "ULMS_MANAGED_LIMIT": "4GiB",
            **dict(asked.env),
        }
        run = self.run(asked.shape, asked.steps, settings)
        assert run.result == native.result
        assert run.counters["move_failures"] == 0
        return replace(run, steps=[step._replace(ms=step.ms / asked.stretch) for step in run.steps])

    def step_ms(self, shape: str, over: float, policy: str, stretched: int = 1) -> float:
        """The shortest steady step, in modelled ms, with 1 / `over` of the memory it needs.

        Of all bytes that `ahead` fills in the run, few leave again unused.
        """
        run = self.over(under(shape, over, policy), stretched)
        assert (run.counters["faulted_bytes"] > 0) == (policy == "none")
        filled = run.counters["filled_bytes"]
        assert (filled > 0) == (policy != "none")
        assert policy != "ahead" or run.counters["useless_bytes"] <= USELESS * filled
        return min(run.steps[WARM[policy] :]).ms


@pytest.fixture(scope="module")
def programs(
    run_emulated: RunEmulated,
    run_native: RunEmulated,
    tmp_path_factory: pytest.TempPathFactory,
) -> Programs:
    flags = ["-g", "-Wall", "-Wextra", "-Werror"]
    programs = Programs(
        build(tmp_path_factory.mktemp("um_speed"), *flags), run_emulated, run_native
    )
    programs.run_all()
    return programs


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("shape", SHAPES)
def test_step_times(programs: Programs, shape: str, over: float) -> None:
    """How many times as fast `ahead` is at least as faults alone, and as `pump`."""
    pump, none = (programs.step_ms(shape, over, policy) for policy in ("pump", "none"))
    ahead = math.inf
    for stretched in STRETCHED:
        ahead = min(ahead, programs.step_ms(shape, over, "ahead", stretched))
        print(f"{shape}, {over}: none {none:.1f} ms, pump {pump:.1f}, ahead {ahead:.1f}")
        if none >= FASTER[shape][0] * ahead and pump >= FASTER[shape][1] * ahead:
            return
    pytest.fail(f"ahead {ahead:.1f} ms, pump {pump:.1f}, none {none:.1f}")


def test_places_of_discarded_pages_are_room(programs: Programs) -> None:
    """The driver keeps them until it needs them: the device looks fuller each time it is asked."""
    env = {
        "ULMS_BACKEND": "um",
        "ULMS_LOG_LEVEL": "DEBUG",
        "EMU_TIME": "20",
        "EMU_MEMORY": "400MiB",
    }
    command = [str(word) for word in (programs.binary, "train", *SHAPES["train"], 12)]
    done = programs.run_emulated(command, env, timeout=WATCHDOG_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("result")] == [
        f"result {programs.run('train', 12).result}"
    ]
    assert counters_in(done.stdout)["dead_bytes"] > 1 << 30
    budgets = [int(mib) for mib in re.findall(r"device 0: budget (\d+) MiB", done.stderr)]
    assert min(budgets) >= budgets[0] * STEADY, budgets


@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_does_not_fit_is_read_in_place(programs: Programs, backend: str, over: float) -> None:
    """A step takes what reading the rest over the link takes.

    With `um` nothing moves any more; `vmm` may bring the rest as fast, and does so then.
    """
    layers, weight_mib, _ = SHAPES["infer"]
    for stretched in STRETCHED:
        run = programs.over(decoder(backend, over), stretched)
        small = run.footprint - layers * weight_mib * MIB
        plain = -(-small // PAGE) * PAGE  # it counts in whole pages
        room = (round(run.footprint / over / MIB) * MIB - plain) // PAGE * PAGE
        without_room = run.footprint - small - room
        assert run.counters["faulted_bytes"] == 0
        last = run.steps[-SETTLED:]
        ms = min(step.ms for step in last)
        print(f"{backend}, {over}: {ms:.2f} ms, {without_room / ms / 1e6:.1f} GB/s")
        in_place = {(step.moved, step.in_place) for step in last} == {(0, without_room)}
        brought = backend == "vmm" and all(step.in_place == 0 for step in last)
        if (in_place or brought) and ms < 1.1 * without_room / IN_PLACE_GBS / 1e6:
            return
    pytest.fail(f"{last}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_read_often_is_filled(programs: Programs, backend: str) -> None:
    """A kernel that reads its weights eight times over the link is slower than the fills."""
    for stretched in STRETCHED:
        run = programs.over(decoder(backend, 1.5, reads=8), stretched)
        assert run.counters["in_place_bytes"] > 0  # it was tried
        if all(step.in_place == 0 < step.moved for step in run.steps[-SETTLED:]):
            return
    pytest.fail(f"{run.steps}")
