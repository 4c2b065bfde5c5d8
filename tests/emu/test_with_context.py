"""Programs whose context leaves the device, too (`pump suspend --with-context`): each computes what
it does alone, and whatever fails costs no more than what was asked for."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest

from pump import checkpoint
from pump.paths import installed
from pump.share.broker import ShareError, suspend
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.shared_device import DEVICE, SHAPES, USED, Device, binary, device, number, said
from tests.emu.small_program import DRIVER
from tests.tenants import broker

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu


def shared(device: Device) -> dict[str, str]:
    """What a program needs to meet the others there."""
    more = {"EMU_SHARED": str(device.folder / "device"), "EMU_MEMORY": str(DEVICE)}
    return more | {"LD_LIBRARY_PATH": str(device.emulator), "ULMS_SHARE_DIR": str(device.folder)}


def pump(device: Device, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    env = clean_environment() | shared(device) | env
    command = [sys.executable, "-m", "pump", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


BEGINS = """
import os, struct, time
starts = [allocated(size * MIB) for size in SIZES]
for i, (start, size) in enumerate(zip(starts, SIZES)):
    fill(start, i, size * MIB)
print("here", flush=True)
"""
SAYS = """
print([words_of(start, size * MIB) for start, size in zip(starts, SIZES)])
"""
WORKS = (
    BEGINS
    + """
while not os.path.exists(TOLD):
    fill(starts[0], 0, MIB)
    time.sleep(0.001)
"""
    + SAYS
)
SIZES = (1, 32, 32, 32, 32)
"""MiB; the first stays on the device."""


TIMES = 6
KEEPS = {
    1: "32 MiB on the host cannot go to a file",
    3: "the program has handles of host memory, or another process's",
}
"""Why a handle of the program's does, by where its memory lies: there, on the host."""


class Program:
    """One that works until it is told to say what its memory holds."""

    def __init__(
        self, device: Device, backend: str = "vmm", text: str = WORKS, share: str = "g", **env: str
    ) -> None:
        self.told = device.folder / "told"
        names = f"SIZES, TOLD = {SIZES}, {str(self.told)!r}\n"
        self.process = device.small(names + text, backend, share, **env)
        assert self.process.stdout
        assert self.process.stdout.readline() == "here\n"

    def ends(self, complaints: str = "") -> None:
        """As it would alone."""
        assert self.process.poll() is None
        self.told.touch()
        holds = [{i} for i in range(len(SIZES))]
        assert self.process.communicate(timeout=PATIENCE_S) == (f"{holds}\n", complaints)


def progressed(complaints: str) -> str:
    """What a command said beside its progress."""
    lines = complaints.splitlines(keepends=True)
    return "".join(line for line in lines if not line.endswith((" to go\n", " to the file\n")))


def leaves(device: Device, *words: str, who: str = "g") -> str:
    """With its context; what the command said."""
    done = pump(device, "suspend", who, "--with-context", *words)
    assert (done.returncode, progressed(done.stderr)) == (0, "")
    assert number(device, USED) == 0
    return done.stdout


@pytest.mark.parametrize("where", ["memory", "file", "pinned"])
def test_it_holds_what_it_held(device: Device, where: str) -> None:
    """However often it leaves."""
    to = ["--to", str(device.folder)] if where == "file" else []
    share = "g,pin" if where == "pinned" else "g"
    program = Program(device, share=share, ULMS_FILE_DIR=str(device.folder))
    for _ in range(3):
        assert "its context followed in" in leaves(device, *to)
        (tenant,) = device.tenants()
        assert (tenant["released"], tenant["stays"]) == (1, 0)
        done = pump(device, "resume", "g")
        assert (done.returncode, done.stderr) == (0, "")
        time.sleep(0.1)
    program.ends()


def test_um_is_suspended_and_keeps_its_context(device: Device) -> None:
    program = Program(device, "um")
    done = pump(device, "suspend", "g", "--with-context")
    assert done.returncode == 1
    assert " left the GPU in " in done.stdout
    assert done.stderr.endswith(
        "is suspended, but its context stays on the GPU: the driver takes no managed memory"
        " (ULMS_BACKEND=um)\n"
    )
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


REFUSES = {
    "cuCheckpointProcessLock:error=600": "what runs on the GPU has not ended in time"
    " (cuCheckpointProcessLock gives error 600)",
    "cuCheckpointProcessCheckpoint:error=801": "the driver takes no managed memory, nor any of"
    " another process (cuCheckpointProcessCheckpoint gives error 801)",
    "cuInit:error=999": "cuInit gives error 999",
}


@pytest.mark.parametrize("fail", REFUSES)
def test_what_the_driver_refuses_costs_no_more(device: Device, fail: str) -> None:
    program = Program(device)
    done = pump(device, "suspend", "g", "--with-context", EMU_FAIL=fail)
    assert (done.returncode, done.stderr.endswith(f"on the GPU: {REFUSES[fail]}\n")) == (1, True)
    device.wait_until(lambda tenant: not tenant["released"] and "away_ns" in tenant)
    leaves(device)
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_an_old_driver_cannot(device: Device) -> None:
    program = Program(device, "vmm", EMU_DRIVER_VERSION="12060")
    done = pump(device, "suspend", "g", "--with-context", EMU_DRIVER_VERSION="12060")
    assert done.returncode == 1
    assert done.stderr.endswith("the driver is for CUDA 12.6: 12.8 (driver 570) can do it\n")
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_a_command_that_dies_is_made_good_by_the_next(device: Device, verb: str) -> None:
    """Also if it dies between two calls of the driver."""
    program = Program(device)
    if verb == "resume":
        leaves(device)
    name = {"suspend": "Checkpoint", "resume": "Unlock"}[verb]
    env = shared(device) | {"EMU_FAIL": f"cuCheckpointProcess{name}:delay=60000"}
    words = ["suspend", "g", "--with-context"] if verb == "suspend" else ["resume", "g"]
    with subprocess.Popen(
        [sys.executable, "-m", "pump", *words],
        env=clean_environment() | env,
        start_new_session=True,
    ) as dies:
        device.wait_until(lambda tenant: tenant["released"])
        time.sleep(1)
        os.killpg(dies.pid, signal.SIGKILL)
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_two_resume_it_at_the_same_time(device: Device) -> None:
    program = Program(device)
    leaves(device)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: pump(device, "resume", "g"), range(2)))
    assert [one.returncode for one in done] == [0, 0], done
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_killed_meanwhile_it_is_gone(device: Device) -> None:
    program = Program(device)
    leaves(device)
    program.process.kill()
    program.process.communicate(timeout=PATIENCE_S)
    device.wait_for(0)


EXITS = """
import os, threading, time
every.exit.restype = None
def exit_when_told():
    while not os.path.exists(TOLD):
        time.sleep(0.01)
    every.exit(15)
start = allocated(32 * MIB)
print("here", flush=True)
threading.Thread(target=exit_when_told, daemon=True).start()
try:
    while True:
        fill(start, 1, MIB)
except AssertionError:  # its memory comes no more at the end
    time.sleep(100)
"""


def test_its_end_waits_until_it_is_resumed(device: Device) -> None:
    program = Program(device, text=EXITS)
    leaves(device)
    program.told.touch()
    time.sleep(1)
    assert program.process.poll() is None
    assert pump(device, "resume", "g").returncode == 0
    said = program.process.communicate(timeout=PATIENCE_S)
    assert (program.process.returncode, said) == (15, ("", ""))


def test_it_leaves_all_its_gpus(device: Device) -> None:
    program = Program(device, text=TWO, EMU_DEVICES="2")
    done = pump(device, "suspend", "g", "--with-context", EMU_DEVICES="2")
    assert (done.returncode, done.stdout.count("its context followed in")) == (0, 2)
    assert pump(device, "resume", "g", EMU_DEVICES="2").returncode == 0
    program.ends()


TWO = """
first, context = context, ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 1)
call("cuCtxSetCurrent", context)
other = allocated(32 * MIB)
fill(other, 7, 32 * MIB)
call("cuCtxSetCurrent", first)
""" + WORKS.replace(
    "while not", "call('cuCtxSetCurrent', context)\nassert words_of(other, 4) == {7}\nwhile not"
)


def test_what_is_in_a_file_already_stays_there(device: Device) -> None:
    """As the host has no room for it."""
    limits = {"ULMS_MANAGED_LIMIT": "160MiB", "ULMS_FILE_LIMIT": "128MiB"}
    program = Program(device, ULMS_FILE_DIR=str(device.folder), **limits)
    for _ in range(2):
        leaves(device)
        assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_without_its_broker_it_waits_for_another(device: Device) -> None:
    program = Program(device)
    leaves(device)
    device.broker.kill()
    device.broker.wait()
    with broker(installed("ulms-broker"), device.folder):
        device.wait_until(lambda tenant: tenant["released"])
        time.sleep(0.5)
        assert pump(device, "resume", str(program.process.pid)).returncode == 0
        program.ends(
            "[ulms] WARN: the broker is gone, and the program's context is not on the GPU:"
            f" `pump share start` and then `pump resume {program.process.pid}` bring it back\n"
        )


def test_it_is_told_while_it_is_away(device: Device) -> None:
    """The broker does not take it for one that hangs, and others have the device."""
    program = Program(device)
    leaves(device)
    time.sleep(1.5)
    assert "released" in pump(device, "share", "status").stdout
    said(device.start("infer", "vmm", "other"))
    program.process.kill()
    program.process.communicate(timeout=PATIENCE_S)


def test_whoever_only_asks_the_broker_cannot_resume_it(device: Device) -> None:
    """Nor make it let go less."""
    program = Program(device)
    leaves(device)
    with pytest.raises(ShareError, match="its context is not on the GPU: `pump resume` brings it"):
        suspend(device.folder, "g", suspended=False)
    assert pump(device, "suspend", "g").returncode == 0
    (tenant,) = device.tenants()
    assert tenant["released"]
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


def test_one_that_is_resumed_meanwhile_is_let_alone(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the driver has stopped it, or after."""
    for name, value in shared(device).items():
        monkeypatch.setenv(name, value)
    program = Program(device)
    for answers in [False], [True, False]:
        suspend(device.folder, "g", suspended=True, context="LEAVES")
        device.wait_until(lambda tenant: tenant["released"])
        answer = iter(answers)
        taken = checkpoint.take(program.process.pid, 60, partial(next, answer))
        assert taken.error == "it was resumed meanwhile"
        assert checkpoint.bring(program.process.pid).error == ""
        suspend(device.folder, "g", suspended=False, context="IS_BACK")
    program.ends()


def test_without_room_the_driver_is_not_asked(device: Device) -> None:
    """It would lose the program."""
    program = Program(device)
    leaves(device)
    holder = device.run([sys.executable, "-c", DRIVER + HOLDS], "", "", **shared(device))
    assert holder.stdout
    assert holder.stdout.readline() == "here\n"
    done = pump(device, "resume", "g")
    assert (done.returncode, "are free" in done.stderr) == (1, True)
    holder.kill()
    holder.communicate()
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


HOLDS = """
allocated(184 * MIB)
print("here", flush=True)
import time
time.sleep(100)
"""


@pytest.mark.parametrize(("location", "why"), KEEPS.items())
def test_what_the_driver_would_lose_keeps_the_context(
    device: Device, location: int, why: str
) -> None:
    program = Program(device, text=f"LOCATION = {location}\n{MAPS}")
    done = pump(device, "suspend", "g", "--with-context")
    assert done.returncode == 1
    assert done.stderr.endswith(f"on the GPU: {why}\n")
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


MAPS = """
import os, struct, time
SIZE = SIZES[1] * MIB
allocated(SIZE)
start, handle = ctypes.c_uint64(), ctypes.c_uint64()
call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(SIZE),
     struct.pack("iiii", 1, 0, LOCATION, 0) + bytes(16), ctypes.c_ulonglong(0))
call("cuMemAddressReserve", ctypes.byref(start), ctypes.c_size_t(SIZE), ctypes.c_size_t(0),
     ctypes.c_uint64(0), ctypes.c_ulonglong(0))
call("cuMemMap", start, ctypes.c_size_t(SIZE), ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0))
call("cuMemSetAccess", start, ctypes.c_size_t(SIZE), struct.pack("iii", 1, 0, 3),
     ctypes.c_size_t(1))
fill(start, 1, SIZE)
print("here", flush=True)
while not os.path.exists(TOLD):
    time.sleep(0.01)
print([{0}, words_of(start, SIZE), {2}, {3}, {4}])
"""


GOES = (
    BEGINS
    + """
while not os.path.exists(TOLD + "-go"):
    time.sleep(0.001)
"""
)
ENDS = (
    """
while not os.path.exists(TOLD):
    time.sleep(0.001)
"""
    + SAYS
)

MAKES = (
    GOES
    + """
call("cuMemCreate", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(2 * MIB),
     struct.pack("iiii", 1, 0, 3, 0) + bytes(16), ctypes.c_ulonglong(0))
print("made", flush=True)
"""
    + ENDS
)
"""A handle of host memory, once it is told to."""


def test_a_handle_of_host_memory_is_not_made_while_the_context_leaves(device: Device) -> None:
    """The driver would lose the program. Once it is made, the context stays."""
    program = Program(device, text=MAKES)
    with ThreadPoolExecutor(1) as pool:
        late = {"EMU_FAIL": "cuInit:delay=1000"}
        done = pool.submit(pump, device, "suspend", "g", "--with-context", **late)
        device.wait_until(lambda tenant: tenant["released"])
        program.told.with_name("told-go").touch()
        assert done.result().returncode == 0
    assert pump(device, "resume", "g").returncode == 0
    assert program.process.stdout
    assert program.process.stdout.readline() == "made\n"
    kept = pump(device, "suspend", "g", "--with-context")
    assert (kept.returncode, kept.stderr.endswith(f": {KEEPS[3]}\n")) == (1, True)
    assert pump(device, "resume", "g").returncode == 0
    program.ends()


ASKS = (
    GOES
    + """
every.ulms_suspend(1)
while not every.ulms_is_away():
    time.sleep(0.001)
every.ulms_suspend(0)
print("heard", flush=True)
"""
    + ENDS
)
"""To be suspended and resumed, while its context is away."""


def test_a_program_that_asks_meanwhile_hears_that_it_is_away(device: Device) -> None:
    program = Program(device, text=ASKS)
    leaves(device)
    program.told.with_name("told-go").touch()
    assert program.process.stdout
    assert program.process.stdout.readline() == "heard\n"
    time.sleep(0.5)
    assert pump(device, "resume", "g").returncode == 0
    program.ends(
        "[ulms] WARN: device 0: not resumed: its context is not on the GPU:"
        f" `pump resume {program.process.pid}` brings it back\n"
    )


def test_it_may_leave_at_any_time(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """And computes what it does alone."""
    for name, value in shared(device).items():
        monkeypatch.setenv(name, value)
    command = [str(device.binary), "train", *SHAPES["train"], "400"]
    truth, times = said(device.run(command, "", "g", EMU_TIME="1")), 0
    program = device.run(command, "vmm", "g", EMU_TIME="1")
    for _ in range(TIMES):
        with suppress(ShareError):  # it has not joined yet, or has ended
            suspend(device.folder, "g", suspended=True, context="LEAVES")
            times += lets_go(device) and goes_and_comes(device)
            suspend(device.folder, "g", suspended=False, context="IS_BACK")
        time.sleep(random.uniform(0, 0.1))
    assert said(program) == truth
    assert times > 0


def lets_go(device: Device) -> bool:
    """Waits for it. False: it ended."""
    while rows := device.tenants():
        if rows[0]["released"]:
            return True
        assert not rows[0]["unfiled"], rows
        time.sleep(0.001)
    return False


def goes_and_comes(device: Device) -> bool:
    """The driver takes its context, and brings it back. False: it ended."""
    pids = [row["pid"] for row in device.tenants()]
    errors = [
        checkpoint.take(pid, 60, lambda: True).error or checkpoint.bring(pid).error for pid in pids
    ]
    assert not any(errors), errors
    return bool(pids)
