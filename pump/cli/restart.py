"""`pump restart`."""

import argparse
import ctypes
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pump import __version__, checkpoint, manifest, processes
from pump.cli.checkpoint import (
    IMAGES,
    LOOK_S,
    PARTIAL,
    TOLD_S,
    barred,
    come_back,
    criu_is,
    words_of,
)
from pump.cli.child import attend, end_like, signals
from pump.criu import Criu, CriuError
from pump.manifest import ManifestError
from pump.nvml import NoNvmlError, Nvml
from pump.share import broker
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.status import Status

ENDED_S = 10.0
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: who has lost its parent becomes this process's child."""


class Restart:
    """Start a program again from a checkpoint that `pump checkpoint` has written.

    It goes on where it was, under its old process number. This command passes signals on to it,
    waits for it, and ends as it does.
    """

    name = "restart"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which, and how."""
        parser.add_argument("folder", type=Path, metavar="DIR", help="of `pump checkpoint`")
        parser.add_argument(
            "--verify", action="store_true", help="only see whether it is whole and fits here"
        )
        parser.add_argument(
            "--detach", action="store_true", help="return once it runs, instead of waiting for it"
        )
        parser.add_argument(
            "--truncate",
            action="store_true",
            help="cut files that it wrote to, and that have grown since, to what they were",
        )
        criu_is(parser)

    def main(self, args: argparse.Namespace) -> int:
        """Looks at everything first."""
        folder: Path = args.folder.absolute()
        try:
            found = manifest.read(folder)
            if folder.name.endswith(PARTIAL):
                raise ManifestError(f"{folder} is no checkpoint: it was not finished")
            fits(found)
            criu = None if args.verify else ready(args.criu, found)
            manifest.verify(folder, found, Reading(found).tell)
            if not criu:
                print(f"{folder} is whole: {found['program']}")
                return Status.DONE
            are_as_long(found, truncates=args.truncate)
            os.environ["ULMS_SHARE_DIR"] = found["share_dir"]
            broker.start_for_program(broker.folder())
        except (ManifestError, CriuError, ShareError) as error:
            raise UsageError(str(error)) from error
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
        pid: int = found["pid"]
        told = signals()
        try:
            start(criu, folder, found)
        except (CriuError, ShareError) as error:
            print(f"pump: {found['program']} is not restarted: {error}", file=sys.stderr)
            return Status.FAILED
        print(f"{found['program']} goes on", file=sys.stderr, flush=True)
        return Status.DONE if args.detach else end_like(attend(pid, told))


class Reading:
    """Tells how much was read."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.told = time.monotonic()
        self.read = 0
        self.all = sum(size for size, _ in found["files"].values())

    def tell(self, more: int) -> None:
        """So many bytes more are."""
        self.read += more
        if time.monotonic() > self.told + TOLD_S:
            self.told = time.monotonic()
            read, whole = format_size(self.read), format_size(self.all)
            print(f"{read} of {whole} are verified", file=sys.stderr, flush=True)


def fits(found: dict[str, Any]) -> None:
    """Whether this machine is of its kind. Raises ManifestError."""
    if found["pump"] != __version__:
        raise ManifestError(
            f"it was written by pump {found['pump']}, which must restart it: this is {__version__}"
        )
    here, drivers = gpus()
    if not any(gpu["kind"] for gpu in found["gpus"]):
        return  # NVML did not tell
    lacks = Counter(gpu["kind"] for gpu in found["gpus"]) - Counter(here)
    if lacks:
        kind, count = lacks.most_common()[0]
        has = ", ".join(here) or "none"
        raise ManifestError(f"it needs {count} more GPU of the kind {kind}: here is {has}")
    its = {gpu["driver"] for gpu in found["gpus"]} - {""}
    if its and drivers and its != drivers:
        raise ManifestError(
            f"it needs the driver {', '.join(its)}, and here is {', '.join(drivers)}"
        )


def gpus() -> tuple[list[str], set[str]]:
    """The kinds of all that are here, and the driver's version."""
    kinds: list[str] = []
    drivers: set[str] = set()
    with suppress(NoNvmlError):
        while True:
            gpu = Nvml(len(kinds))
            kinds.append(gpu.kind())
            with suppress(NoNvmlError):
                drivers.add(gpu.driver())
    return kinds, drivers


def ready(named: str | None, found: dict[str, Any]) -> Criu:
    """Whether all that it takes is there. Raises UsageError, CriuError."""
    criu = Criu(named)
    criu.check()
    if why := checkpoint.able():
        raise UsageError(why)
    if taken := still_taken(found["pids"]):
        is_it = processes.name(taken[0])
        raise UsageError(
            f"its number {taken[0]} is taken (by {is_it}): it can be restarted once that has ended"
        )
    return criu


def still_taken(numbers: list[int]) -> list[int]:
    """Those of them that processes or threads have. One that has just ended is waited for."""
    end = time.monotonic() + ENDED_S
    while taken := [number for number in numbers if processes.is_there(number)]:
        if time.monotonic() > end or not all(map(processes.has_ended, taken)):
            break
        time.sleep(LOOK_S)
    return taken


def are_as_long(found: dict[str, Any], *, truncates: bool) -> None:
    """Files that it writes to are what they were, or are made so. Raises UsageError."""
    streams = set(found["streams"].values())
    for path, size in found["writes"].items():
        if path not in streams:
            is_as_long(Path(path), size, truncates=truncates)


def is_as_long(path: Path, size: int, *, truncates: bool) -> None:
    """One of them. Raises UsageError."""
    try:
        now = path.stat().st_size
        if now > size and truncates:
            os.truncate(path, size)
            now = size
    except OSError as error:
        raise UsageError(f"{path}, which it writes to: {error.strerror}") from error
    if now != size:
        more = ": --truncate cuts it" if now > size else ""
        raise UsageError(f"{path}, which it writes to, had {size} bytes and has {now}{more}")


def start(criu: Criu, folder: Path, found: dict[str, Any]) -> None:
    """Raises CriuError, ShareError: it does not run."""
    pids: list[int] = sorted(set(found["tenants"]))
    try:
        with barred(pids), inherited(found["streams"]) as (words, descriptors):
            criu.restore(folder / IMAGES, [*words_of(found), *words], descriptors)
        if why := come_back(rows_of(found), hung_up=True):
            raise ShareError(why)
    except BaseException:
        end(found)
        raise


def rows_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Of its tenants, as they were: those that were suspended stay so."""
    suspended = set(found["suspended"])
    return [
        {"pid": p, "released": 0, "suspended": p in suspended, "parked": 0}
        for p in found["tenants"]
    ]


def end(found: dict[str, Any]) -> None:
    """Of what was restarted, nothing stays."""
    pids = processes.tree(found["pid"]) if is_child(found["pid"]) else []
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for pid in pids:  # whose parent has ended is this process's child
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def is_child(pid: int) -> bool:
    """Of this process; not one that has its number by chance."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[1]) == os.getpid()
    return False


@contextmanager
def inherited(streams: dict[str, str]) -> Iterator[tuple[list[str], list[int]]]:
    """CRIU's words by which pipes and files that were standard streams become those of this
    process, and the descriptors that these words mean. A terminal does so by itself.
    """
    words: dict[str, int] = {}
    for number, to in streams.items():
        if resource := resource_of(to):
            words.setdefault(resource, int(number))
    descriptors = {resource: os.dup(number) for resource, number in words.items()}
    try:
        for descriptor in descriptors.values():
            os.set_inheritable(descriptor, True)
        yield (
            [f"--inherit-fd=fd[{number}]:{to}" for to, number in descriptors.items()],
            list(descriptors.values()),
        )
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)


def resource_of(link: str) -> str:
    """What CRIU calls it; "": it is left to CRIU."""
    if link.startswith("/") and not link.startswith("/dev/"):
        return link.lstrip("/")
    return link if link.startswith("pipe:") else ""
