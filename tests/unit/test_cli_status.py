"""Exit statuses: each that the help tells of is given, and no other."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import doctor
from pump.bench import cli as bench
from pump.cli import main, program
from pump.cli.lib import Lib
from pump.doctor import Finding, Level
from pump.paths import NotBuiltError
from pump.terminal.program import Program
from pump.terminal.status import COMMON, STARTING, Status
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.unit


def pump(*words: str, output: str = os.devnull) -> int:
    """As a process sees it: below 0 the signal that ended it."""
    command = [sys.executable, "-P", "-m", "pump", *words]
    with Path(output).open("wb") as file:
        done = subprocess.run(command, stdout=file, timeout=PATIENCE_S, check=False)
    return done.returncode


def without_reader() -> int:
    """Of a command whose output is closed."""
    script = 'trap "" PIPE; "$0" -P -m pump hooks --all | head -c 1; exit ${PIPESTATUS[0]}'
    return subprocess.run(
        ["bash", "-c", script, sys.executable], stdout=subprocess.DEVNULL, check=False
    ).returncode


def interrupted() -> int:
    """Of a command that looks until somebody interrupts it."""
    watch = [sys.executable, "-P", "-m", "pump", "metrics", "--listen", "0"]
    with subprocess.Popen(watch, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        assert "until interrupted" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        return running.wait(PATIENCE_S)


GIVEN: dict[Status, Callable[[], int]] = {
    Status.DONE: lambda: pump("lib"),
    Status.FAILED: lambda: pump("lib", output="/dev/full"),
    Status.USAGE: lambda: pump("lib", "--no-such-option"),
    Status.NOT_EXECUTABLE: lambda: pump("run", "--", "/dev/null"),
    Status.NOT_FOUND: lambda: pump("run", "--", "/no/such/program"),
    Status.INTERRUPTED: interrupted,
    Status.BROKEN_PIPE: without_reader,
}


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_each_status_is_given(status: Status) -> None:
    assert GIVEN[status]() == status


@pytest.mark.parametrize("verb", [["run"], ["trace", "run"]], ids=" ".join)
@pytest.mark.parametrize(
    ("script", "ends"), [("exit 7", 7), ("exit 1", 1), ("kill -TERM $$", -signal.SIGTERM)]
)
def test_a_program_that_is_run_ends_as_it_does(
    verb: list[str], script: str, ends: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert pump(*verb, "--", "sh", "-c", script) == ends


@pytest.mark.parametrize("made", [program(), bench.PROGRAM], ids=lambda made: made.name)
def test_help_tells_every_status(made: Program) -> None:
    told = made.parser().format_help().partition("exit status:\n")[2]
    names = {str(name.value) if isinstance(name, Status) else name for name, _ in made.statuses}
    assert {*re.findall(r"^  (\w+) ", told, re.MULTILINE)} == names
    assert {status for status, _ in (*COMMON, *STARTING)} == {*Status, "other"}


@pytest.mark.parametrize("columns", [0, 1, 2, 12])
def test_a_terminal_may_be_too_narrow_for_help(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0: a terminal without a size, as Python 3.10 tells it."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    assert "exit status:" in program().parser().format_help()


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (OSError(errno.ENOSPC, "No space left", "file"), Status.FAILED, "file: No space left"),
        (NotBuiltError("it is not built"), Status.FAILED, "it is not built"),
        (KeyboardInterrupt(), Status.INTERRUPTED, ""),
    ],
)
def test_errors_have_a_status_and_a_line(
    error: BaseException,
    status: Status,
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(Lib, "run", fails)
    assert main(["lib"]) == status
    assert capsys.readouterr().err == (f"pump: {told}\n" if told else "")


@pytest.mark.parametrize(
    ("level", "status"),
    [(Level.OK, Status.DONE), (Level.NOTE, Status.DONE), (Level.PROBLEM, Status.FAILED)],
)
def test_a_problem_that_the_doctor_finds_is_a_failure(
    level: Level, status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "examine", lambda _: [Finding(level, "it", "is so")])
    assert main(["doctor"]) == status
