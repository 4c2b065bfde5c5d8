"""`pump trace`, `pump top` and `pump hooks --seen` on a program on the emulated device."""

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import stats
from pump.cli import main
from pump.preload import preload
from pump.terminal.status import Status
from pump.trace import TouchMode, read
from tests.conftest import PATIENCE_S, ROOT

sys.path.insert(0, str(ROOT))

from bench.emulator import run as emulated

pytestmark = pytest.mark.emu

DEADLINE_S = 120


@pytest.fixture(scope="module")
def train(compiled: Callable[..., Path]) -> Path:
    """The training program."""
    return compiled("train", "-ldl")


@pytest.fixture(scope="module")
def trace(train: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a short training, made by the command line."""
    out = tmp_path_factory.mktemp("trace") / "train.ulms"
    pump = [sys.executable, "-P", "-m", "pump"]
    command = [*pump, "trace", "-o", str(out), "--emulator", "--", str(train), "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stdout.startswith("step   1  loss ")
    assert done.stderr.startswith(f"pump: traced into {out}\npump: `pump plan {out} --memory SIZE`")
    return out


def test_a_program_that_needs_more_than_there_is_is_told_the_backend(tmp_path: Path) -> None:
    """It is what people come with; observe refuses it."""
    train = [sys.executable, str(ROOT / "examples" / "train.py"), "4", "8", "1"]
    for more, told in ([], True), (["--backend", "um"], False):
        pump = [sys.executable, "-P", "-m", "pump", "trace", "-fo", str(tmp_path / "t"), *more]
        done = subprocess.run(
            [*pump, "--emulator", "--", *train],
            env=os.environ | {"EMU_MEMORY": "32MiB"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode != 0) == told, done.stderr
        assert ("ran out of the GPU's memory, trace it with `--backend um`" in done.stderr) == told


def test_show_counts_what_ran(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "show", "--json", str(trace)]) == 0
    summary = json.loads(capsys.readouterr().out)
    launched = {use["name"]: use["launches"] for use in summary["functions"]}
    assert launched["adam"] == 10
    assert summary["operations"]["launch"] == summary["kernels"] == sum(launched.values())
    assert main(["trace", "show", str(trace)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["kernel", "launches", str(summary["kernels"])] in lines
    assert any(words[:2] == ["adam", "10"] for words in lines)


def test_export_writes_a_timeline(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    assert main(["trace", "export", str(trace), str(out)]) == 0
    events = json.loads(out.read_text())["traceEvents"]
    assert sum(event["name"] == "adam" and event["ph"] == "X" for event in events) == 10


def test_tables_hold_what_the_trace_holds(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    assert main(["trace", "export", str(trace), str(out)]) == 0
    found = {file.stem: parquet.read_table(file).to_pylist() for file in out.iterdir()}
    rows = sum(map(len, found.values()))
    assert capsys.readouterr().out == f"{rows:,} rows in {out}\n"
    held = read(trace)
    names = ("operations", "allocations", "blocks", "graphs", "moves", "holds")
    assert [len(found[name]) for name in names] == [len(getattr(held, name)) for name in names]
    touches: dict[int, list[tuple[int, int, str]]] = {}
    for touch in found["touches"]:
        shown = (touch["start"], touch["bytes"], touch["mode"])
        touches.setdefault(touch["operation"], []).append(shown)
    steps = [row for row in found["operations"] if row["function"] == "adam"]
    assert len(steps) == 10
    assert all(row["ns"] > 0 and row["kind"] == "launch" for row in steps)
    for row, operation in zip(found["operations"], held.operations, strict=True):
        wanted = [
            (int(one["start"]), int(one["bytes"]), TouchMode(one["mode"]).name.lower())
            for one in held.touches[operation["first_touch"] :][: operation["touches"]]
        ]
        assert touches.get(row["serial"], []) == wanted
    last = {row["counter"]: row["value"] for row in found["counts"]}
    assert last == held.counted(held.counts[-1])


def test_tables_need_pyarrow(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["trace", "export", str(trace), str(tmp_path / "out.parquet")]) == Status.USAGE
    assert "pip install pyarrow" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_tables_may_be_in_capitals(trace: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert main(["trace", "export", str(trace), str(tmp_path / "OUT.PARQUET")]) == 0
    assert (tmp_path / "OUT.PARQUET" / "operations.parquet").is_file()


def test_tables_need_a_folder(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "out.parquet"
    out.write_text("kept")
    assert main(["trace", "export", str(trace), str(out)]) == Status.USAGE
    assert f"{out} is a file: tables go into a folder" in capsys.readouterr().err
    assert out.read_text() == "kept"


def test_a_compressed_trace_reads_the_same(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "packed"
    assert main(["trace", "compress", str(trace), str(packed)]) == 0
    assert gzip.decompress(packed.read_bytes()) == trace.read_bytes()
    capsys.readouterr()
    pages = []
    for path in (trace, packed):
        assert main(["trace", "show", str(path)]) == 0
        pages.append(capsys.readouterr().out)
    assert pages[0] == pages[1]


@pytest.mark.parametrize(
    ("words", "found", "needs"),
    [
        ("infer 32 16 0 5", "step: 32 operations, seen 5 times", "needs 514.0 MiB"),
        ("infer 32 16 0 1", "no step repeats", ""),
        ("train 8 16 16 5", "step: 52 operations, seen 5 times", "needs 594.0 MiB"),
        ("train 8 16 16 1", "no step repeats", ""),
    ],
)
def test_a_step_is_more_than_a_layer(
    words: str,
    found: str,
    needs: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A decoder calls one function all the time, a layer of a training looks like the next."""
    out = str(tmp_path / "steps.ulms")
    command = [str(emulated.build(tmp_path)), *words.split()]
    made = preload(command, {"ULMS_BACKEND": "observe", "ULMS_TRACE": out}, emulator=True)
    env = made.environment(os.environ)
    subprocess.run(command, env=env, capture_output=True, timeout=DEADLINE_S, check=True)
    monkeypatch.setattr("pump.predict.plan.FACTORS", (100,))  # what is predicted does not matter
    assert main(["plan", out, "--memory", "300MiB", "--backend", "um"]) == (0 if needs else 2)
    told = capsys.readouterr()
    assert found in told.out + told.err
    assert needs in told.out
    assert "It fits" not in told.out


@pytest.mark.parametrize("verb", ["export", "compress"])
def test_a_trace_is_not_written_onto_itself(
    verb: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = trace.read_bytes()
    assert main(["trace", verb, str(trace), str(trace)]) == 1
    assert "onto itself" in capsys.readouterr().err
    assert trace.read_bytes() == before


def test_what_is_lost_of_a_trace_is_told(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "cut.ulms", str(tmp_path / "out")
    cut.write_bytes(trace.read_bytes()[:-100])
    for words in (["trace", "export", str(cut), out], ["trace", "compress", str(cut), out]):
        assert main(words) == 0
        assert "was not closed" in capsys.readouterr().err
    assert main(["trace", "show", str(cut)]) == 0
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert "cut off" in first
    assert "not closed" in second


@pytest.mark.parametrize(
    "words", [["trace", "show"], ["trace", "export", "out"], ["hooks", "--seen"]]
)
def test_a_file_that_is_no_trace_is_told_in_one_line(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_text("something else entirely, long enough for a header" * 10)
    if words[1] == "export":
        words = ["trace", "export", str(other), str(tmp_path / "out.json")]
    else:
        words = [*words, str(other)]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error == f"pump: {other}: byte 0: not a trace\n"
    other.write_text("pump-sequence 1\nstep\n", encoding="utf-8")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"pump: {other}: a recorded sequence, no trace: `pump plan`")


def test_a_missing_file_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["trace", "show"], ["trace", "compress"], ["hooks", "--seen"], ["sim"], ["plan"]):
        more = ["out"] if "compress" in words else []
        assert main([*words, "/no/such/file", *more]) == 2
        assert capsys.readouterr().err == "pump: /no/such/file: No such file or directory\n"


def test_hooks_marks_what_was_called(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "--json", "--seen", str(trace)]) == 0
    seen = {row["symbol"] for row in json.loads(capsys.readouterr().out) if row["seen"]}
    assert seen >= {"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemsetD32Async", "cuEventRecord"}
    assert not seen & {"cuGraphLaunch", "cuLaunchKernelEx"}


def test_top_shows_a_running_program(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = preload([str(train), "1000000000"], {"ULMS_STATS": "on"}, emulator=True)
    with subprocess.Popen(
        program.command, env=program.environment(os.environ), stdout=subprocess.DEVNULL
    ) as running:
        try:
            path = wait_for_counters(running.pid)
            assert main(["top", "--once", str(running.pid)]) == 0
        finally:
            running.kill()
    path.unlink()  # a killed program leaves it
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0][:2] == ["train", f"({running.pid}),"]
    (kernels,) = (words for words in lines if words[0] == "kernels")
    assert int(kernels[1].replace(",", "")) > 0


def wait_for_counters(pid: int) -> Path:
    """The file of a program's counters, once it has run a kernel."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        try:
            path = stats.running_pid(pid).path
            if stats.read(path)["kernels"]:
                return path
        except stats.StatsError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"process {pid} showed no counters in {DEADLINE_S} s")
