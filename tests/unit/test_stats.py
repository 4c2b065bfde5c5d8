"""Live counters, read by another process than the one that counts."""

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pump.stats import _HEADER, Held, StatsError, change, read, running, running_pid
from tests.conftest import TRACE_WRITER


@pytest.fixture(scope="module")
def writer(compiled: Callable[..., Path]) -> Path:
    return compiled(*TRACE_WRITER)


class Counting:
    """A program that counts: 10 kernels at every word."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.wait_ready()

    def wait_ready(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline() == "ready\n"

    def count(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("x")
        self.process.stdin.flush()
        self.wait_ready()


@contextmanager
def counting(writer: Path, path: Path) -> Iterator[Counting]:
    pipe = subprocess.PIPE
    with subprocess.Popen([writer, path, "stats"], stdin=pipe, stdout=pipe, text=True) as process:
        yield Counting(process)
        if process.stdin and not process.stdin.closed:
            process.stdin.close()
        process.wait(30)


@pytest.mark.unit
def test_a_running_program(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "ulms-1-1"
    with counting(writer, path) as program:
        first = read(path)
        assert (first.pid, first.program, first.alive) == (program.pid, "trace_writer", True)
        assert first["operations"] == 64
        assert first["copied_bytes"] == 1 << 40
        assert first["kernels"] == 0
        assert first.counters["copied_bytes"].unit == "B"
        assert first.counters["kernels"].help.startswith("kernels run")
        (memory,) = first.memory
        assert (memory.device, memory.used, memory.peak, memory.capacity) == (1, 100, 200, 300)
        assert 0 <= first.idle_s < 30
        assert first.held == [
            Held("gemm", 5000, 1, 4 << 20),
            Held("axpy(float*, int)", 1500, 2, 2 << 20),
        ]
        program.count()
        program.count()
        later = read(path)
        difference = change(first, later)
        assert later["kernels"] == 20
        assert difference.counts["kernels"] == 20
        assert difference.counts["operations"] == 0
        assert difference.rate("kernels") == pytest.approx(20 / difference.seconds)
        assert change(first, replace(later, taken_ns=first.taken_ns)).rate("kernels") == 0
        assert [found.path for found in running(tmp_path)] == [path]
        assert running_pid(program.pid, tmp_path).path == path
    assert not path.exists()
    with pytest.raises(KeyError):
        later["nothing"]


@pytest.mark.unit
def test_what_a_killed_program_leaves_is_known_as_dead(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "ulms-1-1"
    with counting(writer, path) as program:
        program.process.send_signal(signal.SIGKILL)
        program.process.wait(30)
    assert path.exists()
    assert not read(path).alive
    assert running(tmp_path) == []
    with pytest.raises(StatsError, match="shows no counters"):
        running_pid(program.pid, tmp_path)


@pytest.mark.unit
def test_a_recycled_process_id_is_not_taken_for_the_program(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "ulms-1-1"
    with counting(writer, path):
        data = bytearray(path.read_bytes())
        data[16] ^= 4  # the start of the process
        other = tmp_path / "ulms-2-2"
        other.write_bytes(data)
        assert not read(other).alive
        assert [found.path for found in running(tmp_path)] == [path]


@pytest.mark.unit
def test_a_file_of_before_there_were_rows_of_what_was_held(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "ulms-1-1"
    with counting(writer, path):
        data = path.read_bytes()
    header = np.frombuffer(data, dtype=_HEADER, count=1).copy()
    end = 128  # of the header then
    assert header["rows_at"][0] > end
    gap = int(header["rows_at"][0]) - end
    for name in ("rows_at", "memory_at", "slots_at", "file_bytes"):
        header[name] -= gap
    path.write_bytes(header.tobytes()[:end] + data[end + gap :])
    old = read(path)
    assert old["operations"] == 64
    assert [memory.used for memory in old.memory] == [100]
    assert old.held == []


@pytest.mark.unit
def test_what_holds_no_counters_is_one_line(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "ulms-1-1"
    with counting(writer, path):
        good = path.read_bytes()
    for bad in (b"", b"ulmsstat", b"x" * 100000, good[:-1], good[:8] + b"\x09" + good[9:]):
        path.write_bytes(bad)
        with pytest.raises(StatsError) as error:
            read(path)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)
        assert running(tmp_path) == []
    chance = random.Random(1)
    messages = []
    for _ in range(1000):  # the part that describes the rest
        data = bytearray(good)
        data[chance.randrange(8, 96)] = chance.randrange(256)
        path.write_bytes(data)
        try:
            read(path)
        except StatsError as damaged:
            messages.append(str(damaged))
    assert 100 < len(messages) < 1000
    assert all("\n" not in message for message in messages)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
