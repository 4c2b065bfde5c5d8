"""The programs of `examples/`, run as their first lines say: on the emulated device or on a GPU."""

import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, ROOT

FOLDER = ROOT / "examples"
PUMP = (sys.executable, "-m", "pump")
COMMAND = re.compile(r"^ *((?:pump|python) .*?examples/.*?)(?:  +#.*)?$", re.MULTILINE)
COMPILE = re.compile(r"^ \* +(cc .*)$", re.MULTILINE)
LOSS = re.compile(r"step (\d+): loss ([^,]+), ")


@dataclass(frozen=True)
class Place:
    """Where they run. `options`: more words of `pump run`."""

    folder: Path
    env: Mapping[str, str]
    options: Sequence[str] = ()

    def run(
        self, *words: str | Path, stdin: str | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command that must end well; in the folder, if no other is named."""
        done = subprocess.run(
            [str(word) for word in words],
            env=dict(self.env),
            cwd=cwd or self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def python(self, name: str, *words: str) -> str:
        """What a program that starts `train.py` prints."""
        return self.run(sys.executable, FOLDER / f"{name}.py", *self.options, *words).stdout

    def check_first_lines(self, name: str) -> None:
        """A program starts by the command that its first lines show, with a 32nd of its memory."""
        (shown,) = COMMAND.findall((FOLDER / name).read_text(encoding="utf-8"))
        words = [word.replace("1GiB", "32MiB").replace("128", "4") for word in shlex.split(shown)]
        at = 2  # behind `pump run` or `python FILE`
        words[at:at] = self.options
        starts = {"pump": PUMP, "python": (sys.executable,)}
        done = self.run(*(each for word in words for each in starts.get(word, (word,))), cwd=ROOT)
        assert done.stdout

    def larger(self, memory: str, backend: str, *sizes: str) -> subprocess.CompletedProcess[str]:
        """`larger.c`, with so much memory; with log lines."""
        program = self.folder / "larger"
        (command,) = COMPILE.findall((FOLDER / "larger.c").read_text(encoding="utf-8"))
        command = command.replace("examples/", f"-Wall -Wextra -Werror {FOLDER}/")
        self.run("sh", "-c", f'pump() {{ {shlex.join(PUMP)} "$@"; }}; {command}')
        run = [*PUMP, "run", *self.options, "--memory", memory, "--backend", backend]
        kernel = (FOLDER / "axpy.ptx").read_text(encoding="utf-8")
        return self.run(*run, "--log", "INFO", "--", program, *sizes, stdin=kernel)

    def check_larger(self, memory: str, backend: str, mib: int) -> None:
        """Eight arrays of so many MiB, which are more than the memory."""
        done = self.larger(memory, backend, "8", str(mib))
        assert done.stdout == f"8 arrays of {mib} MiB: 0 wrong numbers\n"
        assert "pages move from here on" in done.stderr

    def check_losses(self, memory: str, mib: int) -> None:
        """Of layers of so many MiB: right, and the same with so much memory."""
        native = self.losses("", "8", str(mib), "6")
        assert [float(loss) for loss in native] == pytest.approx(expected(8, 6), rel=1e-5)
        assert self.losses(memory, "8", str(mib), "6") == native

    def check_away(self) -> None:
        """It is suspended, and its numbers come back."""
        shared, numbers = self.away()
        assert "suspended" in shared
        assert numbers == AWAY

    def losses(self, memory: str, *sizes: str) -> list[str]:
        """Of `train.py`, with so much memory; "": all there is."""
        given = ["--memory", memory] if memory else ["--backend", "off"]
        train = [sys.executable, str(FOLDER / "train.py"), *sizes]
        return losses_in(self.run(*PUMP, "run", *self.options, *given, "--", *train).stdout)

    def away(self) -> tuple[str, str]:
        """What `away.py` prints: who shares, while it is away; and the numbers after it."""
        share = ["run", *self.options, "--share", "job"]
        text = self.run(*PUMP, *share, "--", sys.executable, FOLDER / "away.py").stdout
        self.run(*PUMP, "share", "stop")
        shared, numbers = text.split("back: ")
        return shared, numbers.strip()


AWAY = str([14.0, *(2.0 * i for i in range(1, 8))])
"""What comes back."""


def losses_in(text: str) -> list[str]:
    """The loss after each step that is told."""
    return [loss for _, loss in LOSS.findall(text)]


def expected(layers: int, steps: int) -> list[float]:
    """The same, by Python's arithmetic."""
    weights, momenta, told = [1.0 + i for i in range(layers)], [0.0] * layers, []
    for _ in range(steps):
        momenta = [0.5 * m + w for m, w in zip(momenta, weights, strict=True)]
        weights = [w - 0.1 * m for m, w in zip(momenta, weights, strict=True)]
        told.append(sum(w * w / 2 for w in weights))
    return told
