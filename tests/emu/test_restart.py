"""Programs that CRIU writes to a disk and restarts, on the emulated device: each goes on where it
was, and computes what it does alone. Where CRIU cannot run, the tests are skipped."""

import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pump import manifest, processes
from pump.criu import Criu, CriuError
from pump.preload import preload
from pump.stats import running_pid
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.shared_device import SHAPES, Device, binary, device, said
from tests.emu.small_program import DRIVER
from tests.emu.test_with_context import SIZES, TWO, WORKS, Program, pump, shared

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu


@pytest.fixture(autouse=True, scope="module")
def criu() -> Criu:
    try:
        found = Criu()
        found.check()
    except CriuError as error:
        pytest.skip(f"no CRIU that works here: {error}")
    return found


@pytest.fixture
def to(tmp_path: Path) -> Path:
    """Where a checkpoint is to be."""
    return tmp_path / "saved"


def checkpoint(device: Device, to: Path, *words: str, **env: str) -> None:
    done = pump(device, "checkpoint", "g", str(to), *words, **env)
    assert done.returncode == 0, done.stderr


@contextmanager
def restarted(
    device: Device, to: Path, *words: str, **more: str
) -> Iterator[subprocess.Popen[str]]:
    """The command, with pipes of its own; whatever it restarted has ended afterwards."""
    command = [sys.executable, "-m", "pump", "restart", str(to), *words]
    pipe, env = subprocess.PIPE, clean_environment() | shared(device) | more
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                for pid in reversed(processes.tree(running.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def goes_on(running: subprocess.Popen[str], program: Program) -> None:
    """It does, and says the same as it would have. Its streams are those of the command."""
    program.told.touch()
    holds = [{i} for i in range(len(SIZES))]
    out, told = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (0, f"{holds}\n"), told
    assert told.endswith(" goes on\n")
    assert "Error" not in told


def killed(program: Program) -> None:
    """By `pump checkpoint --end`."""
    assert program.process.wait(PATIENCE_S) == -signal.SIGKILL
    program.process.communicate()


@pytest.mark.parametrize("where", ["memory", "file", "pinned"])
def test_it_goes_on_where_it_was(device: Device, to: Path, where: str) -> None:
    """As often as it is written."""
    share = "g,pin" if where == "pinned" else "g"
    folder = str(device.folder)
    program = Program(device, share=share, ULMS_STATS="on", ULMS_FILE_DIR=folder)
    if where == "file":
        assert pump(device, "suspend", "g", "--to", folder).returncode == 0
    checkpoint(device, to, "--end")
    killed(program)
    with restarted(device, to) as running:
        if where == "file":
            device.wait_until(lambda tenant: tenant["suspended"])
            assert pump(device, "resume", "g").returncode == 0
        device.wait_until(lambda tenant: not tenant["suspended"])
        assert running_pid(program.process.pid).idle_s < PATIENCE_S
        again = to.with_name("again")
        checkpoint(device, again, "--end")
        assert running.wait(PATIENCE_S) == -signal.SIGKILL
    with restarted(device, again) as running:
        goes_on(running, program)


def test_one_that_went_on_is_restarted_from_where_it_was(device: Device, to: Path) -> None:
    """More than once."""
    program = Program(device)
    checkpoint(device, to)
    program.ends()
    for _ in range(2):
        program.told.unlink()
        with restarted(device, to) as running:
            device.wait_for(1)
            goes_on(running, program)


def test_it_computes_what_it_does_alone(device: Device, to: Path) -> None:
    command = [str(device.binary), "train", *SHAPES["train"], "3000"]
    truth = said(device.run(command, "", "g", EMU_TIME="3"))
    program = device.run(command, "vmm", "g", EMU_TIME="3")
    device.wait_until(lambda tenant: tenant["operations"] > 0)
    checkpoint(device, to, "--end")
    program.communicate()
    with restarted(device, to) as running:
        out, told = running.communicate(timeout=PATIENCE_S)
    assert truth in out.splitlines(), told
    assert running.returncode == 0


def test_it_uses_two_gpus(device: Device, to: Path) -> None:
    program = Program(device, text=TWO, EMU_DEVICES="2")
    checkpoint(device, to, "--end", EMU_DEVICES="2")
    killed(program)
    assert manifest.read(to)["tenants"] == [program.process.pid] * 2
    with restarted(device, to, EMU_DEVICES="2") as running:
        goes_on(running, program)


def test_all_that_one_process_started(device: Device, to: Path) -> None:
    """It shares no GPU itself."""
    told = device.folder / "told"
    command, env = small(device, told)
    line = f"({shlex.join(command)}) & ({shlex.join(command)}) & wait"
    started = [subprocess.Popen(["sh", "-c", line], env=env, stdout=subprocess.PIPE, text=True)]
    device.started += started
    assert started[0].stdout
    assert [started[0].stdout.readline() for _ in range(2)] == ["here\n"] * 2
    done = pump(device, "checkpoint", str(started[0].pid), str(to), "--end")
    assert done.returncode == 0, done.stderr
    started[0].communicate()
    with restarted(device, to) as running:
        device.wait_for(2)
        told.touch()
        out, said = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (0, f"{HOLDS_EACH}\n" * 2), said


def test_its_number_is_taken(device: Device, to: Path) -> None:
    """It still runs."""
    program = Program(device)
    checkpoint(device, to)
    done = pump(device, "restart", str(to))
    assert done.returncode == 2
    assert f"its number {program.process.pid} is taken (by python" in done.stderr
    program.ends()


def test_what_cannot_be_written_costs_nothing(device: Device, to: Path) -> None:
    """CRIU says what it is."""
    program = Program(device, text=HAS_SOCKET)
    done = pump(device, "checkpoint", "g", str(to))
    assert (done.returncode, " no checkpoint: CRIU: " in done.stderr) == (1, True), done.stderr
    assert not list(to.parent.glob("saved*"))
    program.ends()


HAS_SOCKET = (
    """
import socket
listens = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(listens.getsockname())
"""
    + WORKS
)
"""A TCP connection."""


def test_it_ends_like_the_program(device: Device, to: Path) -> None:
    program = Program(device)
    checkpoint(device, to, "--end")
    killed(program)
    with restarted(device, to) as running:
        device.wait_until(lambda tenant: not tenant["suspended"])
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == -signal.SIGTERM
    assert not processes.is_there(program.process.pid)


def test_it_is_left_alone(device: Device, to: Path) -> None:
    program = Program(device)
    checkpoint(device, to, "--end")
    killed(program)
    with restarted(device, to, "--detach") as running:
        assert running.wait(PATIENCE_S) == 0
        device.wait_until(lambda tenant: not tenant["suspended"])
        program.told.touch()
        assert running.stdout
        assert running.stdout.read() == f"{[{i} for i in range(len(SIZES))]}\n"


def test_without_room_nothing_is_left(device: Device, to: Path) -> None:
    program = Program(device)
    checkpoint(device, to, "--end")
    killed(program)
    holder = device.run([sys.executable, "-c", DRIVER + HOLDS], "", "", **shared(device))
    assert holder.stdout
    assert holder.stdout.readline() == "here\n"
    done = pump(device, "restart", str(to))
    assert (done.returncode, " are free" in done.stderr) == (1, True), done.stderr
    assert not processes.is_there(program.process.pid)
    holder.kill()
    holder.communicate()
    with restarted(device, to) as running:
        device.wait_for(1)
        goes_on(running, program)


HOLDS = """
allocated(184 * MIB)
print("here", flush=True)
import time
time.sleep(100)
"""


def small(device: Device, told: Path) -> tuple[list[str], dict[str, str]]:
    """The command of a Program, and its environment."""
    text = f"SIZES, TOLD = {SIZES}, {str(told)!r}\n{WORKS}"
    command, base = [sys.executable, "-c", DRIVER + text], clean_environment() | shared(device)
    options = {"ULMS_BACKEND": "vmm", "ULMS_MANAGED_LIMIT": "1GiB", "ULMS_SHARE": "g"}
    return command, preload(command, options, base=base).environment(base)


HOLDS_EACH = f"{[{i} for i in range(len(SIZES))]}"


def test_its_output_was_a_file(device: Device, to: Path, tmp_path: Path) -> None:
    """Which has grown, as a job's does."""
    told, path = tmp_path / "told", tmp_path / "out"
    command, env = small(device, told)
    with path.open("w") as out, subprocess.Popen(command, env=env, stdout=out, stderr=out) as it:
        while path.read_text() != "here\n":
            time.sleep(0.01)
        checkpoint(device, to)
        told.touch()
        assert it.wait(PATIENCE_S) == 0
    told.unlink()
    with restarted(device, to) as running:
        device.wait_for(1)
        told.touch()
        assert running.communicate(timeout=PATIENCE_S)[0] == f"{HOLDS_EACH}\n"
    assert path.read_text() == f"here\n{HOLDS_EACH}\n"


def test_it_is_of_a_terminal(device: Device, to: Path, tmp_path: Path) -> None:
    """The one of whoever restarts it is its own then."""
    told = tmp_path / "told"
    command, env = small(device, told)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, env)
    read_until(terminal, "here")
    checkpoint(device, to, "--end")
    os.waitpid(pid, 0)
    os.close(terminal)
    command = [sys.executable, "-m", "pump", "restart", str(to)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(command[0], command, clean_environment() | shared(device))
    read_until(terminal, "goes on")
    told.touch()
    read_until(terminal, HOLDS_EACH)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def read_until(terminal: int, text: str) -> None:
    found, end = "", time.monotonic() + PATIENCE_S
    while text not in found:
        assert time.monotonic() < end, found
        try:
            found += os.read(terminal, 4096).decode()
        except OSError:
            raise AssertionError(found) from None
