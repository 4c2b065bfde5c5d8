"""`pump checkpoint`."""

import argparse
import errno
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from pump import __version__, checkpoint, manifest, processes
from pump.cli import suspend, tenants
from pump.criu import Criu, CriuError
from pump.nvml import NoNvmlError
from pump.share import broker
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.status import Status

LOOK_S = 0.02
TOLD_S = 1.0
"""So often progress is told."""
BACK_S = 20.0
"""A program meets its broker again within seconds."""
IMAGES = "images"
PARTIAL = ".partial"
SPARE = 1.1
"""Of what is to be written: the disk has room for so much."""


class Checkpoint:
    """Write a program that shares a GPU to a disk, so that `pump restart` can start it again.

    All of it: its memory on the GPU and on the host, its context, its threads. It goes on
    afterwards. The folder is there once it is whole, or not at all.
    """

    name = "checkpoint"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whom, where to, and how."""
        suspend.who_is(parser)
        parser.add_argument("folder", type=Path, metavar="DIR", help="a folder that is not there")
        parser.add_argument(
            "--end", action="store_true", help="end the program once its checkpoint is whole"
        )
        parser.add_argument(
            "--tcp-established",
            action="store_true",
            help="write its TCP connections as well, instead of refusing where it has any",
        )
        suspend.waits(parser, "seconds for it to leave")
        criu_is(parser)

    def main(self, args: argparse.Namespace) -> int:
        """Looks at everything first, then does it; a line a process."""
        try:
            criu = Criu(args.criu)
            program = Program.found(args.who)
            ready(criu, program, args.folder)
        except (ShareError, CriuError) as error:
            raise UsageError(str(error)) from error
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            with new_folder(args.folder) as folder:
                return Writing(criu, program, args, folder).run()
        except (ShareError, CriuError, OSError) as error:
            # CRIU may fail to end what it has written
            whole = args.end and args.folder.is_dir() and not isinstance(error, OSError)
            lacks = f"{args.folder} is whole, but" if whole else "no checkpoint:"
            print(f"pump: {program.name}: {lacks} {error}", file=sys.stderr)
            return Status.FAILED
        finally:
            signal.signal(signal.SIGTERM, before)


def criu_is(parser: argparse.ArgumentParser) -> None:
    """The argument of both."""
    parser.add_argument(
        "--criu", metavar="FILE", help="CRIU (else PUMP_CRIU, or the `criu` of PATH)"
    )


class Program:
    """One process and all below it; some of them share GPUs."""

    def __init__(self, pid: int, rows: list[dict[str, Any]]) -> None:
        self.pid = pid
        self.rows = rows
        self.tenants = sorted({row["pid"] for row in rows})
        self.name = suspend.name(rows[0] | {"pid": pid, "program": processes.name(pid)})

    @classmethod
    def found(cls, who: str) -> "Program":
        """The one that is meant. Raises ShareError."""
        if not broker.numbers_processes_alike(broker.folder()):
            raise ShareError(suspend.ELSEWHERE)
        everyone = list(tenants.each(broker.status(broker.folder())))
        meant = {row["pid"] for row in suspend.found(who)}
        number = who.removeprefix("pid:")
        if not meant and number.isdecimal():
            meant = {int(number)}  # what has started programs that share, for one
        above = [pid for pid in sorted(meant) if meant <= set(processes.tree(pid))]
        if meant and not above:
            numbers = ", ".join(map(str, sorted(meant)))
            raise ShareError(
                f"{who}: several programs, name one by its number, or what started all: {numbers}"
            )
        below = set(processes.tree(above[0])) if above else set()
        rows = [row for row in everyone if row["pid"] in below]
        if not rows:
            raise ShareError(
                f"{who}: no program shares a GPU under that name or process number"
                " (`pump share status`)"
            )
        return cls(above[0], rows)

    def needs(self) -> int:
        """Bytes that it may have on the disk."""
        on_gpus: int = sum(row["resident"] for row in self.rows)
        return processes.memory(processes.tree(self.pid)) + on_gpus

    def lives(self) -> bool:
        """All of it that shares GPUs."""
        return all(processes.name(pid) and processes.threads(pid) for pid in self.tenants)


def ready(criu: Criu, program: Program, folder: Path) -> None:
    """Whether all that it takes is there. Nothing was touched. Raises UsageError, CriuError."""
    criu.check()
    if why := checkpoint.able():
        raise UsageError(why)
    if os.getpid() in processes.tree(program.pid):
        raise UsageError(f"process {program.pid} has started this command, and would stop it")
    if folder.name.endswith(PARTIAL):
        raise UsageError(f"{folder}: another name is accepted: this one is of what is not whole")
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already")
    above = folder.absolute().parent
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{above} is no folder that can be written to")
    space = shutil.disk_usage(above).free
    if space < program.needs() * SPARE:
        raise UsageError(
            f"{above} has room for {format_size(space)}, and {program.name} needs about"
            f" {format_size(program.needs() * SPARE)}"
        )


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """One beside it that is no checkpoint yet; it is gone afterwards, whatever happens, if the
    block has not given it its name. What a killed command left is gone before. Raises OSError.
    """
    new = folder.absolute().with_name(folder.name + PARTIAL)
    new.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise OSError(errno.EBUSY, "another command writes there", str(new)) from error
        emptied(new)
        try:
            yield new
        finally:
            if new.exists():
                shutil.rmtree(new, ignore_errors=True)
    finally:
        os.close(lock)


def emptied(folder: Path) -> None:
    """Raises OSError."""
    for each in folder.iterdir():
        shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


class Writing:
    """A checkpoint that is being written. Whatever is raised: the program goes on, as it was."""

    def __init__(
        self, criu: Criu, program: Program, args: argparse.Namespace, folder: Path
    ) -> None:
        self.criu = criu
        self.program = program
        self.folder: Path = args.folder.absolute()
        self.partial = folder
        self.ends: bool = args.end
        self.tcp: bool = args.tcp_established
        self.seconds: float = args.timeout
        self.goes_on, self.trouble = True, ""
        self.told = time.monotonic()
        self.read = 0

    def run(self) -> int:
        """Raises ShareError, CriuError, OSError."""
        images = self.partial / IMAGES
        images.mkdir()
        began = time.monotonic()
        with self.away():
            facts = self.facts()
            whole = partial(self.becomes_whole, facts) if self.ends else None
            self.criu.dump(
                self.program.pid, images, words_of(facts), whole=whole, looks=self.tell_written
            )
            self.goes_on = not self.ends
        stood = time.monotonic() - began
        if not self.ends:
            self.becomes_whole(facts)
        size = format_size(manifest.size(self.folder))
        then = f"it stood still for {stood:.1f} s, and goes on"
        if self.ends:
            then = f"it has ended: `pump restart {self.folder}` starts it again"
        print(f"{self.program.name}: {size} are in {self.folder}; {then}")
        return Status.FAILED if self.trouble else Status.DONE

    @contextmanager
    def away(self) -> Iterator[None]:
        """In the block nothing of the program is on a GPU, and it has no connection to its broker.
        Afterwards it is as it was, if it goes on; self.trouble says if not. Raises ShareError.
        """
        hung_up = False
        try:
            leaves(self.program, self.seconds)
            with barred(self.program.tenants):
                hung_up = True
                hangs_up(self.program, self.seconds)
                yield
        finally:
            if self.goes_on:
                self.trouble = come_back(self.program.rows, hung_up=hung_up)
                if self.trouble:
                    print(f"pump: {self.program.name}: {self.trouble}", file=sys.stderr)

    def facts(self) -> dict[str, Any]:
        """What `pump restart` must know, and people may."""
        program = self.program
        pids = processes.tree(program.pid)
        return {
            "pump": __version__,
            "criu": list(self.criu.version),
            "kernel": os.uname().release,
            "program": program.name,
            "command": processes.command(program.pid),
            "pid": program.pid,
            "tenants": sorted(row["pid"] for row in program.rows),  # one for each GPU
            "pids": sorted({n for pid in pids for n in processes.threads(pid)}),
            "suspended": sorted({row["pid"] for row in program.rows if stays(row)}),
            "shell_job": processes.is_of_terminal(program.pid),
            "tcp_established": self.tcp,
            "streams": {str(n): to for n, to in processes.streams(program.pid).items()},
            "writes": processes.writes(pids),
            "share_dir": str(broker.folder().absolute()),
            "gpus": [kind_of(uuid) for uuid in sorted({row["gpu"] for row in program.rows})],
        }

    def becomes_whole(self, facts: dict[str, Any]) -> None:
        """On the disk, with sums, and with its name. Raises OSError."""
        if self.folder.exists():
            raise FileExistsError(errno.EEXIST, "it is there already", str(self.folder))
        self.read = 0
        manifest.write(self.partial, facts, self.tell_read)
        self.partial.rename(self.folder)
        manifest.sync(self.folder.parent)

    def tell_written(self) -> None:
        """While CRIU writes."""
        with suppress(OSError):  # a file that it has just removed
            self.tell(f"{format_size(manifest.size(self.partial))} are written")

    def tell_read(self, more: int) -> None:
        """While sums are made."""
        self.read += more
        self.tell(f"{format_size(self.read)} are on the disk and summed up")

    def tell(self, what: str) -> None:
        """Now and then."""
        if time.monotonic() > self.told + TOLD_S:
            self.told = time.monotonic()
            print(f"{self.program.name}: {what}", file=sys.stderr, flush=True)


def words_of(facts: dict[str, Any]) -> list[str]:
    """What CRIU is told both ways."""
    words = ["--shell-job"] if facts["shell_job"] else []
    return words + (["--tcp-established"] if facts["tcp_established"] else [])


def kind_of(uuid: str) -> dict[str, str]:
    """A GPU, as far as NVML tells."""
    found = {"uuid": uuid, "kind": "", "driver": ""}
    with suppress(NoNvmlError):
        gpu = tenants.nvml(uuid)
        found["kind"] = gpu.kind()
        found["driver"] = gpu.driver()
    return found


def leaves(program: Program, seconds: float) -> None:
    """Raises ShareError."""
    command = suspend.Suspend()
    released = {row["pid"] for row in program.rows if row["released"]}
    for pid in program.tenants:
        broker.suspend(broker.folder(), f"pid:{pid}", suspended=True, context="LEAVES")
    for pid in program.tenants:
        rows = command.wait(f"pid:{pid}", seconds, context=True)
        late = [row for row in rows if not suspend.is_gone(row)]
        if late or not rows:
            raise ShareError(f"its memory has not left the GPU after {seconds:g} s")
        why, _ = command.take_contexts(rows, seconds, released)[pid]
        if why:
            raise ShareError(why)


@contextmanager
def barred(pids: Sequence[int]) -> Iterator[None]:
    """They have no connection to the broker, soon, and make none while the block lasts, or this
    process.
    """
    paths = [broker.folder() / f"bar-{pid}" for pid in pids]
    files = [path.open("w", encoding="ascii") for path in paths]
    try:
        for file in files:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        for file, path in zip(files, paths, strict=True):
            path.unlink(missing_ok=True)
            file.close()


def hangs_up(program: Program, seconds: float) -> None:
    """Raises ShareError."""
    end = time.monotonic() + seconds
    while any(suspend.found(f"pid:{pid}") for pid in program.tenants):
        if time.monotonic() > end:
            raise ShareError(f"it has not let go of its broker after {seconds:g} s")
        time.sleep(LOOK_S)
    if not program.lives():
        raise ShareError("it has ended")


def come_back(rows: Sequence[dict[str, Any]], *, hung_up: bool) -> str:
    """To what they were when these rows were found: with their context, and running. `hung_up`:
    their contexts are away, and they may still have to meet their broker. Returns what is amiss;
    "": nothing.
    """
    pids = sorted({row["pid"] for row in rows})
    try:
        # one that was started for a program ends when nobody is there
        broker.start(broker.folder(), broker.PROGRAM_IDLE_S)
        mine = {pid: [row for row in rows if row["pid"] == pid] for pid in pids}
        lacks = [comes_back(pid, mine[pid], hung_up=hung_up) for pid in pids]
    except ShareError as error:
        lacks = [f"it stays suspended: {error}"]
    return next((why for why in lacks if why), "")


def met(pid: int, *, hung_up: bool) -> list[dict[str, Any]]:
    """Its rows; where it had hung up, those of which the broker knows already that the context is
    away.
    """
    return [row for row in suspend.found(f"pid:{pid}") if row["released"] or not hung_up]


def stays(row: dict[str, Any]) -> bool:
    """It was suspended by a command."""
    return bool(row["suspended"] and not row["parked"])


def comes_back(pid: int, rows: Sequence[dict[str, Any]], *, hung_up: bool) -> str:
    """Likewise, of one. Raises ShareError."""
    again = f"`pump resume {pid}` tries it again"
    end = time.monotonic() + BACK_S
    while len(now := met(pid, hung_up=hung_up)) < len(rows):
        if not processes.threads(pid):
            return f"process {pid} has ended"
        if time.monotonic() > end:
            return f"process {pid} does not meet its broker: {again}"
        time.sleep(LOOK_S)
    away = [row for row in now if row["released"] and not all(row["released"] for row in rows)]
    while any(map(suspend.no_room, away)) and time.monotonic() < end:
        time.sleep(LOOK_S)  # others had its room, and give it back
    if why := suspend.bring_contexts(away)[pid] if away else "":
        return f"process {pid} stays suspended: {why}: {again}"
    suspended = all(stays(row) for row in rows)
    broker.suspend(broker.folder(), f"pid:{pid}", suspended=suspended)
    return ""
