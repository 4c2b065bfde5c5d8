"""What /proc tells of a process, and of those that it has started."""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

STANDARD = (0, 1, 2)
"""Descriptors of the standard streams."""


def is_there(pid: int) -> bool:
    """A process or a thread has this number."""
    return Path(f"/proc/{pid}").exists()


def has_ended(pid: int) -> bool:
    """It has, and its number stays taken until its parent has heard of it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] in "ZX"


def tree(pid: int) -> list[int]:
    """It, and all below it that have not ended."""
    found = [pid]
    for one in found:
        found += [child for thread in threads(one) for child in _children(one, thread)]
    return found


def _children(pid: int, thread: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]


def threads(pid: int) -> list[int]:
    """Their numbers; none of one that has ended."""
    try:
        return sorted(int(path.name) for path in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def name(pid: int) -> str:
    """As `ps` shows it; "" of one that has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def command(pid: int) -> list[str]:
    """Its words; none of one that has ended."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return []
    return [word.decode(errors="replace") for word in words]


def streams(pid: int) -> dict[int, str]:
    """Where its standard streams lead, as the links of /proc tell it."""
    found = {}
    for number in STANDARD:
        with suppress(OSError):
            found[number] = str(Path(f"/proc/{pid}/fd/{number}").readlink())
    return found


def is_of_terminal(pid: int) -> bool:
    """A shell's job, or one with a terminal of its own."""
    devices = ("/dev/pts/", "/dev/tty", "/dev/console")
    return os.getsid(pid) != pid or any(to.startswith(devices) for to in streams(pid).values())


def memory(pids: Iterable[int]) -> int:
    """Bytes that they have and that are in no file."""
    kinds, total = ("RssAnon:", "RssShmem:", "VmSwap:"), 0
    for pid in pids:
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
                words = line.split()
                total += int(words[1]) * 1024 if words and words[0] in kinds else 0
    return total


def writes(pids: Iterable[int]) -> dict[str, int]:
    """Files that have a name and that they may write to, and how long each is."""
    found = {}
    for pid in pids:
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    path, may_write = link.readlink(), link.lstat().st_mode & stat.S_IWUSR
                    if may_write and link.is_file() and link.samefile(path):
                        found[str(path)] = link.stat().st_size
    return found
