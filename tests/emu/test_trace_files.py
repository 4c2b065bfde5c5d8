"""Where traces and counters go: several processes with one name, and names that others planted."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pump.preload import preload
from pump.trace import read
from tests.conftest import ROOT, Compile, RunEmulated, clean_environment
from tests.emu.small_program import DRIVER

pytestmark = pytest.mark.emu

ONE = DRIVER + "fill(allocated(MIB), 1, MIB)\n"
"""A program with one operation."""
AGAIN = """
import os, sys
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, __file__, "again"])
print(os.getpid(), sorted(name for name in os.listdir("/dev/shm") if name.startswith("ulms-")))
"""
"""It runs itself once more in its place."""
OBSERVE = {"ULMS_BACKEND": "observe"}


@pytest.fixture
def one(tmp_path: Path) -> Path:
    path = tmp_path / "one.py"
    path.write_text(ONE, encoding="utf-8")
    return path


def test_processes_that_inherit_one_name(
    one: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    """One after the other, beside one another, forked: each has a trace of its own."""
    trace = tmp_path / "traces" / "t"
    trace.parent.mkdir()
    script = f'{sys.executable} "$0"; {sys.executable} "$0" & {sys.executable} "$0" & wait'
    env = {**OBSERVE, "ULMS_TRACE": str(trace)}
    done = run_emulated(["bash", "-c", script, one], env)
    assert done.returncode == 0
    files = sorted(trace.parent.iterdir())
    assert len(files) == 3
    assert files[0] == trace
    traces = [read(file) for file in files]
    assert all(each.complete and len(each.operations) for each in traces)
    assert {each.pid for each in traces[1:]} == {int(file.suffix[1:]) for file in files[1:]}
    told = [line for line in done.stderr.splitlines() if "exists already" in line]
    assert sorted(told) == [
        f"[ulms] WARN: {trace} exists already: the trace is written to {file}" for file in files[1:]
    ]
    assert {file.stat().st_mode & 0o7777 for file in files} == {0o600}


def test_a_program_that_another_one_replaces(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """It has the same number: its trace stays, its counters do not."""
    program = tmp_path / "again.py"
    program.write_text(ONE + AGAIN, encoding="utf-8")
    trace = tmp_path / "t.%p"
    env = {**OBSERVE, "ULMS_TRACE": str(trace), "ULMS_STATS": "on"}
    done = run_emulated([sys.executable, program], env)
    assert done.returncode == 0
    pid = int(done.stdout.split()[0])
    assert done.stdout.count(f"ulms-{pid}-") == 1
    assert not list(Path("/dev/shm").glob(f"ulms-{pid}-*"))
    first, second = tmp_path / f"t.{pid}", tmp_path / f"t.{pid}.{pid}"
    assert (read(first).pid, read(first).closed) == (pid, False)
    assert read(second).complete
    assert "ERROR" not in done.stderr


def test_counters_of_a_killed_process_go_when_another_starts(
    one: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    program = tmp_path / "killed.py"
    program.write_text(ONE + "import os\nprint(os.getpid(), flush=True)\nos.kill(os.getpid(), 9)\n")
    env = {**OBSERVE, "ULMS_STATS": "on"}
    pid = run_emulated([sys.executable, program], env).stdout.strip()
    assert len(list(Path("/dev/shm").glob(f"ulms-{pid}-*"))) <= 1  # others' tests run beside
    assert run_emulated([sys.executable, one], env).returncode == 0
    assert not list(Path("/dev/shm").glob(f"ulms-{pid}-*"))


@pytest.mark.parametrize("planted", ["link", "dangling", "pipe", "folder", "device"])
@pytest.mark.parametrize("option", ["ULMS_TRACE", "ULMS_STATS"])
def test_what_somebody_planted(
    option: str, planted: str, one: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    """The program runs as ever, one line is said, and nothing is written there."""
    place, target = tmp_path / "t", tmp_path / "target"
    if planted == "link":
        target.write_text("mine")
        place.symlink_to(target)
    elif planted == "dangling":
        place.symlink_to(target)
    elif planted == "pipe":
        os.mkfifo(place)
    elif planted == "folder":
        place.mkdir()
    else:
        place = Path("/dev/null")
    before = sorted(tmp_path.iterdir())
    done = run_emulated([sys.executable, one], {**OBSERVE, option: str(place)})
    what = "trace" if option == "ULMS_TRACE" else "counters"
    assert done.returncode == 0
    assert done.stderr.startswith(f"[ulms] ERROR: no {what} in {place}: ")
    assert done.stderr.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == before
    assert planted != "link" or target.read_text() == "mine"


def test_which_file_is_written_is_one_line(
    one: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    env = {**OBSERVE, "ULMS_TRACE": str(tmp_path / "t"), "ULMS_LOG_LEVEL": "INFO"}
    said = run_emulated([sys.executable, one], env).stderr
    assert said.count(f"[ulms] INFO: the trace is written to {tmp_path / 't'}\n") == 1


def test_names_do_not_steer_a_terminal(
    compiled: Compile, emulator_dir: Path, run_emulated: RunEmulated, tmp_path: Path
) -> None:
    """Neither the program's nor a kernel's, in no command and not in what ulms.so says."""
    program = tmp_path / "a\x1b[2J\x07\u009bprogram"
    shutil.copy(compiled("steering", str(emulator_dir / "libcuda.so.1")), program)
    trace = tmp_path / "t"
    env = {"ULMS_LOG_LEVEL": "DEBUG", "ULMS_TRACE": str(trace), "ULMS_GPU_MEMORY": "16MiB"}
    done = run_emulated([program], {**env, "ULMS_BACKEND": "um"})
    assert done.returncode == 0
    assert "evil" in done.stderr
    shown = [done.stderr]
    for words in (["show"], ["show", "--all"], ["show", "--json"], ["export"]):
        more = [tmp_path / "out.json"] if words == ["export"] else []
        shown.append(command(["trace", words[0], str(trace), *map(str, more), *words[1:]]))
    assert "evil" in shown[1]
    shown += [command(["plan", str(trace), "--memory", "1GiB"])]
    shown += [command(["run", "--backend", "observe", "--", str(program) + "-is-none"])]
    for text in shown:
        assert not any(c in text for c in "\x1b\x07\x9b\r"), text


def command(words: list[str], env: Mapping[str, str] | None = None) -> str:
    """What `pump` says."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pump", *words],
        env={**clean_environment(), "PYTHONPATH": str(ROOT), **(env or {})},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.stdout + done.stderr


def test_pump_trace_says_which_file(one: Path, emulator_dir: Path, tmp_path: Path) -> None:
    """The second process of a program does not replace the first one's."""
    made = preload(["true"], {}, emulator=True, base=clean_environment())
    env = {"LD_LIBRARY_PATH": made.variables["LD_LIBRARY_PATH"]}
    script = f"{sys.executable} {one}; {sys.executable} {one}"
    said = command(["trace", "run", "-o", str(tmp_path / "t"), "--", "sh", "-c", script], env)
    (second,) = tmp_path.glob("t.*")
    for path in (tmp_path / "t", second):
        assert f"pump: traced into {path}\n" in said
        assert read(path).complete
