"""The public functions of `pump`, as a program uses them."""

import subprocess
import sys
from pathlib import Path

import pytest

import pump
from pump import paths
from pump.bench import cli as bench_cli
from pump.bench.row import FormatError, write_results
from pump.cli import plan as plan_command
from pump.cli import recording
from pump.sim.link import PAGE_BYTES
from pump.sim.recorded import open_sequence
from pump.trace import TraceError
from tests.conftest import PATIENCE_S
from tests.unit.bench_row import row

pytestmark = pytest.mark.unit

IMPORTS = """
import sys
import pump
assert not {"numpy", "rich", "pump.trace", "pump.sim"} & set(sys.modules)
pump.open_trace
assert "numpy" in sys.modules and "pump.predict.plan" not in sys.modules
"""


@pytest.mark.usefixtures("few")
def test_a_trace_is_opened_and_planned() -> None:
    path = paths.traces()["hash-join"]
    trace = pump.open_trace(path)
    assert len(trace.operations) > 0
    needed = open_sequence(path).footprint(PAGE_BYTES)
    found = pump.plan(trace, needed // 2, backends=["vmm"])
    assert (found.memory, found.footprint, found.backends) == (needed // 2, needed, ["vmm"])
    assert min(row["vmm"].step_ms for row in found.factors.values()) > found.native_ms
    roomy = pump.plan(open_sequence(path), 4 * needed, curve=False)
    assert roomy.roomy
    assert roomy.factors == {}


def test_two_results_are_compared(tmp_path: Path) -> None:
    before, after = tmp_path / "a.json", str(tmp_path / "b.json")
    for path, ms in ((before, 10.0), (Path(after), 5.0)):
        write_results(path, {}, [row("um", ms)])
    found = pump.compare(before, after)
    assert [change.ratio for change in found.changes] == [0.5]
    assert pump.compare(after, after).means() == {"um": 1.0}


def test_who_shares_nothing_is_not_suspended() -> None:
    for ask in pump.suspend, pump.resume:
        with pytest.raises(RuntimeError, match="shares no GPU"):
            ask()


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"{}")
    with pytest.raises(TraceError):
        pump.open_trace(path)
    with pytest.raises(FormatError):
        pump.compare(path, path)
    with pytest.raises(OSError, match="gone"):
        pump.open_trace(tmp_path / "gone")
    with pytest.raises(KeyError):
        pump.plan(open_sequence(paths.traces()["hash-join"]), 1 << 30, backends=["tape"])
    with pytest.raises(AttributeError, match="no attribute 'tape'"):
        pump.tape  # type: ignore[attr-defined] # noqa: B018


def test_commands_call_the_same() -> None:
    assert recording.read is pump.open_trace  # type: ignore[attr-defined]
    assert plan_command.plan.plan is pump.plan  # type: ignore[attr-defined]
    assert bench_cli.compare.compare is pump.compare  # type: ignore[attr-defined]


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    command = [sys.executable, "-P", "-c", IMPORTS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
