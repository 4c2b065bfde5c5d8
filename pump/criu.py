"""CRIU, which writes a process to a disk with what the kernel knows of it, and brings it back."""

import os
import re
import select
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

OLDEST = (4, 0)
LOOK_S = 0.5
LOG = "log"
NO_LIMIT = "1024G"
"""Bytes of an unlinked file that goes into the images."""
HARMLESS = "RLIMIT_NOFILE"
"""CRIU complains of this limit, and goes on."""
COMPLAINT = re.compile(r"Error \(([^)]*)\): (.*)")
ALIKE = ("--file-locks", "--manage-cgroups=ignore")
"""Cgroups are those of whoever restarts it: a job's, for one."""
ASKS = """#!/bin/sh
[ "$CRTOOLS_SCRIPT_ACTION" = post-dump ] || exit 0
echo > /proc/{pid}/fd/{told} || exit 1
read -r answer < /proc/{pid}/fd/{answer} && [ "$answer" = end ]
"""
"""All is written, and the processes are still stopped: CRIU ends them, or lets them go on if this
fails, as it does once the process of that number is dead.
"""


class CriuError(Exception):
    """It is not there, or cannot do it. One line."""


class Criu:
    """The program."""

    def __init__(self, named: str | None = None) -> None:
        """That file, or the one that PUMP_CRIU or PATH finds. Raises CriuError."""
        wanted = named or os.environ.get("PUMP_CRIU") or "criu"
        found = shutil.which(wanted) or shutil.which(wanted, path="/usr/sbin:/sbin:/usr/local/sbin")
        if not found:
            raise CriuError(
                f"there is no `{wanted}`: install CRIU {_dotted(OLDEST)} or newer (criu.org), or"
                " name it with --criu"
            )
        self.command = found
        self.version = self._version()

    def _version(self) -> tuple[int, ...]:
        said = _said([self.command, "--version"]).stdout
        match = re.search(r"Version: ([0-9]+(?:\.[0-9]+)*)", said)
        if not match:
            raise CriuError(f"{self.command} does not tell its version")
        return tuple(map(int, match[1].split(".")))

    def check(self) -> None:
        """Whether it can do it here. Raises CriuError."""
        if self.version < OLDEST:
            raise CriuError(f"CRIU {_dotted(self.version)} is too old: {_dotted(OLDEST)} can do it")
        done = _said([self.command, "check"])
        if done.returncode:
            said = complaint(done.stdout) or (done.stdout.strip() or "it fails").splitlines()[0]
            raise CriuError(f"`{self.command} check`: {said.strip(' :')}")

    def dump(
        self,
        pid: int,
        images: Path,
        words: Iterable[str] = (),
        *,
        whole: Callable[[], None] | None = None,
        looks: Callable[[], None] = lambda: None,
    ) -> None:
        """The process and all below it go into that folder. They go on; with `whole`, which makes
        it a checkpoint while they are stopped, they end, unless that raises. `looks` is called now
        and then. Raises CriuError, and what these raise: then they go on.
        """
        with tempfile.TemporaryDirectory(prefix="pump-criu-") as work, _asked() as asked:
            ends = ["--action-script", str(asked.script(Path(work)))]
            how = ends if whole else ["--leave-running"]
            unlinked = ["--ghost-limit", NO_LIMIT]
            command = [*self._words("dump", images, work), "--tree", str(pid), *unlinked]
            # what interrupts this process would leave the other one half changed
            with subprocess.Popen(
                [*command, *how, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as running:
                try:
                    while running.poll() is None:
                        if not whole:
                            with suppress(subprocess.TimeoutExpired):
                                running.wait(LOOK_S)
                        elif asked.is_told(LOOK_S):
                            whole()
                            asked.answer()
                            running.wait()
                            break
                        looks()
                except BaseException:
                    asked.close()
                    running.wait()
                    raise
            _need(running.returncode, Path(work), self.command)

    def restore(self, images: Path, words: Iterable[str], descriptors: Sequence[int] = ()) -> None:
        """The processes are this one's children afterwards, if it is a subreaper. Raises CriuError:
        there are none.
        """
        with tempfile.TemporaryDirectory(prefix="pump-criu-") as work:
            command = [*self._words("restore", images, work), "--restore-detached"]
            done = subprocess.run([*command, *words], pass_fds=descriptors, check=False)
            _need(done.returncode, Path(work), self.command)

    def _words(self, verb: str, images: Path, work: str) -> list[str]:
        """NVIDIA's plugin would take the context again: there is none in that folder."""
        at = ["--images-dir", str(images), "--work-dir", work, "--libdir", work]
        return [self.command, verb, *at, "--log-file", LOG, *ALIKE]


def _said(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """What a command says, on whichever stream. Raises CriuError."""
    quiet, pipe, out = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT
    try:
        return subprocess.run(
            words, stdin=quiet, stdout=pipe, stderr=out, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise CriuError(f"{words[0]}: {error.strerror}") from error


def complaint(log: str) -> str:
    """What went wrong first; "": nothing."""
    found = [(where, what) for where, what in COMPLAINT.findall(log) if HARMLESS not in what]
    return f"{found[0][1].strip()} ({found[0][0]})" if found else ""


def _need(status: int, work: Path, command: str) -> None:
    if status == 0:
        return
    try:
        said = complaint((work / LOG).read_text(errors="replace"))
    except OSError:
        said = ""
    raise CriuError(f"CRIU: {said or f'{command} ended with {status}'}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


class _Asked:
    """Two pipes that CRIU's script opens by this process's number: it finds none once this one is
    dead.
    """

    def __init__(self) -> None:
        self.told, self.answered = os.pipe(), os.pipe()

    def script(self, folder: Path) -> Path:
        """Writes it."""
        path = folder / "asks"
        ends = {"told": self.told[1], "answer": self.answered[0]}
        path.write_text(ASKS.format(pid=os.getpid(), **ends), encoding="ascii")
        path.chmod(0o700)
        return path

    def is_told(self, seconds: float) -> bool:
        """All is written."""
        return bool(select.select([self.told[0]], [], [], seconds)[0])

    def answer(self) -> None:
        """They may end."""
        os.write(self.answered[1], b"end\n")

    def close(self) -> None:
        """They may not, if that was not answered."""
        for end in {*self.told, *self.answered}:
            os.close(end)
        self.told = self.answered = (-1, -1)


@contextmanager
def _asked() -> Iterator[_Asked]:
    asked = _Asked()
    try:
        yield asked
    finally:
        if asked.told[0] >= 0:
            asked.close()
