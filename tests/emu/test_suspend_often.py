"""Generated programs that are put away and brought back between their calls: each computes what it
does alone, whatever fails meanwhile and whoever is killed, and nothing is lost or left.

`PROGRAMS=200 EVERY=3 FIRST=0` takes an hour: by hand.
"""

import errno
import itertools
import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from pump.paths import installed
from tests.conftest import Compile
from tests.random_programs import OVER, Case, Judge, Outcome
from tests.tenants import broker

pytestmark = pytest.mark.emu

PROGRAMS = int(os.environ.get("PROGRAMS", "3"))
"""Of each way and test."""
EVERY = int(os.environ.get("EVERY", "37"))
"""Calls, of which one meets a program that was put away."""
FIRST = int(os.environ.get("FIRST", "1")) or random.randrange(1, 1 << 40)
"""Seeds follow; 0: others each time."""
WORKERS = 2
UM = ("cuMemPrefetchAsync", "cuMemDiscardBatchAsync", "cuStreamSynchronize", "cuEventQuery")
VMM = (
    *("cuMemcpyAsync", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"),
    *("cuStreamSynchronize", "cuEventQuery"),
)
FILE = ("cuMemcpyDtoHAsync", "cuMemcpyHtoDAsync", "cuMemHostRegister", "cuStreamCreate")
WAYS = {"um": UM, "vmm": VMM, "file": (*FILE, *VMM)}
"""The driver's calls, out and back; the first is made whenever a program is put away."""
DISK = (
    *(
        f"pwrite:{{}}:{errno.ENOSPC}:1",
        f"pwrite:{{}}:{errno.EIO}:1",
        f"pwrite:{{}}:{errno.EIO}:999",
    ),
    *(f"pwrite:{{}}:{errno.EINTR}:2", "pwrite:{}:0:3", f"fallocate:{{}}:{errno.ENOSPC}:1"),
    *(f"pread:{{}}:{errno.EIO}:1", f"pread:{{}}:{errno.EINTR}:2", "pread:{}:0:3"),
)
FULL = DISK[:3]
"""Then pages stay on the host. (See failing_disk.c. What can never be read again is refused:
`test_page_file.py`.)"""


@dataclass(frozen=True)
class Away:
    """A program that is put away in one of the ways; a folder for all that it has."""

    judge: Judge
    folder: Path
    way: str
    seed: int
    fail: str = ""

    @property
    def share(self) -> Path:
        """Where it meets its broker."""
        return self.folder / "share"

    def case(self) -> Case:
        """What is put away."""
        setup = "ahead" if self.way == "um" else "vmm"
        over, took = OVER[self.seed % len(OVER)], "01"[self.seed // 8 % 2]
        return Case(self.seed, setup, over, fail=self.fail, time=took)

    def environment(self, **more: str) -> dict[str, str]:
        """What puts it away."""
        files = self.folder / "files"
        files.mkdir(parents=True)
        env = {"AWAY_EVERY": str(EVERY), "EMU_SHARED": str(self.folder / "device")}
        if self.way == "file":  # which takes the disk some time
            env |= {"AWAY_EVERY": str(4 * EVERY), "AWAY_TO": str(files)}
        env |= {"ULMS_SHARE": "g", "ULMS_SHARE_DIR": str(self.share)}
        env |= {"ULMS_FILE_DIR": str(files), "DISK": str(files)}
        return self.judge.environment(self.case()) | env | more

    def check(self, found: Outcome) -> Outcome:
        """It computed what it does alone."""
        truth = self.judge.truth(self.case())
        said = f"{self.way} {self.case().command()}\n{found.stderr[-6000:]}"
        assert (found.status, found.stdout) == (truth.status, truth.stdout), said
        return found

    def run(self, **more: str) -> Outcome:
        """From its start to its end."""
        environment = self.environment(**more)
        with broker(installed("ulms-broker"), self.share):
            return self.check(self.judge.run(self.case(), environment))


def told(found: Outcome, what: str) -> list[int]:
    """The numbers of a line on stderr."""
    rows = (line.split() for line in found.stderr.splitlines())
    return next(list(map(int, row[1:])) for row in rows if row[0] == what)


def all_of(programs: Sequence[Away], **more: str) -> list[Outcome]:
    """Some at a time."""
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(lambda program: program.run(**more), programs))


@pytest.fixture(scope="module")
def judge(random_program: Path) -> Judge:
    return Judge(random_program)


def some(judge: Judge, folder: Path, way: str, fails: Sequence[str] = ("",)) -> list[Away]:
    """As many as there are to be, each of another seed, and of a failure in turn."""
    each = zip(range(PROGRAMS), itertools.cycle(fails))
    return [Away(judge, folder / str(i), way, FIRST + i, fail) for i, fail in each]


@pytest.mark.parametrize("way", WAYS)
def test_between_its_calls(judge: Judge, tmp_path: Path, way: str) -> None:
    """No byte of the device and of the file is left; and there is nothing to complain of."""
    found = all_of(some(judge, tmp_path, way))
    assert [told(each, "left") for each in found] == [[1, 0, 0]] * PROGRAMS
    assert sum(told(each, "away")[0] for each in found) > PROGRAMS
    assert [each.reports() for each in found] == [""] * PROGRAMS


@pytest.mark.parametrize("way", WAYS)
def test_a_call_of_the_driver_fails(judge: Judge, tmp_path: Path, way: str) -> None:
    """Whatever it is, whenever; and one that surely comes."""
    first, *others = WAYS[way]
    chance = random.Random(FIRST)
    fails = [
        f"{first}:after={chance.randrange(8)},{name}:after={int(100 ** chance.random()) - 1}"
        for name in chance.sample(others, len(others))
    ]
    found = all_of(some(judge, tmp_path, way, fails))
    assert sum(each.failed() for each in found) > 0


@pytest.mark.parametrize("kind", sorted({text.split(":")[0] for text in DISK}))
def test_a_call_of_the_disk_fails(
    judge: Judge, tmp_path: Path, compiled: Compile, kind: str
) -> None:
    """Or does half of it."""
    preloads = f"{installed('ulms.so')}:{compiled('failing_disk', shared=True)}"
    rules = [rule for rule in DISK if rule.startswith(kind)]
    failed = 0
    for number, rule in enumerate(random.Random(FIRST).sample(rules, min(len(rules), PROGRAMS))):
        most = 2 if kind == "fallocate" else 30
        fail = rule.format(int(most ** random.Random(FIRST).random()) - 1)
        program = Away(judge, tmp_path / str(number), "file", FIRST + number)
        found = program.run(LD_PRELOAD=preloads, DISK_FAIL=fail)
        assert told(found, "left") == [1, 0, 0], fail
        full = rule in FULL and found.failed() > 0
        assert ("no more pages go to a file" in found.reports()) == full, fail
        assert len(set(found.reports().splitlines())) == full, fail
        failed += found.failed()
    assert failed > 0


@pytest.mark.parametrize("way", WAYS)
def test_whoever_is_killed(judge: Judge, tmp_path: Path, way: str) -> None:
    """The broker: the program goes on. Then the program: the next one finds nothing of it."""
    for program in some(judge, tmp_path, way):
        environment = program.environment()
        command = [str(judge.program), str(program.seed)]
        chance = random.Random(program.seed)
        with (
            broker(installed("ulms-broker"), program.share) as first,
            ThreadPoolExecutor(1) as pool,
        ):
            running = pool.submit(judge.run, program.case(), environment)
            time.sleep(chance.uniform(0.05, 0.4))
            first.send_signal(signal.SIGKILL)
            first.wait()
            with broker(installed("ulms-broker"), program.share):
                program.check(running.result())
                quiet = subprocess.DEVNULL
                with subprocess.Popen(
                    command, env=environment, stdout=quiet, stderr=quiet
                ) as killed:
                    time.sleep(chance.uniform(0.05, 0.4))
                    killed.kill()
                found = program.check(judge.run(program.case(), environment))
        assert told(found, "left") == [1, 0, 0]
