"""Step times under `um` on the emulated device, whose moves, faults and kernels take modelled time.

`um_speed.c` needs more memory than `ULMS_GPU_MEMORY` lets it use. Its kernels compute samples and
`EMU_TIME` stretches the modelled times, so that sleeping, not this machine, decides: what the
machine is busy with can only make a step longer, and the shortest one counts.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT, Compile, RunEmulated
from tests.emu.test_cublas_calls import PROGRAMS, build_library

pytestmark = [pytest.mark.emu, pytest.mark.alone]

MIB = 1 << 20
STRETCH = {"none": 20, "pump": 20, "ahead": 80}
"""Times an H200's. What threads of ours decide is slower than a GPU's on a small machine: a move
takes 30 to 80 ms then, and their wake-ups little of that."""
SHAPES = {"train": (8, 16, 16), "infer": (32, 16, 0)}
"""Layers, and MiB of the weights and of the activations of each."""
WARM = {"none": 1, "pump": 1, "ahead": 2}
STEPS = {"none": 3, "pump": 3, "ahead": 8}
"""Steps until the time of a step repeats itself (`ahead` learns), and in all."""
ATTEMPTS = 3
WATCHDOG_S = 50


@dataclass(frozen=True)
class Run:
    """What a run printed: milliseconds of each step, bytes allocated, its result, the counters."""

    steps: list[float]
    footprint: int
    result: str
    counters: dict[str, int]


class Programs:
    """Runs um_speed on the emulated device."""

    def __init__(self, binary: Path, run: RunEmulated) -> None:
        self.binary = binary
        self.run_emulated = run

    def run(self, shape: str, steps: int, env: dict[str, str] | None = None) -> Run:
        """One run; native and without modelled time when there is no `env`."""
        command = [str(word) for word in (self.binary, shape, *SHAPES[shape], steps)]
        done = self.run_emulated(command, env, preloaded=env is not None, timeout=WATCHDOG_S)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        words = [line.split() for line in done.stdout.splitlines()]
        of = {word: [line[1] for line in words if line[0] == word] for word in ("step", "result")}
        counters = {line[1]: int(line[2]) for line in words if line[0] == "counter"}
        (footprint,) = (int(line[1]) for line in words if line[0] == "footprint")
        return Run([float(ms) for ms in of["step"]], footprint, of["result"][0], counters)

    def step_ms(self, shape: str, over: float, policy: str) -> float:
        """The shortest steady step, in modelled ms, with 1 / `over` of the memory it needs."""
        native = self.run(shape, STEPS[policy])
        run = self.run(
            shape,
            STEPS[policy],
            {
                "EMU_TIME": str(STRETCH[policy]),
                "ULMS_BACKEND": "um",
                "ULMS_POLICY": policy,
                "ULMS_GPU_MEMORY": f"{native.footprint / over / MIB:.0f}MiB",
                "ULMS_GPU_MEMORY_FACTOR": "100",
                "ULMS_MANAGED_LIMIT": "4GiB",
            },
        )
        assert run.result == native.result
        assert (run.counters["faulted_bytes"] > 0) == (policy == "none")
        assert (run.counters["filled_bytes"] > 0) == (policy != "none")
        assert run.counters["move_failures"] == 0
        return min(run.steps[WARM[policy] :]) / STRETCH[policy]


@pytest.fixture(scope="module")
def programs(
    compiled: Compile,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Programs:
    driver = str(emulator_dir / "libcuda.so.1")
    folder = tmp_path_factory.mktemp("blas")
    sources = [PROGRAMS / "um_speed_blas.c", ROOT / "emulator" / "library" / "cublas.c"]
    blas = build_library(folder, "libcublas.so.13", "libcublas.so.13", sources, driver)
    return Programs(compiled("um_speed", str(blas), driver, f"-Wl,-rpath,{folder}"), run_emulated)


@pytest.mark.parametrize("over", [1.5, 2])
@pytest.mark.parametrize("shape", SHAPES)
def test_step_times(programs: Programs, shape: str, over: float) -> None:
    """`ahead` is at least 3 times as fast as faults alone, and twice as fast as `pump`."""
    pump, none = (programs.step_ms(shape, over, policy) for policy in ("pump", "none"))
    ahead = math.inf
    for _ in range(ATTEMPTS):
        ahead = min(ahead, programs.step_ms(shape, over, "ahead"))
        print(f"{shape}, {over}: none {none:.1f} ms, pump {pump:.1f}, ahead {ahead:.1f}")
        if none >= 3 * ahead and pump >= 2 * ahead:
            return
    pytest.fail(f"ahead {ahead:.1f} ms, pump {pump:.1f}, none {none:.1f}")
