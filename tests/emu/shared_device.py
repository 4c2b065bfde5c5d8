"""Programs that share an emulated device, as a broker plans it, and may be put away."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.emulator.run import build
from pump.paths import installed
from pump.preload import preload
from pump.share.broker import status, suspend
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.small_program import DRIVER
from tests.tenants import broker

MIB = 1 << 20
SHAPES = {"train": ("8", "4", "4"), "infer": ("16", "8", "0")}
"""160 and 128 MiB."""
DEVICE = 192 * MIB
STEPS = {"train": 12, "infer": 120}
USED, PAGES = 0, 2
ENOUGH_S = 0.1
LONG = 4
"""Times the steps of a program that lasts long enough."""


@dataclass
class Device:
    """An emulated device and the broker of those who share it."""

    binary: Path
    folder: Path
    emulator: Path
    broker: subprocess.Popen[str]
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, shape: str, backend: str, name: str = "g", **env: str) -> subprocess.Popen[str]:
        """A program; a `backend` of "" runs it without ulms.so."""
        command = [str(self.binary), shape, *SHAPES[shape], str(STEPS[shape])]
        return self.run(command, backend, name, **env)

    def run(self, command: list[str], backend: str, name: str, **env: str) -> subprocess.Popen[str]:
        """Any program, likewise."""
        base = clean_environment() | {"LD_LIBRARY_PATH": str(self.emulator)}
        options = {"ULMS_BACKEND": backend, "ULMS_MANAGED_LIMIT": "1GiB", "ULMS_SHARE": name}
        options["ULMS_SHARE_DIR"] = str(self.folder)
        if backend:
            base |= {"EMU_SHARED": str(self.folder / "device"), "EMU_MEMORY": str(DEVICE)}
            base = preload(command, options, base=base).environment(base)
        pipe = subprocess.PIPE
        program = subprocess.Popen(command, env=base | env, stdout=pipe, stderr=pipe, text=True)
        self.started.append(program)
        return program

    def small(self, text: str, backend: str, name: str, **env: str) -> subprocess.Popen[str]:
        """A program of a few lines over the emulated driver."""
        return self.run([sys.executable, "-c", DRIVER + text], backend, name, **env)

    def tenants(self) -> list[dict[str, Any]]:
        """What the broker says of them."""
        gpus = status(self.folder)["gpus"]
        return [tenant for gpu in gpus for tenant in gpu["tenants"]]

    def uuid(self) -> bytes:
        """Of the GPU, once somebody has joined."""
        return bytes.fromhex(str(status(self.folder)["gpus"][0]["uuid"]))

    def wait_for(self, count: int) -> list[dict[str, Any]]:
        """Until there are so many."""
        end = time.monotonic() + PATIENCE_S
        while len(found := self.tenants()) != count:
            assert time.monotonic() < end, found
            time.sleep(0.005)
        return found

    def wait_until(self, is_so: Callable[[dict[str, Any]], object]) -> None:
        """Of a tenant."""
        end = time.monotonic() + PATIENCE_S
        while not any(map(is_so, found := self.tenants())):
            assert time.monotonic() < end, found
            time.sleep(0.005)


def said(program: subprocess.Popen[str]) -> str:
    """The result of one that ended well and had nothing to complain of."""
    out, complaints = program.communicate(timeout=PATIENCE_S)
    assert (program.returncode, complaints) == (0, "")
    (result,) = (line for line in out.splitlines() if line.startswith("result "))
    return result


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("sharing"))


@pytest.fixture
def device(binary: Path, emulator_dir: Path, tmp_path: Path) -> Iterator[Device]:
    folder = tmp_path / "share"
    with broker(installed("ulms-broker"), folder) as running:
        device = Device(binary, folder, emulator_dir, running)
        yield device
        for program in device.started:  # those that a test which failed left behind
            if program.poll() is None:
                program.kill()
                program.wait()


def number(device: Device, which: int) -> int:
    """Of those with which the file of an emulated device begins (emulator/shared.h)."""
    return int(memoryview((device.folder / "device").read_bytes()[:32]).cast("Q")[which])


def used(device: Device, backend: str) -> int:
    """Bytes of the device; under `vmm` without managed memory, which the driver alone moves."""
    return number(device, USED) - (number(device, PAGES) if backend == "vmm" else 0)


def put_away(device: Device, backend: str, who: str = "g") -> bool:
    """Until all of it has left, and what the device has is what is told. False: it has ended."""
    suspend(device.folder, who, suspended=True)
    end = time.monotonic() + PATIENCE_S / 30
    while tenants := device.tenants():
        stays = sum(int(tenant["stays"]) for tenant in tenants)
        if all("away_ns" in tenant for tenant in tenants) and used(device, backend) == stays:
            return True
        assert time.monotonic() < end, (used(device, backend), tenants)
        time.sleep(0.001)
    return False


def is_away(device: Device, until: float) -> bool:
    """Waits for it, not for long: work may be in flight that ends after the program's next work."""
    while time.monotonic() < until:
        for tenant in device.tenants():
            if "away_ns" in tenant and tenant["resident"] <= tenant["stays"]:
                return True
        time.sleep(0.001)
    return False


def long_one(device: Device, backend: str, **env: str) -> subprocess.Popen[str]:
    """A program that works for a second or more."""
    command = [str(device.binary), "train", *SHAPES["train"], str(LONG * STEPS["train"])]
    return device.run(command, backend, "g", **{"EMU_TIME": "5", **env})


@pytest.fixture
def alone(device: Device) -> str:
    return said(long_one(device, ""))
