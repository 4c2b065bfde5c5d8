"""A program that `pump trace` runs beside itself: its end, its signals, what is said of it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from pump.cli import main
from tests.conftest import PATIENCE_S

pytestmark = pytest.mark.unit


def traced(script: str, trace: Path) -> list[str]:
    """The command that records a shell."""
    pump = [sys.executable, "-P", "-m", "pump"]
    return [*pump, "trace", "-o", str(trace), "--", "sh", "-c", script]


@pytest.mark.parametrize("name", ["t.ulms", "t.%p.ulms"])
def test_a_program_without_cuda_leaves_no_trace_and_that_is_said(name: str, tmp_path: Path) -> None:
    """Also beside older traces. Its output and status are its own."""
    (tmp_path / "t.7.ulms").touch()
    command = traced("echo out; echo err >&2; exit 7", tmp_path / name)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (7, "out\n")
    err, told = done.stderr.splitlines()
    assert err == "err"
    assert told.startswith(f"pump: no trace was written to {tmp_path / name}: sh used no CUDA")
    assert "`pump doctor sh` looks" in told


def test_what_was_written_is_named_with_what_to_type_next(tmp_path: Path) -> None:
    """Of several files, the largest is of the program that matters."""
    command = traced("echo >t.1.ulms; echo longer >t.23.ulms", tmp_path / "t.%p.ulms")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=tmp_path
    )
    assert done.stderr == (
        "pump: traced into t.1.ulms\npump: traced into t.23.ulms\n"
        "pump: `pump plan t.23.ulms --memory SIZE` predicts its step with less memory,"
        " `pump trace show t.23.ulms` says what it holds\n"
    )


def test_nothing_runs_where_no_trace_can_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in (tmp_path, tmp_path / "none" / "t.ulms"):
        assert main(["trace", "-o", str(file), "--", "no-such-program"]) == 2
        assert capsys.readouterr().err.endswith(": name another file\n")


def test_a_trace_is_overwritten_when_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.ulms"
    file.write_text("old", encoding="utf-8")
    assert main(["trace", "-o", str(file), "--", "true"]) == 2
    assert capsys.readouterr().err == f"pump: {file} exists already: -f overwrites it\n"
    assert file.read_text(encoding="utf-8") == "old"
    subprocess.run([*traced("", file)[:7], "-f", "--", "true"], timeout=PATIENCE_S, check=True)
    assert not file.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV])
def test_a_signal_that_ends_the_program_ends_the_launcher(number: int, tmp_path: Path) -> None:
    command = traced(f"kill -{int(number)} $$", tmp_path / "t.ulms")
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on(number: signal.Signals, tmp_path: Path) -> None:
    """In a session of its own, which has no terminal. Who runs tests behind a shell's & ignores
    SIGINT, and so would a shell.
    """
    script = f"trap 'exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    command = traced(script, tmp_path / "t.ulms")
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as running:
        assert running.stdout
        assert running.stdout.readline() == b"ready\n"
        running.send_signal(number)
        try:
            assert running.wait(PATIENCE_S) == 5
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)


def test_a_pipe_whose_reader_leaves_ends_the_program(tmp_path: Path) -> None:
    """Python ignores the signal; programs do not expect that."""
    command = traced("yes; exit 3", tmp_path / "t.ulms")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.readline()
        running.stdout.close()
        assert b"Broken pipe" not in running.stderr.read()
        assert running.wait(PATIENCE_S) == 3


def test_a_missing_program_is_told_as_a_shell_tells_it(tmp_path: Path) -> None:
    plain = tmp_path / "text"
    plain.write_text("not a program", encoding="utf-8")
    plain.chmod(0o644)
    for name, status in (("no-such-program-anywhere", 127), (str(plain), 126)):
        command = [*traced("", tmp_path / "t.ulms")[:7], "--", name]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert (done.returncode, done.stderr.count("\n")) == (status, 1)
        assert done.stderr.startswith(f"pump: {name}: ")
