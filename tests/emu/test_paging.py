"""What is told of pages that move and of operations that are held: in the trace, and live."""

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pump import stats
from pump.cli import main
from pump.preload import preload
from pump.trace import MoveFlag, MoveKind, Trace, TraceError, read, summarize
from tests.conftest import Compile, RunEmulated, clean_environment

pytestmark = pytest.mark.emu

MIB = 1 << 20
BUDGET = 24 * MIB
LIMITS = {"ULMS_GPU_MEMORY": str(BUDGET), "ULMS_GPU_MEMORY_FACTOR": "100", "ULMS_PAGE": "2MiB"}
SHAPE = ["train", "6", "4"]  # 76 MiB
KERNELS = {"scale", "add", "axpy", "fill"}
DEADLINE_S = 120


@pytest.fixture(scope="module")
def steps(compiled: Compile, emulator_dir: Path) -> Path:
    return compiled("steps", str(emulator_dir / "libcuda.so.1"))


@dataclass(frozen=True)
class Run:
    """A traced run, and what it said at exit."""

    trace: Trace
    stderr: str


Traced = Callable[..., Run]


@pytest.fixture
def traced(steps: Path, run_emulated: RunEmulated, tmp_path: Path) -> Traced:
    def run(backend: str, **env: str) -> Run:
        file = tmp_path / "run.ulms"
        settings = {**LIMITS, "ULMS_BACKEND": backend, "ULMS_TRACE": str(file), **env}
        done = run_emulated([steps, *SHAPE, "5"], settings)
        assert done.returncode == 0, done.stderr
        return Run(read(file), done.stderr)

    return run


@pytest.mark.parametrize(("backend", "policy"), [("um", "ahead"), ("um", "none"), ("vmm", "ahead")])
def test_moves_add_up_to_the_counters(traced: Traced, backend: str, policy: str) -> None:
    trace = traced(backend, ULMS_POLICY=policy).trace
    assert trace.complete
    counted = trace.counted(trace.counts[-1])
    moves = trace.moves[(trace.moves["flags"] & MoveFlag.FAILED) == 0]
    fills = moves["kind"] == MoveKind.FILL
    dead = moves["flags"] & MoveFlag.DEAD != 0
    clean = ~dead & (moves["flags"] & MoveFlag.CLEAN != 0)
    early = fills & ~dead & (moves["flags"] & MoveFlag.EARLY != 0)
    told = {
        "filled_bytes": fills & ~dead,
        "early_bytes": early,
        "evicted_bytes": ~fills & ~dead & ~clean,
        "dropped_bytes": clean,
        "dead_bytes": dead,
    }
    sums = {name: int(moves["bytes"][those].sum()) for name, those in told.items()}
    assert sums == {name: counted[name] for name in told}
    assert sum(sums.values()) > 0
    if policy == "ahead":
        assert len(trace.moves) == counted["moves"]
    else:  # of moves in the program's own streams nobody may have seen the end
        assert len(trace.moves) <= counted["moves"]
    assert (trace.moves["begun_ns"] <= trace.moves["time_ns"]).all()
    assert (trace.moves["begun_ns"] >= trace.opened_ns).all()
    assert set(trace.moves["device"].tolist()) == {0}
    discarded = moves["flags"] & MoveFlag.DISCARDED != 0
    assert (~discarded | (dead & ~fills)).all()
    if policy == "ahead":
        assert 0 < trace.moves["resident"].max() <= BUDGET


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_holds_add_up_to_the_counters(traced: Traced, backend: str) -> None:
    trace = traced(backend).trace
    counted = trace.counted(trace.counts[-1])
    holds = trace.holds
    assert int(holds["ns"].sum()) == counted["held_ns"]
    assert np.count_nonzero(holds["missing"]) == counted["late"] > 0
    operations = trace.operations[trace.operation_index(holds["operation"])]
    assert (operations["serial"] == holds["operation"]).all()
    assert (operations["thread"] == holds["thread"]).all()
    assert (operations["time_ns"] <= holds["begun_ns"]).all()
    missing = counted["paged_bytes"] - counted["hit_bytes"]
    assert 0 < holds["missing"].sum() <= missing


def test_nothing_is_told_where_everything_fits(traced: Traced) -> None:
    run = traced("um", ULMS_GPU_MEMORY="1GiB", ULMS_LOG_LEVEL="INFO")
    assert len(run.trace.moves) == len(run.trace.holds) == 0
    assert len(run.trace.counts) > 0
    assert "held" not in run.stderr.partition("at most")[2]
    paging = summarize(run.trace).paging
    assert (paging.moves, paging.held, paging.holds) == ([], [], 0)


def test_the_worst_are_the_same_in_the_trace_and_at_exit(
    traced: Traced, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = traced("um", ULMS_LOG_LEVEL="INFO")
    worst = summarize(run.trace).paging.held
    assert {use.name for use in worst} & KERNELS
    at_exit = [line for line in run.stderr.splitlines() if line.startswith("[ulms] INFO:   held ")]
    assert at_exit == [
        f"[ulms] INFO:   held {use.ns / 1e9:.3f} s, {use.times} times, "
        f"for {use.missing_bytes / 2**30:.2f} GiB: {use.name}"
        for use in worst[:5]
    ]
    assert main(["trace", "show", str(run.trace.path)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any(words[:2] == [worst[0].name, str(worst[0].times)] for words in lines)
    heading = "moves of pages number bytes a second time median longest"
    assert heading.split() in lines
    out = tmp_path / "out.json"
    assert main(["trace", "export", str(run.trace.path), str(out)]) == 0
    events = json.loads(out.read_text())["traceEvents"]
    assert sum(event.get("cat") == "move" for event in events) == len(run.trace.moves)
    assert sum(event.get("cat") == "held" for event in events) == len(run.trace.holds)
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names >= {"pages in", "pages out"}


def test_a_move_that_is_refused_is_told_as_such(traced: Traced) -> None:
    trace = traced("um", EMU_FAIL="cuMemPrefetchAsync:after=20:sticky").trace
    failed = trace.moves["flags"] & MoveFlag.FAILED != 0
    assert failed.any()
    assert not failed.all()


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_running_program_shows_its_worst(
    steps: Path, backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed in the middle, its trace is good up to there."""
    file = tmp_path / "run.ulms"
    settings = {**LIMITS, "ULMS_BACKEND": backend, "ULMS_STATS": "on", "ULMS_TRACE": str(file)}
    program = preload([str(steps), *SHAPE, "1000000"], settings, emulator=True)
    environment = {**clean_environment(), **program.environment(clean_environment())}
    with subprocess.Popen(program.command, env=environment, stdout=subprocess.DEVNULL) as running:
        try:
            path = wait_until_held(running.pid, file)
            assert main(["top", "--once", str(running.pid)]) == 0
            held = stats.read(path).held
        finally:
            running.kill()
    path.unlink(missing_ok=True)  # a killed program leaves it to the next that starts
    assert {each.name for each in held} & KERNELS
    assert all(each.ns > 0 and each.times > 0 for each in held)
    assert sum(each.missing_bytes for each in held) > 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    at = lines.index(["held", "times", "waited", "for", "kernel", "or", "call"])
    assert lines[at + 2][-1] in {each.name for each in held}
    trace = read(file)
    assert not trace.closed
    assert len(trace.moves) > 0
    assert len(trace.holds) > 0
    assert trace.counted(trace.counts[-1])["moves"] > 0


def wait_until_held(pid: int, trace: Path) -> Path:
    """The file of a program's counters, once something was held and the trace tells of that, and
    of moves.
    """
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            path = stats.running_pid(pid).path
            if stats.read(path).held and tells_of_moves(trace):
                return path
        except (stats.StatsError, TraceError, FileNotFoundError):
            pass  # not yet
        time.sleep(0.05)
    raise AssertionError(f"process {pid} told of nothing held in {DEADLINE_S} s")


def tells_of_moves(path: Path) -> bool:
    trace = read(path)
    counted = len(trace.counts) > 0 and trace.counted(trace.counts[-1])["moves"] > 0
    return counted and min(len(trace.moves), len(trace.holds)) > 0
