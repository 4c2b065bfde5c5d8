"""A traced program's step as a sequence that virtual time can play."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli
from pump.bench.row import read_results
from pump.cli import main
from pump.sim.recorded import open_sequence
from pump.sim.sequence import Operation
from pump.trace import compress
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.emu

STEPS = 10
# tests/programs/train.c: what each step issues.
KERNELS = {"gemm": 12, "relu": 3, "relu_backward": 3, "adam": 1, "axpy": 1, "scale": 1}


@pytest.fixture(scope="module")
def trace(compiled: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a short training."""
    out = tmp_path_factory.mktemp("trace") / "train.ulms"
    program = str(compiled("train", "-ldl"))
    command = [sys.executable, "-m", "pump", "trace", "-o", str(out), "--emulator", "--"]
    subprocess.run(
        [*command, program, str(STEPS)], capture_output=True, timeout=PATIENCE_S, check=True
    )
    return out


def test_the_step_is_found(trace: Path) -> None:
    sequence = open_sequence(trace)
    (step,) = sequence.steps
    operations = [event for event in step if isinstance(event, Operation)]
    counts = Counter(sequence.names[operation.key] for operation in operations)
    assert {name: counts[name] for name in KERNELS} == KERNELS
    assert all(operation.duration_ns > 0 for operation in operations)
    blocks = sequence.blocks()
    for operation in operations:
        for touch in operation.touches:
            assert any(b.start <= touch.start < b.start + b.bytes for b in blocks)


def test_it_can_be_planned(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(trace), "--memory", "1GiB"]) == 0
    assert "It fits" in capsys.readouterr().out


def test_a_compressed_trace_in_the_folder_is_a_workload(
    trace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, out = tmp_path / "bench" / "traces", tmp_path / "a.json"
    folder.mkdir(parents=True)
    compress(trace, folder / "new-one.ulms.gz")
    monkeypatch.setattr(paths, "checkout", lambda: tmp_path)
    assert cli.main(["list", "--device", "sim"]) == 0
    assert "new-one" in capsys.readouterr().out
    words = ["run", "--device", "sim", "--oversubscription", "1", "--json", str(out)]
    assert cli.main([*words, "--system", "um", "--system", "oracle"]) == 0
    um, oracle = read_results(out).rows
    assert (um.workload, um.system, oracle.system) == ("new-one", "um", "oracle")
    assert um.ms >= oracle.ms == um.oracle_ms
    assert um.bound_ms is None or um.bound_ms == pytest.approx(oracle.ms)
