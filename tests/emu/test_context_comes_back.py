"""`pump resume` after `pump suspend --with-context`, whatever failed or came between: no program
stays stopped."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pump import checkpoint
from pump.checkpoint import CHECKPOINTED, LOCKED, RUNNING
from pump.cli.suspend import Resume
from pump.terminal.command import UsageError
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.shared_device import Device, binary, device
from tests.emu.small_program import DRIVER
from tests.emu.test_with_context import WORKS, Program, leaves, pump, shared
from tests.namespaces import need_namespaces

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu

ASKS = """
import ctypes, sys
driver, state = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
driver.cuInit(0)
driver.cuCheckpointProcessGetState(int(sys.argv[1]), ctypes.byref(state))
print(state.value)
"""


def state(device: Device, pid: int) -> int:
    """The driver's word for it."""
    words, env = [sys.executable, "-c", ASKS, str(pid)], clean_environment() | shared(device)
    return int(subprocess.run(words, env=env, stdout=subprocess.PIPE, check=True).stdout)


def wait_for_state(device: Device, pid: int, wanted: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while state(device, pid) != wanted:
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def started(device: Device, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command."""
    command = [sys.executable, "-m", "pump", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        env=clean_environment() | shared(device) | env,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    ) as it:
        yield it


def another(device: Device, text: str, backend: str = "vmm") -> subprocess.Popen[str]:
    """One of the same group, which has begun."""
    program = device.small(text, backend, "g")
    assert program.stdout
    assert program.stdout.readline() == "here\n"
    return program


def resumes(device: Device) -> None:
    done = pump(device, "resume", "g")
    assert (done.returncode, done.stderr) == (0, "")


def test_after_the_helper_alone_was_killed(device: Device) -> None:
    program = Program(device)
    slow = "cuCheckpointProcessCheckpoint:delay=60000"
    with started(device, "suspend", "g", "--with-context", EMU_FAIL=slow) as command:
        wait_for_state(device, program.process.pid, LOCKED)
        (helper,) = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
        os.kill(int(helper), signal.SIGKILL)
        assert "the helper ended with -9" in command.communicate(timeout=PATIENCE_S)[1]
        assert command.returncode == 1
    resumes(device)
    program.ends()


def test_after_an_interrupt(device: Device) -> None:
    """Which the helper does not hear."""
    program = Program(device)
    slow = "cuCheckpointProcessCheckpoint:delay=3000"
    with started(device, "suspend", "g", "--with-context", EMU_FAIL=slow) as command:
        wait_for_state(device, program.process.pid, LOCKED)
        os.killpg(command.pid, signal.SIGINT)
        assert "`pump resume g` undoes it" in command.communicate(timeout=PATIENCE_S)[1]
    resumes(device)
    program.ends()


def test_after_the_driver_refused_to_let_it_go_on(device: Device) -> None:
    program = Program(device)
    fail = "cuCheckpointProcessCheckpoint:error=999,cuCheckpointProcessUnlock:error=999"
    assert pump(device, "suspend", "g", "--with-context", EMU_FAIL=fail).returncode == 1
    assert state(device, program.process.pid) == LOCKED
    resumes(device)
    program.ends()


@pytest.mark.parametrize("more", [[], ["--with-context"]])
def test_after_a_second_suspend_that_fails(device: Device, more: list[str]) -> None:
    program = Program(device)
    leaves(device)
    pump(device, "suspend", "g", *more, EMU_FAIL="cuInit:error=999")
    assert state(device, program.process.pid) == CHECKPOINTED
    resumes(device)
    program.ends()


def test_without_a_limit_of_time(device: Device) -> None:
    program = Program(device)
    leaves(device, "--timeout", "inf")
    resumes(device)
    program.ends()


def test_another_of_the_group_keeps_its_context(device: Device) -> None:
    program = Program(device)
    other = device.folder / "other"
    stays = another(device, f"SIZES, TOLD = (1, 32), {str(other)!r}\n" + WORKS, "um")
    done = pump(device, "suspend", str(program.process.pid), "--with-context")
    assert (done.returncode, state(device, program.process.pid)) == (0, CHECKPOINTED)
    done = pump(device, "suspend", "g")
    assert (done.returncode, state(device, stays.pid)) == (0, RUNNING), done.stderr
    resumes(device)
    other.touch()
    assert stays.communicate(timeout=PATIENCE_S)[0] == "[{0}, {1}]\n"
    program.ends()


def test_from_a_container_nobody_else_is_taken(device: Device) -> None:
    """There processes have other numbers."""
    need_namespaces()
    program = Program(device)
    env = clean_environment() | shared(device)
    own = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-m", "pump"]
    command = [*own, "suspend", "g", "--with-context"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, "the broker is in another container" in done.stderr) == (2, True)
    assert state(device, program.process.pid) == RUNNING
    program.ends()


SMALL = """
import os, time
starts = [allocated(MIB) for _ in range(40)]
for start in starts:
    fill(start, 3, MIB)
print("here", flush=True)
while not os.path.exists(TOLD):
    time.sleep(0.01)
print({word for start in starts for word in words_of(start, MIB)})
"""
HOLDS = """
allocated(140 * MIB)
print("here", flush=True)
import time
time.sleep(100)
"""


def test_one_of_two_while_there_is_no_room_for_both(device: Device) -> None:
    """The driver would lose the second one."""
    told = device.folder / "told"
    both = [another(device, f"TOLD = {str(told)!r}\n" + SMALL) for _ in range(2)]
    assert pump(device, "suspend", "g", "--with-context").returncode == 0
    holder = device.run([sys.executable, "-c", DRIVER + HOLDS], "", "", **shared(device))
    assert holder.stdout
    assert holder.stdout.readline() == "here\n"
    done = pump(device, "resume", "g")
    assert done.returncode == 1
    assert " are free" in done.stderr
    assert "cuCheckpoint" not in done.stderr
    holder.kill()
    holder.communicate()
    assert pump(device, "suspend", "g").returncode == 0  # the first one has taken what was free
    resumes(device)
    told.touch()
    assert [program.communicate(timeout=PATIENCE_S)[0] for program in both] == ["{3}\n"] * 2


def test_one_while_another_of_its_group_leaves(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other stays away, and everyone knows."""
    for name, value in shared(device).items():
        monkeypatch.setenv(name, value)
    program = Program(device)
    other = device.folder / "other"
    second = another(device, f"SIZES, TOLD = (1, 32), {str(other)!r}\n" + WORKS)
    first, pid = str(program.process.pid), str(second.pid)
    assert pump(device, "suspend", first, "--with-context").returncode == 0
    bring = checkpoint.bring

    def slowly(number: int) -> checkpoint.Outcome:
        outcome = bring(number)
        assert pump(device, "suspend", pid, "--with-context").returncode == 0
        return outcome

    monkeypatch.setattr(checkpoint, "bring", slowly)
    with suppress(UsageError):  # it says that the other is not on the GPU
        Resume().main(argparse.Namespace(who="g"))
    assert state(device, int(first)) == RUNNING
    assert state(device, second.pid) == CHECKPOINTED
    resumes(device)
    other.touch()
    assert second.communicate(timeout=PATIENCE_S)[0] == "[{0}, {1}]\n"
    program.ends()
