"""What a step takes where everything fits, from a trace that was taken while pages moved."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from pump.cli import main
from pump.sim.recorded import sequence_of
from pump.sim.sequence import Operation, Sequence
from pump.trace import MoveKind, Trace, read
from tests.conftest import ROOT, RunEmulated

sys.path.insert(0, str(ROOT))

from bench.emulator.run import build

pytestmark = [pytest.mark.emu, pytest.mark.alone]

SHAPE = ("infer", "8", "16", "0", "4")
"""128 MiB are read, of which most is used in place at last: that takes 40 times as long."""
BUDGET = {"ULMS_GPU_MEMORY": "64MiB", "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_PAGE": "2MiB"}
STRETCH = "100"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def traced(program: Path, run_emulated: RunEmulated) -> dict[str, Path]:
    """Traces of a run that fits, and with half of the memory."""

    def trace(backend: str, limits: dict[str, str]) -> Path:
        file = program.with_name(f"{backend}.ulms")
        env = {"ULMS_BACKEND": backend, "ULMS_TRACE": str(file), "EMU_TIME": STRETCH}
        done = run_emulated([program, *SHAPE], env | limits)
        assert done.returncode == 0, done.stderr
        return file

    with ThreadPoolExecutor() as pool:  # they sleep
        limited = {backend: pool.submit(trace, backend, BUDGET) for backend in ("um", "vmm")}
        return {"observe": trace("observe", {})} | {
            backend: file.result() for backend, file in limited.items()
        }


def shortest(sequence: Sequence) -> int:
    """Nanoseconds of a step, each operation the shortest of all steps: this machine makes some
    longer.
    """
    steps = [
        [one.duration_ns for one in step if isinstance(one, Operation)] for step in sequence.steps
    ]
    return sum(map(min, zip(*steps, strict=True)))


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_step_that_fits_is_told_of_one_that_does_not(
    traced: dict[str, Path], backend: str
) -> None:
    fits = shortest(sequence_of(read(traced["observe"]), every=True))
    trace = read(traced[backend])
    step = sequence_of(trace)
    assert len(trace.moves)
    assert step.native_ns() == pytest.approx(fits, rel=0.2)
    assert trace.retirements["ns"].sum() > 1.2 * step.seen * fits  # that is not told
    assert step.traced_ns == 0
    assert "pages moved meanwhile" in step.notes[-1]


def gone(trace: Trace) -> Trace:
    """The same, if all memory had left before it ran."""
    moves = trace.moves[:1].copy()
    given = trace.allocations
    moves["kind"], moves["flags"], moves["begun_ns"] = MoveKind.EVICT, 0, 0
    moves["start"] = given["start"].min()
    moves["bytes"] = (given["start"] + given["bytes"]).max() - moves["start"]
    return replace(trace, moves=moves)


def test_nothing_is_told_of_operations_that_never_had_all_their_pages(
    traced: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = gone(read(traced["vmm"]))
    step = sequence_of(trace)
    assert step.untold_ns == step.native_ns()
    monkeypatch.setattr("pump.sim.recorded.read", lambda path: trace)
    assert main(["plan", str(traced["vmm"]), "--memory", "64MiB"]) == 2
    told = capsys.readouterr()
    assert "100% of its time is of operations that never ran with all their pages" in told.err
    assert "Use" not in told.out
