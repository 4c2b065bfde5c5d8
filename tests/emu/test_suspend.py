"""Programs that are put away while they run, and brought back: each computes what it does alone,
what is said to stay is what the device has of it, and whoever dies takes nobody along."""

import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pump.paths import installed
from pump.share.broker import ShareError, suspend
from tests.conftest import PATIENCE_S
from tests.emu.shared_device import (
    DEVICE,
    ENOUGH_S,
    MIB,
    Device,
    alone,
    binary,
    device,
    is_away,
    long_one,
    put_away,
    said,
    used,
)
from tests.random_programs import OVER, Case, Judge
from tests.tenants import GIB, ROOT, Tenant, broker

__all__ = ["alone", "binary", "device"]
pytestmark = pytest.mark.emu

PROGRAMS = 2
"""Of each set-up. A program is put away some ten times."""
CALLS = 3
"""That fail, a program each."""
SETUPS = ("ahead", "vmm")
PLACEHOLDER = {"um": 0, "vmm": 8}
"""MiB of the device that a suspended program keeps."""
WAY_OUT = {
    "ahead": ["cuMemPrefetchAsync", "cuMemDiscardBatchAsync", "cuStreamSynchronize"],
    "vmm": [
        "cuMemCreate",
        "cuMemMap",
        "cuMemSetAccess",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemcpyAsync",
        "cuStreamSynchronize",
    ],
}
"""The driver's calls on it."""


def put_away_often(
    judge: Judge, device: Device, case: Case, chance: random.Random
) -> tuple[int, int]:
    """Runs a random program, which computes what it does alone. How often it was away, and how many
    calls failed. Under `vmm` host memory goes to a file at times.
    """
    folders = ["", str(device.folder)] if case.setup == "vmm" else [""]
    more = {"ULMS_SHARE": "g", "ULMS_SHARE_DIR": str(device.folder)}
    more |= {"EMU_SHARED": str(device.folder / "device"), "ULMS_FILE_DIR": str(device.folder)}
    times, truth = 0, judge.truth(case)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(judge.run, case, judge.environment(case) | more)
        while not running.done():
            try:
                with suppress(ShareError):  # it has not joined yet, or has ended
                    suspend(device.folder, "g", suspended=True, folder=chance.choice(folders))
                    times += is_away(device, time.monotonic() + ENOUGH_S)
                    time.sleep(chance.uniform(0, 0.05))
            finally:
                with suppress(ShareError):
                    suspend(device.folder, "g", suspended=False)
            time.sleep(chance.uniform(0, 0.05))
    found = running.result()
    assert (found.status, found.stdout) == (truth.status, truth.stdout), f"{case}\n{found.stderr}"
    return times, found.failed()


@pytest.mark.parametrize("setup", SETUPS)
def test_it_may_be_put_away_at_any_time(random_program: Path, device: Device, setup: str) -> None:
    judge, times = Judge(random_program), 0
    for seed in random.sample(range(1, 1000), PROGRAMS):
        case = Case(seed, setup, OVER[seed % len(OVER)], time="5")
        times += put_away_often(judge, device, case, random.Random(seed))[0]
    assert times > 0


@pytest.mark.parametrize("setup", SETUPS)
def test_a_call_fails_on_the_way_out(random_program: Path, device: Device, setup: str) -> None:
    judge, failed = Judge(random_program), 0
    for name in random.sample(WAY_OUT[setup], CALLS):
        chance = random.Random()
        fail = f"{name}:after={chance.randint(0, 9)}"
        case = Case(chance.randint(1, 1000), setup, 1.2, fail=fail)
        failed += put_away_often(judge, device, case, chance)[1]
    assert failed > 0


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_alone_it_stays_away_until_it_is_resumed(device: Device, alone: str, backend: str) -> None:
    """Also when who asked for it is gone."""
    program = long_one(device, backend)
    device.wait_for(1)
    assert put_away(device, backend, str(program.pid))
    (before,) = device.tenants()
    time.sleep(0.3)
    (after,) = device.tenants()
    assert (after["operations"], after["budget"]) == (before["operations"], 0)
    asks = subprocess.Popen(
        [sys.executable, "-m", "pump", "suspend", "g"],
        env={"ULMS_SHARE_DIR": str(device.folder), "PATH": ""},
    )
    asks.kill()
    asks.wait()
    suspend(device.folder, "g", suspended=False)
    assert said(program) == alone


def test_what_is_being_placed_leaves_too(device: Device, alone: str) -> None:
    """Pages that move out while the driver is told to bring them are not left on the device."""
    late = "cuMemPrefetchAsync_v2:delay=100,cuStreamSynchronize:delay=200"  # in, then out
    program = long_one(device, "um", EMU_FAIL=late)
    device.wait_for(1)
    assert put_away(device, "um")
    suspend(device.folder, "g", suspended=False)
    assert said(program) == alone


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_without_its_broker_it_goes_on(device: Device, alone: str, backend: str) -> None:
    program = long_one(device, backend)
    device.wait_for(1)
    put_away(device, backend)
    device.broker.kill()
    device.broker.wait()
    with broker(installed("ulms-broker"), device.folder):
        out, complaints = program.communicate(timeout=PATIENCE_S)
    assert alone in out.splitlines()
    assert complaints == (
        "[ulms] WARN: the broker is gone: the program runs as if it were alone, with the"
        " memory that it had\n"
    )


def test_without_its_broker_it_has_the_memory_that_it_had(device: Device, alone: str) -> None:
    """Though another had not given it back yet."""
    backend = "vmm"
    program = long_one(device, backend)
    device.wait_for(1)
    put_away(device, backend)
    other = Tenant(device.folder, "other", device.uuid())
    other.says("REPORT", need=GIB, wants=1, in_flight=1)
    while other.lease().budget <= DEVICE // 2:
        pass
    suspend(device.folder, "g", suspended=False)
    while any(tenant["suspended"] or tenant["budget"] > MIB for tenant in mine(device)):
        pass
    device.broker.kill()
    while used(device, backend) < DEVICE // 2:
        assert program.poll() is None
    out, _ = program.communicate(timeout=PATIENCE_S)
    assert alone in out.splitlines()


def mine(device: Device) -> list[dict[str, Any]]:
    return [tenant for tenant in device.tenants() if tenant["group"] == "g"]


def test_one_that_starts_among_them_waits(device: Device, alone: str) -> None:
    """And says so."""
    backend = "vmm"
    first = long_one(device, backend)
    device.wait_for(1)
    put_away(device, backend)
    second = long_one(device, backend, ULMS_LOG_LEVEL="INFO")
    assert all(tenant["suspended"] for tenant in device.wait_for(2))
    time.sleep(0.2)
    assert all(not tenant["may_issue"] for tenant in device.tenants())
    suspend(device.folder, "g", suspended=False)
    assert said(first) == alone
    out, complaints = second.communicate(timeout=PATIENCE_S)
    assert alone in out.splitlines()
    assert complaints.count("suspended: ") == 1


PINS = """
import os, time
driver.emu_calls.restype = ctypes.c_uint64
starts = [allocated(32 * MIB) for _ in range(5)]
for start in starts:
    fill(start, 7, 32 * MIB)
def made():
    return driver.emu_calls(b"cuMemCreate")
while made() < 2 * 5 * 32 // 8:  # pages, with a frame on either side
    time.sleep(0.01)
print("pinned", flush=True)
while not os.path.exists(TOLD):
    time.sleep(0.01)
print(made(), flush=True)
print([words_of(start, 32 * MIB) for start in starts])
"""


@pytest.mark.parametrize("times", [1, 8])
def test_what_is_pinned_ahead_need_not_be_pinned(device: Device, times: int) -> None:
    """And nothing is beyond what can leave. Also where all would fit so many times."""
    told = device.folder / "told"
    memory = str(times * DEVICE)
    program = device.small(f"TOLD = {str(told)!r}\n{PINS}", "vmm", "g,pin", EMU_MEMORY=memory)
    assert program.stdout
    assert program.stdout.readline() == "pinned\n"
    assert put_away(device, "vmm")
    told.touch()
    assert program.stdout.readline() == f"{2 * 5 * 32 // 8}\n"
    suspend(device.folder, "g", suspended=False)
    assert program.communicate(timeout=PATIENCE_S) == (f"{[{7}] * 5}\n", "")


IDLES = """
import os, time
starts = [allocated(32 * MIB) for _ in range(5)]
for start in starts:
    fill(start, 7, 32 * MIB)
while not os.path.exists(TOLD):
    time.sleep(0.01)
print([words_of(start, 32 * MIB) for start in starts])
"""


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_an_idle_one_comes_back_at_its_next_operation(device: Device, backend: str) -> None:
    told = device.folder / "told"
    program = device.small(f"TOLD = {str(told)!r}\n{IDLES}", backend, "g,idle=1s")
    device.wait_until(lambda tenant: tenant["parked"] and "away_ns" in tenant)
    assert used(device, backend) <= PLACEHOLDER[backend] * MIB
    time.sleep(0.3)
    assert all(t["parked"] for t in device.tenants())
    told.touch()
    assert program.communicate(timeout=PATIENCE_S) == (f"{[{7}] * 5}\n", "")


INSIDE = """
import sys, threading, time
sys.path.insert(0, ROOT)
import pump
start = allocated(32 * MIB)
fill(start, 7, 32 * MIB)
for _ in range(8):
    pump.suspend()
    print(int.from_bytes(open(DEVICE, "rb").read(8), "little") // MIB)
    began = time.monotonic()
    threading.Timer(0.1, pump.resume).start()
    fill(start, 7, 4)
    assert time.monotonic() > began + 0.1
assert words_of(start, 32 * MIB) == {7}
"""


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_it_suspends_itself(device: Device, backend: str) -> None:
    """And waits for another thread of its own."""
    names = f"ROOT, DEVICE = {str(ROOT)!r}, {str(device.folder / 'device')!r}\n"
    program = device.small(names + INSIDE, backend, "g")
    assert program.communicate(timeout=PATIENCE_S) == (f"{PLACEHOLDER[backend]}\n" * 8, "")


MAPS = """
import sys
sys.path.insert(0, ROOT)
import pump
starts = [allocated(32 * MIB) for _ in range(8)]
for start in starts:
    fill(start, 7, 32 * MIB)
before = counter("mapped_bytes")
for _ in range(3):
    pump.suspend()
    print((counter("mapped_bytes") - before) // MIB)
    pump.resume()
    for start in starts:
        assert words_of(start, 32 * MIB) == {7}
    before = counter("mapped_bytes")
"""


def test_what_leaves_is_not_mapped_on_the_host(device: Device) -> None:
    """That takes the driver longer than the copy."""
    program = device.small(f"ROOT = {str(ROOT)!r}\n{MAPS}", "vmm", "g", ULMS_STATS="on")
    assert program.communicate(timeout=PATIENCE_S) == ("0\n" * 3, "")


AGAIN = """
import sys, time
sys.path.insert(0, ROOT)
import pump
start = allocated(64 * MIB)
fill(start, 7, 64 * MIB)
left = 0
for i in range(8):
    pump.suspend()
    pump.resume()
    time.sleep(i / 4000)
    pump.suspend()
    left = max(left, int.from_bytes(open(DEVICE, "rb").read(8), "little") // MIB)
    pump.resume()
    fill(start, 7, 64 * MIB)
print(left)
"""


def test_a_resume_that_is_on_its_way_ends_before_a_suspend(device: Device) -> None:
    names = f"ROOT, DEVICE = {str(ROOT)!r}, {str(device.folder / 'device')!r}\n"
    program = device.small(names + AGAIN, "vmm", "g")
    assert program.communicate(timeout=PATIENCE_S) == (f"{PLACEHOLDER['vmm']}\n", "")


def test_nobody_resumes_from_what_another_said(tmp_path: Path) -> None:
    with broker(installed("ulms-broker"), tmp_path):
        tenant = Tenant(tmp_path)
        asked = iter(range(2, 10))

        def after(*, suspended: bool) -> bool:
            """Whether it is suspended once it has asked for that, or to be resumed."""
            number = next(asked)
            tenant.says("SUSPEND", suspended=suspended, number=number)
            while tenant.view.asked != number:
                pass
            return bool(tenant.lease().suspended)

        assert [after(suspended=it) for it in (True, False)] == [True, False]
        suspend(tmp_path, "g", suspended=True)
        assert [after(suspended=it) for it in (False, True, False)] == [True] * 3
        suspend(tmp_path, "g", suspended=False)
        assert [after(suspended=it) for it in (True, False)] == [True, False]


WAITS = """
import os, signal, threading, time
every.exit.restype = None
signal_of = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(("signal", every))
start = allocated(32 * MIB)
fill(start, 7, 32 * MIB)
def exit_when_told():
    while not os.path.exists(TOLD):
        time.sleep(0.01)
    every.exit(15)
if END == "exit":
    threading.Thread(target=exit_when_told, daemon=True).start()
elif END == "handler":
    signal_of(signal.SIGTERM, ctypes.cast(every.exit, ctypes.c_void_p))
print("here", flush=True)
while True:
    fill(start, 8, 32 * MIB)
"""
STATUS = {"exit": 15, "handler": 15, "terminate": -signal.SIGTERM, "kill": -signal.SIGKILL}


@pytest.mark.parametrize("end", STATUS)
@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_it_may_end_while_it_is_away(device: Device, backend: str, end: str) -> None:
    """At once, in whatever way; and who comes after it is not suspended."""
    told = device.folder / "told"
    program = device.small(f"END, TOLD = {end!r}, {str(told)!r}\n{WAITS}", backend, "g")
    assert program.stdout
    assert program.stdout.readline() == "here\n"
    assert put_away(device, backend)
    assert used(device, backend) <= PLACEHOLDER[backend] * MIB
    began = time.monotonic()
    if end == "exit":
        told.touch()
    elif end == "kill":
        program.kill()
    else:
        program.terminate()
    _, complaints = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, complaints) == (STATUS[end], "")
    assert time.monotonic() - began < 2
    device.wait_for(0)
