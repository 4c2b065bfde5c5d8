"""Signals that suspend a program and resume it (ULMS_SUSPEND_SIGNAL), beside its own handlers."""

import signal
import time

import pytest

from tests.conftest import PATIENCE_S
from tests.emu.shared_device import ENOUGH_S, Device, alone, binary, device, is_away, long_one, said

__all__ = ["alone", "binary", "device"]
pytestmark = pytest.mark.emu


def test_a_signal_suspends_and_another_resumes(device: Device, alone: str) -> None:
    """As a batch system sends them."""
    program = long_one(device, "vmm", ULMS_SUSPEND_SIGNAL="TSTP")
    device.wait_for(1)
    program.send_signal(signal.SIGTSTP)
    end = time.monotonic() + PATIENCE_S
    while not is_away(device, time.monotonic() + ENOUGH_S):
        assert time.monotonic() < end
        program.send_signal(signal.SIGCONT)  # what is in flight may end after its next work
        time.sleep(0.01)
        program.send_signal(signal.SIGTSTP)
    program.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    program.send_signal(signal.SIGCONT)
    assert said(program) == alone


HANDLES = """
import os, signal, time
if OWN:
    signal.signal(signal.SIGUSR1, lambda *_: print("own", flush=True))
start = allocated(32 * MIB)
if OWN:
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
    fill(start, 7, 32 * MIB)
caught = next(line for line in open("/proc/self/status") if line.startswith("SigCgt"))
print(int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1)
"""


@pytest.mark.parametrize("own", [False, True])
def test_a_handler_is_neither_replaced_nor_set_unasked(device: Device, own: bool) -> None:
    more = {"ULMS_SUSPEND_SIGNAL": "usr1"} if own else {}
    program = device.small(f"OWN = {own}\n{HANDLES}", "vmm", "g", **more)
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert out == ("own\n1\n" if own else "0\n")
    assert (
        complaints
        == "[ulms] WARN: ULMS_SUSPEND_SIGNAL has no effect: the program handles" * own
        + (" this signal itself\n" * own)
    )


CONTINUES = """
import os, signal, threading, time
start, value = allocated(32 * MIB), 0
fill(start, value, 32 * MIB)
for round in range(2):
    signal.signal(signal.SIGCONT, lambda *_: print("own", flush=True))
    os.kill(os.getpid(), signal.SIGUSR1)
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGCONT)).start()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        value += 1
        fill(start, value, 32 * MIB)
print(words_of(start, 32 * MIB) == {value})
"""


def test_a_handler_of_cont_that_comes_later_resumes_too(device: Device) -> None:
    program = device.small(CONTINUES, "vmm", "g", ULMS_SUSPEND_SIGNAL="USR1")
    assert program.communicate(timeout=PATIENCE_S) == ("own\nown\nTrue\n", "")


CHAINS = """
import os, signal
handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
replace = ctypes.CFUNCTYPE(handler, ctypes.c_int, handler)(("signal", every))
calls, values = [], []
def calling(name):
    def called(number, *_):
        calls.append(name)
        if len(calls) < 20:
            before[name](number, None, None)
    return handler(called)
before, every_one = {}, {name: calling(name) for name in "ab"}
start = allocated(32 * MIB)
fill(start, 1, 32 * MIB)
for names in ("", "a", "b", ""):
    every["raise"](signal.SIGUSR1)
    for name in names:
        before[name] = replace(signal.SIGCONT, every_one[name])
    if names == "a":
        every["raise"](signal.SIGUSR1)
    every["raise"](signal.SIGCONT)
    fill(start, 2, 32 * MIB)
    print("".join(calls), flush=True)
    calls.clear()
"""


def test_a_handler_of_cont_that_calls_ours_is_called_once(device: Device) -> None:
    program = device.small(CHAINS, "vmm", "g", ULMS_SUSPEND_SIGNAL="USR1")
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert (out, complaints.count("\n")) == ("\na\nba\nb\n", 1)


REPLACES = """
import os, signal
start = allocated(32 * MIB)
fill(start, 1, 32 * MIB)
for round in range(2):
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGCONT, lambda *_: print("own", flush=True))
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGCONT)
    fill(start, 2, 32 * MIB)
"""


def test_a_handler_of_cont_that_replaces_ours_is_told_once(device: Device) -> None:
    program = device.small(REPLACES, "vmm", "g", ULMS_SUSPEND_SIGNAL="USR1")
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert out == "own\nown\n"
    assert complaints == (
        "[ulms] WARN: the program set a handler of SIGCONT while ULMS_SUSPEND_SIGNAL had suspended"
        " it: a SIGCONT may not have resumed it, the next one does\n"
    )
