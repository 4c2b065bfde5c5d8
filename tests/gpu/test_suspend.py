"""A program that is put away on a real GPU: how long it takes, what stays, and that all comes back.

`pytest -s` shows the figures.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pump.cli.tenants import counted, each
from pump.nvml import Nvml
from pump.paths import installed
from pump.preload import preload
from pump.share.broker import status, suspend
from tests.conftest import clean_environment
from tests.emu.small_program import DRIVER
from tests.tenants import broker

pytestmark = pytest.mark.gpu

PYTHON = (sys.executable,)
TRAINING = (*PYTHON, str(Path(__file__).parent / "programs" / "torch_away.py"))
SUSPENDS = {"vmm": 100, "um": 30}
LONGEST_S = 0.1
"""Between a resume and the next suspend."""
PIECES = int(os.environ.get("SUSPEND_GIB", "5")) * 4
"""Of 256 MiB, all dirty each time."""
PINNED_S = PIECES / 2  # more than the background needs
CONTEXT_MOST = 600 << 20
FIRST_MOST_S = 0.05
LEFT_MOST = 10 << 20
"""Bytes of the device, where the context has left, too."""
PROGRAM = f"""
import sys, time
PIECE = 256 * MIB
starts = [allocated(PIECE) for _ in range({PIECES})]
for i, start in enumerate(starts):
    fill(start, i + 1, PIECE)
print("here", flush=True)
for _ in sys.stdin:
    began = time.monotonic()
    fill(starts[0], 1, 2 * MIB)
    first = time.monotonic() - began
    for i, start in enumerate(starts):
        fill(start, i + 1, PIECE)
    print(first, flush=True)
for i, start in enumerate(starts):
    assert words_of(start, PIECE) == {{i + 1}}, i
print("whole")
"""


@contextmanager
def running(
    folder: Path, backend: str, share: str, words: Sequence[str] = (*PYTHON, "-c", DRIVER + PROGRAM)
) -> Iterator[subprocess.Popen[str]]:
    options = {"ULMS_BACKEND": backend, "ULMS_SHARE": share, "ULMS_SHARE_DIR": str(folder)}
    base = clean_environment() | {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    env = preload(words, options, base=base).environment(base)
    env["ULMS_MANAGED_LIMIT"] = os.environ["ULMS_MANAGED_LIMIT"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=env, stdin=pipe, stdout=pipe, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def tenant(folder: Path) -> dict[str, Any]:
    (found,) = counted(each(status(folder)))
    return found


def put_away(folder: Path, seconds: float = 60) -> dict[str, Any]:
    suspend(folder, "g", suspended=True)
    end = time.monotonic() + seconds
    while "away_ns" not in (found := tenant(folder)):
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


@pytest.mark.parametrize(("backend", "share"), [("um", "g"), ("vmm", "g"), ("vmm", "g,pin")])
def test_all_of_it_leaves_and_comes_back(tmp_path: Path, backend: str, share: str) -> None:
    """Pinned ahead, the first time takes as long as the second."""
    with broker(installed("ulms-broker"), tmp_path), running(tmp_path, backend, share) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "here\n"
        time.sleep(PINNED_S)
        took, first = [], []
        for _ in range(2):
            away = put_away(tmp_path)
            took.append(away["away_ns"] / 1e9)
            assert away["stays"] == 0
            with suppress(KeyError):  # NVML does not tell
                assert backend == "um" or away["nvml_used"] <= CONTEXT_MOST
            suspend(tmp_path, "g", suspended=False)
            program.stdin.write("\n")
            program.stdin.flush()
            first.append(float(program.stdout.readline()))
        out, _ = program.communicate(timeout=600)
        print(backend, share, f"{PIECES / 4:g} GiB away in", took, "s, first operation", first, "s")
        assert out == "whole\n"
        assert max(first) <= FIRST_MOST_S
        assert "pin" not in share or took[0] <= 1.3 * took[1]


@pytest.mark.parametrize("backend", SUSPENDS)
def test_what_is_put_away_at_any_moment_computes_the_same(tmp_path: Path, backend: str) -> None:
    """Training and a replayed graph."""
    when = random.Random(1)
    words = [*TRAINING, "0"]
    with (
        broker(installed("ulms-broker"), tmp_path),
        running(tmp_path, backend, "g", words) as program,
    ):
        assert program.stdout
        assert program.stdout.readline() == "here\n"
        time.sleep(1)
        for _ in range(SUSPENDS[backend]):
            put_away(tmp_path)
            suspend(tmp_path, "g", suspended=False)
            time.sleep(when.uniform(0, LONGEST_S))
        out, _ = program.communicate(timeout=60)
    native = [*TRAINING, str(json.loads(out)["steps"])]
    print(backend, SUSPENDS[backend], "suspends in", native[-1], "steps")
    expected = subprocess.run(native, capture_output=True, text=True, check=True).stdout
    assert f"here\n{out}" == expected


def pump(folder: Path, *words: str) -> float:
    """Seconds that the command took."""
    env = os.environ | {"ULMS_SHARE_DIR": str(folder)}
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", "-m", "pump", *words], env=env, check=True)
    return time.monotonic() - began


@pytest.mark.parametrize("share", ["g", "g,pin"])
def test_its_context_leaves_and_comes_back(tmp_path: Path, share: str) -> None:
    used = Nvml().used()
    with broker(installed("ulms-broker"), tmp_path), running(tmp_path, "vmm", share) as program:
        assert program.stdin
        assert program.stdout
        assert program.stdout.readline() == "here\n"
        took, back, left = [], [], []
        for _ in range(2):
            took.append(pump(tmp_path, "suspend", "g", "--with-context"))
            left.append(Nvml().used() - used)
            back.append(pump(tmp_path, "resume", "g"))
            program.stdin.write("\n")
            program.stdin.flush()
            program.stdout.readline()
        out, _ = program.communicate(timeout=600)
        print(share, f"{PIECES / 4:g} GiB away in", took, "s, back in", back, "s, left", left, "B")
        assert out == "whole\n"
        assert max(left) <= LEFT_MOST
