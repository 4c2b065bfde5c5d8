"""Programs that share an emulated device as a broker plans it: none fails, each computes what it
does alone, and nobody waits for who is dead or stopped."""

import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from pump.paths import installed
from pump.share.broker import configure
from tests.conftest import PATIENCE_S
from tests.emu.counters import counters_in
from tests.emu.shared_device import MIB, SHAPES, STEPS, Device, binary, device, said
from tests.tenants import GIB, Tenant, broker, message

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu


@pytest.fixture
def alone(device: Device) -> dict[str, str]:
    """What each shape computes without us."""
    return {shape: said(device.start(shape, "")) for shape in SHAPES}


MIXES: dict[str, Sequence[tuple[str, str]]] = {
    "um": [("train", "um"), ("infer", "um"), ("infer", "um")],
    "vmm": [("train", "vmm"), ("infer", "vmm"), ("infer", "vmm")],
    "both": [("infer", "um"), ("infer", "vmm"), ("train", "vmm")],
}


@pytest.mark.parametrize("mix", MIXES)
def test_each_computes_what_it_does_alone(device: Device, alone: dict[str, str], mix: str) -> None:
    """Together they need more than twice the device."""
    programs = [device.start(*one, name=f"n{i}") for i, one in enumerate(MIXES[mix])]
    assert [said(program) for program in programs] == [alone[shape] for shape, _ in MIXES[mix]]


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_who_is_killed_takes_nobody_along(
    device: Device, alone: dict[str, str], backend: str
) -> None:
    """Nor does the broker: those who are left run on, and meet again at another one."""
    first, second, killed = (device.start("infer", backend, EMU_TIME="30") for _ in range(3))
    device.wait_for(3)
    killed.kill()
    killed.communicate()
    device.wait_for(2)
    device.broker.kill()
    device.broker.wait()
    time.sleep(0.1)
    with broker(installed("ulms-broker"), device.folder):
        for program in first, second:
            out, complaints = program.communicate(timeout=PATIENCE_S)
            assert program.returncode == 0
            assert complaints == (
                "[ulms] WARN: the broker is gone: the program runs as if it were alone, with the"
                " memory that it had\n"
            )
            assert alone["infer"] in out.splitlines()


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_without_a_turn_it_sleeps(device: Device, alone: dict[str, str], backend: str) -> None:
    """Until the tenant of higher priority that has it wants it no more."""
    program = device.start("infer", backend, EMU_TIME="20")
    device.wait_for(1)
    first = Tenant(device.folder, "first", device.uuid(), sets=1, settings={"priority": 1})
    wants = {"need": GIB, "wants": 1, "in_flight": 1, "ready": 1}
    first.says("REPORT", **wants)
    latest = [-1] * 10
    end = time.monotonic() + PATIENCE_S
    while len(set(latest)) > 1 or may_issue(device):
        assert time.monotonic() < end, latest
        first.says("REPORT", **wants)
        time.sleep(0.05)
        latest = [*latest[1:], issued(device)]
    assert program.poll() is None
    first.ends()
    assert said(program) == alone["infer"]


def may_issue(device: Device) -> bool:
    return any(t["group"] == "g" and t["may_issue"] for t in device.tenants())


def issued(device: Device) -> int:
    """Operations of the program."""
    return sum(t["operations"] for t in device.tenants() if t["group"] == "g")


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_one_that_is_stopped_keeps_nobody_waiting(
    device: Device, alone: dict[str, str], backend: str
) -> None:
    stopped = device.start("infer", backend, EMU_TIME="30")
    device.wait_for(1)
    stopped.send_signal(signal.SIGSTOP)
    other = device.start("infer", backend)
    with suppress(subprocess.TimeoutExpired):
        other.wait(PATIENCE_S / 6)
    if other.poll() is None:  # stopped while it had a lock of the emulator's, which no driver has
        stopped.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        stopped.send_signal(signal.SIGSTOP)
    assert said(other) == alone["infer"]
    stopped.send_signal(signal.SIGCONT)
    assert said(stopped) == alone["infer"]


def test_who_was_stopped_has_not_seen_a_broker_that_hangs(
    device: Device, alone: dict[str, str]
) -> None:
    """What lay unread before and after says nothing of the time between."""
    program = device.start("infer", "vmm", EMU_TIME="60")
    device.wait_for(1)
    other = Tenant(device.folder, "other", device.uuid())  # who shares has more to say
    for one, what, then in (
        (device.broker, signal.SIGSTOP, 0.3),
        (program, signal.SIGSTOP, 1.2),
        (program, signal.SIGCONT, 0.1),
        (device.broker, signal.SIGCONT, 0.0),
    ):
        one.send_signal(what)
        time.sleep(then)
    other.ends()
    assert said(program) == alone["infer"]


def test_without_a_broker_it_runs_alone_and_says_so(device: Device, alone: dict[str, str]) -> None:
    device.broker.kill()
    device.broker.wait()
    program = device.start("infer", "vmm")
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert alone["infer"] in out.splitlines()
    assert complaints == (
        "[ulms] WARN: ULMS_SHARE=g: no broker answers, the GPU is not shared yet"
        " (pump share start)\n"
    )


HOLDS = """
import time
def refused():
    start = ctypes.c_uint64()
    status = driver.cuMemAlloc_v2(ctypes.byref(start), ctypes.c_size_t(32 * MIB))
    if status == 0:
        call("cuMemFree_v2", start)
    time.sleep(0.01)
    return status
for wanted in 0, 2:
    while refused() != wanted:
        pass
    print(wanted, flush=True)
while refused():
    pass
"""


def test_what_lies_on_the_host_is_shared_out_too(device: Device) -> None:
    program = device.small(HOLDS, "vmm", "g")
    assert program.stdout
    assert program.stdout.readline() == "0\n"
    other = Tenant(device.folder, "other", device.uuid())
    other.says("REPORT", host=2**60)
    assert program.stdout.readline() == "2\n"
    other.ends()
    assert program.wait(PATIENCE_S) == 0


FILLS = """
import time
free, total = ctypes.c_size_t(), ctypes.c_size_t()
blocks = []
for size in MIB, MIB // 32:
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    blocks += [allocated(size) for _ in range(free.value // size)]
print("full", flush=True)
time.sleep(1)
"""


def test_a_full_device_is_asked_again_before_a_broker_is_there(
    device: Device, alone: dict[str, str]
) -> None:
    """Others would give some of it up soon."""
    device.broker.kill()
    device.broker.wait()
    other = device.small(FILLS, "observe", "")
    assert other.stdout
    assert other.stdout.readline() == "full\n"
    program = device.start("infer", "vmm")
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, complaints.count("\n")) == (0, 1), complaints
    assert alone["infer"] in out.splitlines()
    other.communicate()


def test_what_a_share_is(device: Device) -> None:
    words = ",request=0.25,limit=.5,hard,memory=64MiB,priority=-2"
    program = device.start("infer", "vmm", name="n" + words, EMU_TIME="20")
    (tenant,) = device.wait_for(1)
    settings = {"group": "n", "request": 250, "limit": 500, "hard": 1, "memory_limit": 64 * MIB}
    assert settings | {"priority": -2} == {name: tenant[name] for name in (*settings, "priority")}
    assert 0 < tenant["budget"] <= 64 * MIB
    program.kill()
    program.communicate()


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_a_stopped_broker_keeps_nobody_waiting(
    device: Device, alone: dict[str, str], backend: str
) -> None:
    """Not even a program that has no turn just now, and says so."""
    program = device.start("infer", backend, EMU_TIME="20", ULMS_LOG_LEVEL="INFO")
    device.wait_for(1)
    first = Tenant(device.folder, "first", device.uuid(), sets=1, settings={"priority": 1})
    first.says("REPORT", need=GIB, wants=1, in_flight=1, ready=1)
    while may_issue(device):
        time.sleep(0.005)
    device.broker.send_signal(signal.SIGSTOP)
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0
    assert alone["infer"] in out.splitlines()
    assert "the broker is gone" in complaints
    assert "[ulms] INFO: device 0: the turn ends after " in complaints


@pytest.mark.parametrize("why", ["", "it is full"])
def test_who_is_refused_asks_seldom_and_says_so_once(
    device: Device, alone: dict[str, str], why: str
) -> None:
    device.broker.kill()
    device.broker.wait()
    (device.folder / "broker.sock").unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as refuses:
        refuses.bind(str(device.folder / "broker.sock"))
        refuses.listen(1000)
        refuses.setblocking(False)
        program = device.start("infer", "vmm", EMU_TIME="50")
        began, asked = time.monotonic(), 0
        while program.poll() is None:
            time.sleep(0.01)
            with suppress(BlockingIOError), refuses.accept()[0] as answers:
                asked += 1
                if why:
                    answers.recv(4096)
                    answers.send(message("REFUSED", why=why.encode()))
        assert asked <= 2 + time.monotonic() - began
    out, complaints = program.communicate()
    assert alone["infer"] in out.splitlines()
    told = f"the GPU is not shared: {why}\n" if why else "no broker answers"
    assert told in complaints
    assert complaints.count("\n") == 1


def test_while_its_budget_changes_little_is_used_in_place(device: Device) -> None:
    """What is away can come soon. Else it would be, as all is touched once a step."""
    program = device.start("infer", "vmm", EMU_TIME="20", ULMS_HIDDEN="known")
    device.wait_for(1)
    other = Tenant(device.folder, "other", device.uuid())
    while program.poll() is None:
        for most in "96MiB", "64MiB":
            configure(device.folder, f"g,memory={most}")
            time.sleep(0.1)
    other.ends()
    out, _ = program.communicate(timeout=PATIENCE_S)
    counters = counters_in(out)
    assert counters["evicted_bytes"] + counters["dropped_bytes"] > 64 * MIB
    assert counters["in_place_bytes"] < counters["filled_bytes"]


def test_what_waits_fills_up_to_its_budget(device: Device) -> None:
    """Also once its group may have more."""
    command = [str(device.binary), "infer", *SHAPES["infer"], str(20 * STEPS["infer"])]
    program = device.run(command, "vmm", "g", EMU_TIME="5", ULMS_HIDDEN="known")
    device.wait_for(1)
    while issued(device) < STEPS["infer"]:  # it has all its memory
        assert program.poll() is None
    configure(device.folder, "g,memory=64MiB")
    first = Tenant(device.folder, "first", device.uuid(), sets=1, settings={"priority": 1})

    def mine() -> dict[str, Any]:
        """While the other has its turn."""
        first.says("REPORT", need=16 * MIB, wants=1, in_flight=1, ready=1)
        first.acknowledges()
        (tenant,) = (t for t in device.tenants() if t["group"] == "g")
        return tenant

    end = time.monotonic() + PATIENCE_S
    while (few := mine())["may_issue"] or few["resident"] > 64 * MIB:
        assert time.monotonic() < end, few
    configure(device.folder, "g,memory=160MiB")
    while (many := mine())["resident"] < 96 * MIB:
        assert time.monotonic() < end, many
    assert not many["may_issue"]
    first.ends()
    program.kill()
    program.communicate()


def test_what_it_says_it_holds_is_what_the_device_has_of_it(device: Device) -> None:
    """Others grow by what it says that it gave back. Pages were mapped there still."""
    command = [str(device.binary), "infer", *SHAPES["infer"], str(1000 * STEPS["infer"])]
    program = device.run(command, "vmm", "g", EMU_TIME="5", ULMS_HIDDEN="known")
    device.wait_for(1)
    while issued(device) < STEPS["infer"]:
        assert program.poll() is None
    for most in (96, 160) * 4:
        configure(device.folder, f"g,memory={most}MiB")
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            (mine,) = device.tenants()
            used = int.from_bytes((device.folder / "device").read_bytes()[:8], sys.byteorder)
            if most == 96 and mine["reserved"] <= 96 * MIB:
                assert used <= 96 * MIB
    program.kill()
    program.communicate()


BURSTS = """
import time
start = allocated(32 * MIB)
for _ in range(60):
    end = time.monotonic() + 0.002
    while time.monotonic() < end:
        call("cuMemsetD32_v2", start, 7, ctypes.c_size_t(1 * MIB))
        call("cuCtxSynchronize")
    time.sleep(0.05)
"""


@pytest.mark.alone
def test_who_pauses_says_so_at_once(device: Device) -> None:
    """While others wait. In 10 ms at most it says what it does."""
    program = device.small(BURSTS, "vmm", "g")
    device.wait_for(1)
    other = Tenant(device.folder, "other", device.uuid())
    spans, since = [], None
    while program.poll() is None:
        other.says("REPORT", need=GIB, wants=1, in_flight=1, ready=1)
        now, rows = time.monotonic(), device.tenants()
        wants = any(row["wants"] for row in rows if row["group"] == "g")
        if since and not wants:
            spans.append(now - since)
        since = (since or now) if wants else None
    other.ends()
    assert len(spans) > 10
    assert statistics.median(spans) < 0.008


ASYNCHRONOUS = """
import time
start = allocated(32 * MIB)
def issuing():
    began = time.monotonic()
    for _ in range(100):
        call("cuMemsetD32Async", start, 7, ctypes.c_size_t(8 * MIB), None)
    issued = time.monotonic()
    call("cuCtxSynchronize")
    return (issued - began) / (time.monotonic() - began)
parts = [issuing()]
while max(parts) < 0.6 and len(parts) < ENOUGH:
    parts.append(issuing())
print(min(parts), max(parts))
"""


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_under_a_limit_little_is_in_flight(device: Device, backend: str) -> None:
    """A turn ends when what was issued is done. Else all is issued at once."""

    def parts(share: str, enough: int) -> list[float]:
        text = f"ENOUGH = {enough}\n{ASYNCHRONOUS}"
        started = device.small(text, backend, share, EMU_TIME="20")
        return [float(part) for part in started.communicate(timeout=PATIENCE_S)[0].split()]

    assert parts("g", 3)[0] < 0.4
    assert parts("h,limit=0.99", 40)[1] > 0.6
