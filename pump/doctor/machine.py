"""The machine around the GPU: C library, shared memory, host memory, containers."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pump import paths
from pump.doctor.finding import Finding, note, ok, problem
from pump.elf import glibc_needed
from pump.sizes import MIB, format_size

SHARED_MEMORY = Path("/dev/shm")
CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
NO_LIMIT = 1 << 60  # bytes: cgroups write "none" as a huge number


@dataclass(frozen=True)
class Clues:
    """What kind of machine this is. Memory in bytes."""

    container: bool
    wsl: bool
    device_nodes: bool
    glibc: tuple[int, ...]  # () where the C library is another
    glibc_needed: tuple[int, ...]  # by the library
    shared_memory: int | None  # free; None when it cannot be written
    host_memory: int  # that processes here may use

    @staticmethod
    def gather() -> "Clues":
        """Looks at this machine."""
        return Clues(
            container=any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")),
            wsl="microsoft" in platform.release().lower(),
            device_nodes=Path("/dev/nvidiactl").exists(),
            glibc=glibc_version(),
            glibc_needed=glibc_needed(paths.library()),
            shared_memory=free_shared_memory(),
            host_memory=host_memory(),
        )


def glibc_version() -> tuple[int, ...]:
    """The version of the GNU C library; () where the C library is another."""
    name, version = platform.libc_ver()
    return tuple(map(int, version.split(".")[:2])) if name == "glibc" else ()


def free_shared_memory() -> int | None:
    """Free bytes of /dev/shm; None when it cannot be written."""
    if not os.access(SHARED_MEMORY, os.W_OK):
        return None
    space = os.statvfs(SHARED_MEMORY)
    return space.f_bavail * space.f_frsize


def host_memory() -> int:
    """Bytes of memory that processes here may use: the machine's, or the control group's limit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in CGROUP_LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit() and int(text) < NO_LIMIT:
            limits.append(int(text))
    return min(limits)


def findings(clues: Clues, device_memory: int) -> Iterator[Finding]:
    """What there is to say about the machine; device_memory in bytes over all devices, 0: none."""
    version = ".".join(map(str, clues.glibc))
    if not clues.glibc:
        yield problem("C library", "not the GNU C library", "use a distribution with glibc")
    elif clues.glibc < clues.glibc_needed:
        oldest = ".".join(map(str, clues.glibc_needed))
        yield problem("C library", f"glibc {version}", f"glibc {oldest} or newer is needed")
    else:
        yield ok("C library", f"glibc {version}")
    if clues.shared_memory is None:
        yield problem(
            "/dev/shm", "cannot be written", "mount it, or name a file: ULMS_STATS=/path/to/file"
        )
    elif clues.shared_memory < MIB:
        yield problem("/dev/shm", "is full", "live counters need 1 MiB of it (docker: --shm-size)")
    else:
        yield ok("/dev/shm", f"{format_size(clues.shared_memory)} free")
    text = format_size(clues.host_memory)
    if clues.host_memory < device_memory:
        yield note(
            "host memory",
            f"{text}, less than the {format_size(device_memory)} of the devices",
            "memory that leaves a device goes to the host: give the machine or container more",
        )
    else:
        yield ok("host memory", text)
    if clues.wsl:
        yield note("system", "Windows Subsystem for Linux", "managed memory is limited there")
