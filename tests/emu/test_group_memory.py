"""Programs of a group that may hold so much together: memory information agrees in each of them."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pump.paths import installed
from pump.preload import preload
from pump.share import broker as share
from tests.conftest import PATIENCE_S, clean_environment
from tests.emu.small_program import DRIVER
from tests.tenants import broker

pytestmark = pytest.mark.emu

MIB = 1 << 20
MEMBER = (
    DRIVER
    + """
import sys

nvml, device = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p()
ALL = 192 * MIB
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
blocks = [allocated(8 * MIB)]
for line in sys.stdin:
    size = int(line)
    if size > 0:
        blocks.append(allocated(size * MIB))
    elif size < 0:
        call("cuMemFree_v2", blocks.pop())
    told, three, before = (ctypes.c_size_t * 2)(), (ctypes.c_uint64 * 3)(), None
    while list(told) != before:  # others of the group may do something meanwhile
        before = list(told)
        nvml.nvmlDeviceGetMemoryInfo(device, three)
        call("cuMemGetInfo_v2", told, ctypes.byref(told, 8))
    assert three[0] == ALL or [three[1], three[0]] == list(told), (list(three), list(told))
    print(told[0] // MIB, told[1] // MIB, flush=True)
"""
)


@dataclass
class Members:
    """Those that run, and how another one starts."""

    folder: Path
    emulator: Path
    running: list[subprocess.Popen[str]]

    def start(self, name: str, **env: str) -> subprocess.Popen[str]:
        return self.run(MEMBER, name, **env)

    def run(self, text: str, name: str, **env: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", text]
        base = clean_environment() | {"LD_LIBRARY_PATH": str(self.emulator)}
        base |= {"EMU_SHARED": str(self.folder / "device"), "EMU_MEMORY": "192MiB"}
        options = {"ULMS_SHARE": name, "ULMS_SHARE_DIR": str(self.folder)}
        pipe = subprocess.PIPE
        self.running.append(
            subprocess.Popen(
                command,
                env=preload(command, options, base=base).environment(base) | env,
                stdin=pipe,
                stdout=pipe,
                text=True,
            )
        )
        return self.running[-1]


@pytest.fixture
def members(emulator_dir: Path, tmp_path: Path) -> Iterator[Members]:
    made = Members(tmp_path / "share", emulator_dir, [])
    with broker(installed("ulms-broker"), made.folder):
        yield made
        for member in made.running:
            member.kill()
            member.communicate()


def asked(member: subprocess.Popen[str], allocate: int = 0) -> list[int]:
    """MiB: what is free of how much, after it has allocated so many more, or freed a block."""
    assert member.stdin
    assert member.stdout
    print(allocate, file=member.stdin, flush=True)
    return [int(word) for word in member.stdout.readline().split()]


def soon(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_what_a_group_has_left_is_told_in_each_of_its_programs(
    members: Members, backend: str
) -> None:
    first = members.start("g,memory=64MiB", ULMS_BACKEND=backend)
    assert asked(first) == [56, 64]
    second = members.start("g", ULMS_BACKEND=backend)
    soon(lambda: asked(second) == asked(first) == [48, 64])
    asked(first, 16)
    soon(lambda: asked(second) == [32, 64])
    asked(second, 24)
    soon(lambda: asked(first) == [8, 64])
    asked(second, 24)  # more than there is left: pages move, and nothing is free
    soon(lambda: asked(first) == asked(second) == [0, 64])
    asked(second, -1)
    soon(lambda: asked(first) == [8, 64])
    other = members.start("h", ULMS_BACKEND=backend)
    assert asked(other)[1] == 192
    share.configure(members.folder, "g,memory=128MiB")
    soon(lambda: asked(first) == asked(second) == [72, 128])
    second.kill()
    soon(lambda: asked(first) == [104, 128])


BEFORE_MEMORY = {
    "asks": """
told = (ctypes.c_size_t * 2)()
call("cuMemGetInfo_v2", told, ctypes.byref(told, 8))
assert list(told) == [64 * MIB, 64 * MIB], list(told)
""",
    "allocates": """
small = ctypes.c_uint64()
call("cuMemAlloc_v2", ctypes.byref(small), ctypes.c_size_t(1 << 16))
""",
    "works": """
module, at, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t()
call("cuModuleLoadData", ctypes.byref(module), b"emu:builtin")
call("cuModuleGetGlobal_v2", ctypes.byref(at), ctypes.byref(size), module, b"hidden")
call("cuMemsetD8_v2", at, ctypes.c_ubyte(0), size)
""",
}


@pytest.mark.parametrize("backend", ["um", "vmm"])
@pytest.mark.parametrize("first", BEFORE_MEMORY)
def test_what_has_little_memory_or_none_shares_too(
    members: Members, first: str, backend: str
) -> None:
    share.configure(members.folder, "g,memory=64MiB")
    text = DRIVER + BEFORE_MEMORY[first] + "print(flush=True); input()"
    running = members.run(text, "g", ULMS_BACKEND=backend)
    assert running.stdout
    assert running.stdout.readline() == "\n"
    ((tenant,),) = (gpu["tenants"] for gpu in share.status(members.folder)["gpus"])
    assert tenant["pid"] == running.pid


def test_without_a_broker_it_has_all_of_it(members: Members) -> None:
    alone = members.start("g,memory=64MiB", ULMS_SHARE_DIR="/nowhere", ULMS_LOG_LEVEL="ERROR")
    assert asked(alone) == [56, 64]
