"""Observe mode under unmodified CUDA programs on a real GPU."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import programs
from pump.trace import OpFlag, OpKind, read

pytestmark = pytest.mark.gpu

GIB = 1 << 30
Tell = Callable[[str], None]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    programs.build(out)
    return out


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Prints past the capture: both counts are to be seen."""

    def say(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", flush=True)

    return say


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_same_numbers_and_every_kernel_seen(name: str, built: Path, tell: Tell) -> None:
    native = programs.run(name, built, observe=False, count=False, warm=2, timed=3)
    observed = programs.run(name, built, observe=True, count=True, warm=2, timed=3)
    tell(f"{name}: the profiler counted {observed.profiled} kernels, ulms.so {observed.seen}")
    assert (native.status, observed.status) == (0, 0), observed.stderr
    assert programs.numbers_equal([native, observed]), (native.numbers, observed.numbers)
    assert observed.profiled
    assert observed.seen == observed.profiled


def test_limit(built: Path) -> None:
    done = programs.run(
        "quota", built, observe=True, count=False, warm=0, timed=0, more={"ULMS_GPU_MEMORY": "2GiB"}
    )
    assert done.status == 0, done.stderr
    assert done.facts["right"] is True
    facts = {name: value for name, value in done.facts.items() if isinstance(value, int)}
    assert facts["refused"] == 1
    assert facts["total"] == facts["nvml_total"] == facts["properties_total"] == 2 * GIB
    assert facts["most"] <= 2 * GIB
    assert facts["free_at_limit"] <= 2 * GIB - facts["most"]
    assert facts["free_after"] > facts["free_at_limit"]


def test_trace_tells_durations_and_hidden_pointers(built: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    more = {"ULMS_TRACE": str(path)}
    done = programs.run("static", built, observe=True, count=False, warm=0, timed=0, more=more)
    assert done.status == 0, done.stderr
    trace = read(path)
    ran = trace.operations[trace.operations["flags"] & OpFlag.CAPTURED == 0]
    launches = ran[ran["kind"] == OpKind.LAUNCH]
    timed = set(trace.retirements["operation"].tolist())
    assert {int(serial) for serial in launches["serial"]} <= timed
    assert (trace.retirements["ns"] > 0).all()
    assert len(trace.tables) == 2  # the module's variable, cuBLAS's array of pointers
    assert len(trace.table_pointers) == 13
