"""Live counters of running programs: the files that ULMS_STATS makes (layout: `csrc/ulms.h`)."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pump.regular import read_own

FOLDER = Path("/dev/shm")
"""Where `ULMS_STATS=on` puts them."""
_PATTERN = "ulms-*-*"
_MAGIC = b"ulmsstat"
_VERSION = 1
_MOST = 1 << 20
"""Bytes of a file: today's version has less than a quarter of it."""

_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("pid", "<u4"),
        ("process_start", "<u8"),
        ("opened_ns", "<u8"),
        ("heartbeat_ns", "<u8"),
        ("counters", "<u4"),
        ("devices", "<u4"),
        ("slots", "<u4"),
        ("row_bytes", "<u4"),
        ("memory_bytes", "<u4"),
        ("slot_bytes", "<u4"),
        ("rows_at", "<u4"),
        ("memory_at", "<u4"),
        ("slots_at", "<u4"),
        ("file_bytes", "<u4"),
        ("program", "S48"),
        ("held", "<u4"),
        ("held_at", "<u4"),
        ("held_bytes", "<u4"),
        ("unused", "<u4"),
        ("pid_namespace", "<u8"),
    ]
)
_ROW_FIELDS = {"name": ("S32", 0), "unit": ("S8", 32), "help": ("S88", 40)}
_HELD_FIELDS = {
    "key": ("<u8", 0),
    "ns": ("<u8", 8),
    "times": ("<u8", 16),
    "missing_bytes": ("<u8", 24),
    "name": ("S160", 32),
}
_HELD_SUMS = ("ns", "times", "missing_bytes")
_MEMORY_FIELDS = {"used": ("<u8", 0), "peak": ("<u8", 8), "capacity": ("<u8", 16)}


_HELD_ENDS = _HEADER.fields["held_bytes"][1] + 4  # type: ignore[index]
"""Where the fields that tell of what was held end in the header."""


class StatsError(Exception):
    """A file that holds no counters. One line: the file and why."""


@dataclass(frozen=True)
class Counter:
    """One counter."""

    name: str
    unit: str
    """`B` for bytes, else empty."""
    help: str
    value: int


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes charged to one device."""

    device: int
    used: int
    peak: int
    capacity: int
    """0: no limit."""


@dataclass(frozen=True)
class Held:
    """What was held at gates: the launches of a kernel, or the other operations of a call."""

    name: str
    """Cut off where it is long."""
    ns: int
    times: int
    missing_bytes: int
    """Of the pages that were waited for."""


@dataclass(frozen=True)
class Snapshot:
    """The counters of one program at one moment."""

    path: Path
    pid: int
    program: str
    opened: float
    """When counting began, in seconds since 1970."""
    alive: bool
    """The program still runs; else its file was left behind."""
    nearby: bool
    """Its process has a number in our namespace: what is not alive is gone."""
    taken_ns: int
    """CLOCK_MONOTONIC when this was read."""
    heartbeat_ns: int
    """CLOCK_MONOTONIC when the program last did something, seen to 64 operations; 0: never."""
    counters: dict[str, Counter]
    memory: list[DeviceMemory]
    """The devices in use."""
    held: list[Held]
    """Longest first."""

    def __getitem__(self, name: str) -> int:
        """Value of a counter. Raises KeyError."""
        return self.counters[name].value

    @property
    def idle_s(self) -> float:
        """Seconds since the program last did something."""
        return max(0, self.taken_ns - self.heartbeat_ns) / 1e9


@dataclass(frozen=True)
class Change:
    """What happened between two snapshots of one program."""

    seconds: float
    counts: dict[str, int]

    def rate(self, name: str) -> float:
        """Counts a second; 0 when no time has passed. Raises KeyError."""
        return self.counts[name] / self.seconds if self.seconds > 0 else 0.0


def change(earlier: Snapshot, later: Snapshot) -> Change:
    """What happened from one snapshot to a later one."""
    before = earlier.counters
    return Change(
        (later.taken_ns - earlier.taken_ns) / 1e9,
        {
            name: counter.value - (before[name].value if name in before else 0)
            for name, counter in later.counters.items()
        },
    )


def running_pid(pid: int, folder: Path = FOLDER) -> Snapshot:
    """A running program. Raises StatsError when it shows no counters."""
    for snapshot in running(folder):
        if snapshot.pid == pid:
            return snapshot
    raise StatsError(f"process {pid} shows no counters: start it with ULMS_STATS=on")


def running(folder: Path = FOLDER) -> list[Snapshot]:
    """Programs that run now, oldest first. What dead programs of this user left behind is removed;
    one of another container's may look dead, and stays.
    """
    live = []
    for path in folder.glob(_PATTERN):
        try:
            snapshot = read(path)
        except (StatsError, OSError):
            continue  # another user's, gone since, or something else of that name
        if snapshot.alive:
            live.append(snapshot)
        elif snapshot.nearby:
            _remove_own(path)
    return sorted(live, key=lambda snapshot: snapshot.opened)


def _remove_own(path: Path) -> None:
    with suppress(OSError):
        if path.lstat().st_uid == os.geteuid():
            path.unlink()


def read(path: Path) -> Snapshot:
    """Reads a file of this user's once, root any. Raises StatsError for a file that holds no
    counters, OSError: also for a link, for what is no file, and for one that is too large.
    """
    data = read_own(path, _MOST)
    taken = time.monotonic_ns()
    if len(data) < _HEADER.itemsize or data[: len(_MAGIC)] != _MAGIC:
        raise StatsError(f"{path}: holds no counters")
    header = np.frombuffer(data, dtype=_HEADER, count=1)[0]
    if header["version"] != _VERSION:
        raise StatsError(f"{path}: version {header['version']}; this reader knows {_VERSION}")
    if header["file_bytes"] > len(data):
        raise StatsError(f"{path}: is cut off")
    try:
        counters = _counters(data, header)
        memory = _memory(data, header)
        held = _held(data, header)
    except ValueError as error:
        raise StatsError(f"{path}: makes no sense ({error})") from error
    pid = int(header["pid"])
    return Snapshot(
        path=path,
        pid=pid,
        program=header["program"].decode(errors="replace"),
        opened=int(header["opened_ns"]) / 1e9,
        alive=_runs(pid, int(header["process_start"])),
        nearby=_namespace() == _namespace_of(header),
        taken_ns=taken,
        heartbeat_ns=int(header["heartbeat_ns"]) - _clock_shift(pid),
        counters=counters,
        memory=memory,
        held=held,
    )


def _table(
    data: bytes, fields: dict[str, tuple[str, int]], at: int, count: int, size: int
) -> list[dict[str, bytes | int]]:
    """A table of the file as it describes itself; fields behind the known ones are passed over."""
    dtype = np.dtype(
        {
            "names": list(fields),
            "formats": [text for text, _ in fields.values()],
            "offsets": [offset for _, offset in fields.values()],
            "itemsize": size,
        }
    )
    rows = np.frombuffer(data, dtype=dtype, count=count, offset=at)
    return [dict(zip(fields, row, strict=True)) for row in rows.tolist()]


def _counters(data: bytes, header: np.void) -> dict[str, Counter]:
    count, slots = int(header["counters"]), int(header["slots"])
    rows = _table(data, _ROW_FIELDS, int(header["rows_at"]), count, int(header["row_bytes"]))
    size = int(header["slot_bytes"])
    slot = np.dtype({"names": ["n"], "formats": [f"({count},)<u8"], "itemsize": size})
    values = np.frombuffer(data, dtype=slot, count=slots, offset=int(header["slots_at"]))["n"]
    sums = values.sum(axis=0, dtype=np.uint64).tolist()
    named = {}
    for row, value in zip(rows, sums, strict=True):
        name, unit, text = (_text(row[field]) for field in ("name", "unit", "help"))
        named[name] = Counter(name, unit, text, value)
    return named


def _memory(data: bytes, header: np.void) -> list[DeviceMemory]:
    count, size = int(header["devices"]), int(header["memory_bytes"])
    rows = _table(data, _MEMORY_FIELDS, int(header["memory_at"]), count, size)
    numbers = [[int(row[field]) for field in _MEMORY_FIELDS] for row in rows]
    return [DeviceMemory(device, *row) for device, row in enumerate(numbers) if any(row)]


def _held(data: bytes, header: np.void) -> list[Held]:
    if header["rows_at"] < _HELD_ENDS:
        return []  # written by an earlier version: the header ends before
    count, size = int(header["held"]), int(header["held_bytes"])
    rows = _table(data, _HELD_FIELDS, int(header["held_at"]), count, size)
    held: dict[str, Held] = {}
    for row in rows:
        if row["key"] and row["times"]:
            name = _text(row["name"])  # one kernel may have had several numbers
            one = held.get(name, Held(name, 0, 0, 0))
            sums = [int(row[field]) + getattr(one, field) for field in _HELD_SUMS]
            held[name] = Held(name, *sums)
    return sorted(held.values(), key=lambda each: (-each.ns, each.name))


def _text(value: bytes | int) -> str:
    assert isinstance(value, bytes)
    return value.decode(errors="replace")


def _namespace() -> int | None:
    """Of process numbers; None: /proc does not say."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return None


def _namespace_of(header: np.void) -> int:
    """The program's; 0: it did not say, or its version has no such field."""
    known = header["rows_at"] >= _HEADER.itemsize
    return int(header["pid_namespace"]) if known else 0


def _runs(pid: int, start: int) -> bool:
    """Is this still the process that began at `start` (clock ticks from boot, give or take one)?"""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    after_name = stat.rpartition(")")[2].split()
    state, started = after_name[0], int(after_name[19])
    return abs(started - start) <= 1 and state not in "ZX"


def _clock_shift(pid: int) -> int:
    """Nanoseconds by which its CLOCK_MONOTONIC is ahead of ours: one that was restarted from a disk
    has a time namespace of its own.
    """
    try:
        text = Path(f"/proc/{pid}/timens_offsets").read_text(encoding="ascii")
        _, seconds, ns = next(line for line in text.splitlines() if "monotonic" in line).split()
    except (OSError, StopIteration, ValueError):
        return 0
    return int(seconds) * 10**9 + int(ns)
