"""Tables of which few rows are read: they stay on the host, and their rows are right."""

from pathlib import Path

import pytest

from pump.sim.recorded import open_sequence
from pump.sim.sequence import Operation
from pump.trace import read
from tests.conftest import Compile, RunEmulated
from tests.emu.counters import counters_in

pytestmark = pytest.mark.emu

MIB = 1 << 20
BUDGET = 52 * MIB
"""All weights (48 MiB) and little else; the table has 64 MiB."""
STEPS = 60
SETTLED = 4 * 64 * MIB
"""What comes in until it is known what the steps do; a page more in each step would be too much.
Steps take 1 ms: a busy machine's threads may bring the last of it many steps late."""


@pytest.fixture(scope="module")
def binary(compiled: Compile, emulator_dir: Path) -> Path:
    return compiled("gathered", str(emulator_dir / "libcuda.so.1"))


def run(
    run_emulated: RunEmulated, binary: Path, gather: str, backend: str | None
) -> tuple[str, dict[str, int]]:
    """Its sum, and the counters."""
    env = {"EMU_TIME": "3", "ULMS_GPU_MEMORY": str(BUDGET), "ULMS_GPU_MEMORY_FACTOR": "100"}
    env |= {"ULMS_MANAGED_LIMIT": "1GiB", "ULMS_VERIFY": "1", "ULMS_BACKEND": backend or ""}
    words = [binary, gather, str(STEPS)]
    done = run_emulated(words, env if backend else None, preloaded=backend is not None)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    (computed,) = (x for x in done.stdout.splitlines() if x.startswith("sum "))
    return computed, counters_in(done.stdout)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_table_stays_for_a_few_rows(
    backend: str, binary: Path, run_emulated: RunEmulated
) -> None:
    expected, _ = run(run_emulated, binary, "known", None)
    seen, counters = run(run_emulated, binary, "known", backend)
    assert seen == expected
    assert counters["filled_bytes"] < SETTLED
    assert counters["in_place_bytes"] < 64 * MIB  # less than the table once, in all steps
    assert counters["evicted_bytes"] >= 60 * MIB
    assert counters["violations"] == counters["move_failures"] == 0


@pytest.mark.parametrize(("gather", "few"), [("known", STEPS), ("unknown", 0)])
def test_traces_tell_of_it(
    gather: str, few: int, binary: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    done = run_emulated([binary, gather, str(STEPS)], {"ULMS_TRACE": str(trace)})
    assert done.returncode == 0, done.stderr
    sparse = read(trace).touches
    sparse = sparse[sparse["sparse"]]
    assert len(sparse) == few
    assert set(sparse["bytes"].tolist()) <= {64 * MIB}
    (step,) = open_sequence(trace).steps
    touches = [t for event in step if isinstance(event, Operation) for t in event.touches]
    table = [t for t in touches if t.bytes == 64 * MIB]
    assert [t.sparse for t in table] == [bool(few)]


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_others_are_tried(backend: str, binary: Path, run_emulated: RunEmulated) -> None:
    """Of a kernel that nobody knows all may be used, and each step."""
    expected, _ = run(run_emulated, binary, "unknown", None)
    seen, counters = run(run_emulated, binary, "unknown", backend)
    assert seen == expected
    assert counters["filled_bytes"] + counters["in_place_bytes"] > 64 * MIB * STEPS // 4
