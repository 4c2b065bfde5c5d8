"""Host memory of suspended programs that goes to a file and comes back: each computes what it does
alone, a disk that is full or fails costs what was asked for and no more, and nothing is left."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pump.paths import installed
from pump.share.broker import suspend
from tests.conftest import PATIENCE_S, Compile, RunEmulated
from tests.emu.shared_device import MIB, Device, binary, device
from tests.emu.small_program import run_small

__all__ = ["binary", "device"]
pytestmark = pytest.mark.emu

PART = 16 * MIB
ALL = 5 * PART
PLACEHOLDER = 1
"""Page of the host, for the addresses of all that is in the file."""
PROGRAM = """
import os, time
driver.emu_calls.restype = ctypes.c_uint64
starts = [allocated(PART) for _ in range(5)]
for i, start in enumerate(starts):
    fill(start, i, PART)
print("here", flush=True)
def wait(path):
    while not os.path.exists(path):
        time.sleep(0.01)
def frames():
    return driver.emu_calls(b"cuMemCreate") - driver.emu_calls(b"cuMemRelease")
wait(AWAY)
print(frames(), flush=True)
"""
COMES_BACK = """
wait(BACK)
found = [words_of(start, PART) for start in starts[::-1]]
print(found == [{4 - i} for i in range(5)], counter("file_out_bytes"), counter("file_in_bytes"))
"""


class Told:
    """A program of five parts, and how it is told to go on."""

    def __init__(self, device: Device, text: str, backend: str = "vmm", **env: str) -> None:
        self.device = device
        self.files = device.folder / "files"
        self.files.mkdir()
        names = {name: device.folder / name.lower() for name in ("AWAY", "BACK")}
        head = f"PART = {PART}\n" + "".join(
            f"{name} = {str(path)!r}\n" for name, path in names.items()
        )
        env = {"ULMS_FILE_DIR": str(self.files)} | env
        self.program = device.small(head + PROGRAM + text, backend, "g", **env)
        assert self.said() == "here"

    def put_away(self, folder: str | None = None) -> int:
        """To a file in the folder, as far as that goes; how many bytes are there."""
        to = str(self.files) if folder is None else folder
        suspend(self.device.folder, "g", suspended=True, folder=to)
        end = time.monotonic() + PATIENCE_S
        while (row := self.device.tenants()[0])["files"] or "away_ns" not in row:
            assert time.monotonic() < end, row
            time.sleep(0.005)
        return int(row["filed"])

    def is_commanded(self, folder: str) -> subprocess.CompletedProcess[str]:
        """It is put away by the command."""
        words = [sys.executable, "-m", "pump", "suspend", "g", "--to", folder]
        env = {"ULMS_SHARE_DIR": str(self.device.folder), "PATH": ""}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    def refuses(self, folder: str, why: str, filed: str = "0 B") -> None:
        """All that goes does, and the command says why the rest does not."""
        done = self.is_commanded(folder)
        (said,) = complaints(done)
        assert done.returncode == 1
        assert f"not all of its host memory is in a file in {folder}: {why}. {filed} are" in said
        assert "left the GPU" in done.stdout
        assert "are in a file" not in done.stdout

    def said(self) -> str:
        """The next line of the program."""
        assert self.program.stdout
        return self.program.stdout.readline().strip()

    def frames(self) -> int:
        """Pages of memory that the driver has given to it, and not got back."""
        (self.device.folder / "away").touch()
        return int(self.said())

    def ends(self) -> tuple[str, str]:
        """Once it is resumed: what it says."""
        suspend(self.device.folder, "g", suspended=False)
        (self.device.folder / "back").touch()
        return self.program.communicate(timeout=PATIENCE_S)

    def descriptor(self) -> Path:
        """Of the file, which has no name."""
        for each in Path(f"/proc/{self.program.pid}/fd").iterdir():
            if str(each.readlink()).startswith(str(self.files)):
                return each
        raise AssertionError


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command says beside its progress."""
    return [line for line in done.stderr.splitlines() if line.startswith("pump: ")]


@pytest.mark.parametrize("hidden", ["known", "any"])
def test_it_comes_back_from_the_file(device: Device, hidden: str) -> None:
    """Also where all of it has to before the first operation."""
    told = Told(device, COMES_BACK, ULMS_HIDDEN=hidden)
    done = told.is_commanded(str(told.files))
    assert (done.returncode, complaints(done)) == (0, [])
    assert done.stdout.endswith(f"{ALL // MIB}.0 MiB are in a file in {told.files}\n")
    assert told.frames() == PLACEHOLDER
    assert list(told.files.iterdir()) == []
    assert told.descriptor().stat().st_mode & 0o777 == 0o600
    assert told.ends() == (f"True {ALL} {ALL}\n", "")


RESTS = """
def pinned():
    done = [driver.emu_calls(b"cuMemHost" + name) for name in (b"Register", b"Unregister")]
    return done[0] - done[1]
while pinned():
    time.sleep(0.01)
print("unpinned", flush=True)
"""


def test_what_copies_need_is_given_back(device: Device) -> None:
    told = Told(device, RESTS + COMES_BACK)
    told.put_away()
    told.frames()
    assert told.said() == "unpinned"
    assert told.ends() == (f"True {ALL} {ALL}\n", "")


CAPTURES = """
stream, graph, ready = (ctypes.c_void_p() for _ in range(3))
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuStreamBeginCapture_v2", stream, 2)
call("cuMemcpyDtoDAsync_v2", starts[0], starts[1], ctypes.c_size_t(PART), stream)
call("cuStreamEndCapture", stream, ctypes.byref(graph))
wait(BACK)
call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_ulonglong(0))
call("cuGraphLaunch", ready, stream)
call("cuStreamSynchronize", stream)
print([words_of(start, PART) for start in starts])
"""


def test_the_driver_knows_what_is_in_the_file(device: Device) -> None:
    """A capture issues nothing, and so it waits for nothing."""
    told = Told(device, CAPTURES)
    told.put_away()
    told.frames()
    assert told.ends() == ("[{1}, {1}, {2}, {3}, {4}]\n", "")


@pytest.mark.parametrize("reserves", [True, False])
def test_what_the_disk_does_not_take_stays(
    device: Device, compiled: Compile, *, reserves: bool
) -> None:
    """It is full, or fails where it does not reserve."""
    preloads = f"{installed('ulms.so')}:{compiled('full_disk', shared=True)}"
    disk = str(device.folder / "files")
    env = {"LD_PRELOAD": preloads, "DISK": disk, "DISK_ROOM": str(ALL // 2)}
    env |= {"DISK_RESERVES": "1"} if reserves else {}
    told = Told(device, COMES_BACK, **env)
    why = "No space left on device" if reserves else "Input/output error"
    told.refuses(str(told.files), why, f"{ALL // 2 // MIB}.0 MiB")
    assert (told.frames() - PLACEHOLDER) * 8 * MIB == ALL // 2
    assert told.ends() == (
        f"True {ALL // 2} {ALL // 2}\n",
        f"[ulms] WARN: device 0: no more pages go to a file ({why}): they stay where they are\n",
    )


def test_what_cannot_be_read_is_refused(device: Device) -> None:
    """And what was not in the file is there."""
    told = Told(
        device,
        """
more = allocated(PART)
wait(BACK)
fill(more, 7, PART)
print(words_of(more, PART), [driver.cuMemsetD8_v2(start, 1, MIB) for start in starts])
""",
    )
    told.put_away()
    told.frames()
    os.truncate(told.descriptor(), 0)
    out, complaints = told.ends()
    assert out == "{7} [2, 2, 2, 2, 2]\n"
    assert complaints == (
        "[ulms] ERROR: device 0: pages cannot be read from their file (Input/output error): what"
        " uses them is refused as out of memory\n"
    )


def test_what_does_not_come_to_rest_is_told(device: Device) -> None:
    """An address in memory may be followed by any kernel: none runs while what is there is lost."""
    told = Told(
        device,
        """
more, address = allocated(PART), ctypes.c_uint64(starts[2].value)
wait(BACK)
fill(more, 7, PART)
driver.cuMemcpyHtoD_v2(more, ctypes.byref(address), ctypes.c_size_t(8))
print(driver.cuMemsetD8_v2(more, 1, MIB))
""",
    )
    told.put_away()
    told.frames()
    os.truncate(told.descriptor(), 0)
    out, lines = told.ends()
    assert out == "2\n"
    assert lines.splitlines()[1:] == [
        "[ulms] WARN: device 0: memory that is to stay does not come to rest: its memory stays"
        " where it is, on the device or on the host"
    ]


@pytest.mark.parametrize(
    ("backend", "folder", "why"),
    [
        ("vmm", "/..", "ULMS_FILE_DIR does not allow it"),
        ("vmm", "/none", "No such file or directory"),
        ("um", "/", "only ULMS_BACKEND=vmm knows it"),
    ],
)
def test_it_stays_where_no_file_may_be(device: Device, backend: str, folder: str, why: str) -> None:
    told = Told(device, COMES_BACK, backend)
    told.refuses(str((told.files / folder[1:]).resolve()), why)
    told.frames()
    out, complaints = told.ends()
    assert out == "True 0 0\n"
    assert complaints.count("\n") == 1
    assert why in complaints


FORKS = """
child = os.fork()
if child == 0:
    wait(BACK)
    files = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
    os._exit(any(path.startswith(os.path.dirname(AWAY) + "/files") for path in files))
print(frames(), flush=True)
"""


@pytest.mark.parametrize("end", ["kill", "exit"])
def test_nothing_is_left(device: Device, end: str) -> None:
    """However it ends; a child has no part in the file."""
    told = Told(device, FORKS + COMES_BACK + "assert os.waitpid(child, 0)[1] == 0\n")
    told.put_away()
    told.frames()
    if end == "kill":
        told.program.kill()
        (device.folder / "back").touch()
        told.program.communicate(timeout=PATIENCE_S)
    else:
        assert told.ends()[0].endswith(f"True {ALL} {ALL}\n")
        assert told.program.returncode == 0
    assert list(told.files.iterdir()) == []


BEYOND = """
import random
sizes, parts, words = [4] * 20 + [44], {}, {}
table, address = allocated(4 * MIB), ctypes.c_uint64()
def get(i):
    start = ctypes.c_uint64()
    if driver.cuMemAlloc_v2(ctypes.byref(start), ctypes.c_size_t(sizes[i] * MIB)) == 0:
        parts[i] = start
for i in range(len(sizes)):
    get(i)
got = len(parts)
for step in range(150):
    i = random.choice(list(parts))
    if i in words:
        assert words_of(parts[i], sizes[i] * MIB) == {words[i]}
    words[i] = random.randrange(1 << 30)
    fill(parts[i], words[i], sizes[i] * MIB)
    if step % 20 == 0:
        call("cuMemFree_v2", parts.pop(i))
        del words[i]
        get(i)
    if step % 50 == 0:
        address.value = parts[random.choice(list(parts))].value
        call("cuMemcpyHtoD_v2", table, ctypes.byref(address), ctypes.c_size_t(8))
assert all(words_of(parts[i], sizes[i] * MIB) == {word} for i, word in words.items())
print(got, counter("file_out_bytes") > 0, counter("file_in_bytes") > 0)
"""


TWO_DEVICES = """
import os
contexts, starts = [context, ctypes.c_void_p()], []
call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[1]), 1)
for i in range(20):
    call("cuCtxSetCurrent", contexts[i % 2])
    starts.append(allocated(8 * MIB))
    fill(starts[i], i, 8 * MIB)
print([words_of(start, 8 * MIB) for start in starts] == [{i} for i in range(20)])
ends = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
files = {os.stat(end).st_ino: os.stat(end) for end in ends if FILES in os.path.realpath(end)}
print([file.st_blocks * 512 // MIB for file in files.values()])
"""


def test_all_devices_have_one_limit(run_emulated: RunEmulated, tmp_path: Path) -> None:
    """And one file; each has room for a page more, while they change places."""
    env = {"ULMS_MANAGED_LIMIT": "112MiB", "ULMS_FILE_LIMIT": "64MiB", "ULMS_PAGE": "4MiB"}
    env |= {"ULMS_FILE_DIR": str(tmp_path), "ULMS_HIDDEN": "known", "EMU_DEVICES": "2"}
    text = f"FILES = {str(tmp_path)!r}\n{TWO_DEVICES}"
    told = run_small(run_emulated, tmp_path, text, memory="32MiB", **env)
    assert told == f"True\n[{64 + 2 * 4}]\n"


COPIES = """
large, few = allocated(44 * MIB), [allocated(4 * MIB) for _ in range(20)]
for i, start in enumerate(few):
    fill(start, i, 4 * MIB)
fill(large, 99, 44 * MIB)
for _ in range(6):
    for i in [*range(6)] * 3:
        assert words_of(few[i], 4 * MIB) == {i}
    assert words_of(large, 44 * MIB) == {99}
"""
"""Six of the few are on the device, and copies of theirs on the host, when the large one comes."""


TURNS = """
large = [allocated(44 * MIB) for _ in range(2)]
for word in range(1, 8):
    for start in large:
        fill(start, word, 44 * MIB)
        assert words_of(start, 44 * MIB) == {word}
"""


THREADS = """
import os, threading
large, meet = [allocated(44 * MIB) for _ in range(2)], threading.Barrier(2)
threading.excepthook = lambda args: os._exit(1)
def turn(i):
    call("cuCtxSetCurrent", context)
    for word in range(1, 8):
        meet.wait()
        fill(large[i], 10 * word + i, 44 * MIB)
        assert words_of(large[i], 44 * MIB) == {10 * word + i}
threads = [threading.Thread(target=turn, args=(i,)) for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
"""Each fills the host."""


BESIDE = """
import threading
class Memset(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint64), ("pitch", ctypes.c_size_t), ("word", ctypes.c_uint),
                ("size", ctypes.c_uint), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]
ends, graph, node = threading.Event(), ctypes.c_void_p(), ctypes.c_void_p()
words = Memset(allocated(4 * MIB).value, 0, 5, 1, 4 * MIB, 1)
def make_graphs():
    call("cuCtxSetCurrent", context)
    while not ends.is_set():
        call("cuGraphCreate", ctypes.byref(graph), 0)
        for _ in range(10):
            call("cuGraphAddMemsetNode", ctypes.byref(node), graph, None, ctypes.c_size_t(0),
                 ctypes.byref(words), context)
        call("cuGraphDestroy", graph)
threading.excepthook = lambda args: os._exit(1)
thread = threading.Thread(target=make_graphs, daemon=True)
thread.start()
"""


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        (COPIES, "32MiB"),
        (TURNS, "12MiB"),
        (THREADS, "12MiB"),
        ("import os\n" + BESIDE + TURNS, "12MiB"),
    ],
    ids=["copies", "turns", "threads", "beside"],
)
def test_the_host_has_room_for_one_operation(
    run_emulated: RunEmulated, tmp_path: Path, text: str, memory: str
) -> None:
    """What it used before leaves: copies of what is on the device, and what the operation before
    has used; also while another thread keeps all pages where they are for a moment.
    """
    env = {"ULMS_MANAGED_LIMIT": "64MiB", "ULMS_FILE_LIMIT": "64MiB", "ULMS_PAGE": "4MiB"}
    env |= {"ULMS_FILE_DIR": str(tmp_path), "ULMS_HIDDEN": "known"}
    ends = "ends.set()\nthread.join()\n" if "ends" in text else ""
    assert not run_small(run_emulated, tmp_path, text + ends, memory=memory, **env)


@pytest.mark.parametrize(
    ("room", "parts", "reserves"), [(1 << 40, 21, True), (32 * MIB, 20, True), (1 << 40, 21, False)]
)
def test_a_program_of_twice_the_host_limit(
    run_emulated: RunEmulated,
    compiled: Compile,
    tmp_path: Path,
    room: int,
    parts: int,
    reserves: bool,
) -> None:
    """One part is larger than the device, and of some others the device has addresses. What the
    disk has no room for is refused when it is allocated. Not all disks can reserve.
    """
    preloads = f"{installed('ulms.so')}:{compiled('full_disk', shared=True)}"
    env = {"ULMS_MANAGED_LIMIT": "64MiB", "ULMS_FILE_LIMIT": "64MiB", "ULMS_PAGE": "4MiB"}
    env |= {"ULMS_FILE_DIR": str(tmp_path), "ULMS_HIDDEN": "known"}
    env |= {"LD_PRELOAD": preloads, "DISK": str(tmp_path), "DISK_ROOM": str(room)}
    env |= {"DISK_RESERVES": "1"} if reserves else {}
    told = run_small(run_emulated, tmp_path, BEYOND, memory="32MiB", **env)
    assert told == f"{parts} True True\n"
