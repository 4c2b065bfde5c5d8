"""What other users of the machine may put where counters and traces are looked for."""

import io
import json
import os
import struct
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from pump import stats
from pump.cli import main
from pump.terminal.printable import printable
from pump.terminal.render import Name, console
from pump.terminal.tables import table
from pump.trace import Trace, TraceError, container, read
from pump.trace.layout import RecordType
from tests.conftest import TRACE_WRITER

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MIB = 1 << 20
STEERING = "\x1b[31m\x07\x9b2J\r\u202e"
"""Colour, bell, clear screen (both forms), return, right to left."""


@pytest.fixture(scope="module")
def counters(compiled: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good file of counters, of a process that is gone."""
    path = tmp_path_factory.mktemp("counters") / "ulms-1-1"
    writer = compiled(*TRACE_WRITER)
    command = [str(writer), str(path), "stats"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        return path.read_bytes()


# --- counters ---


@pytest.fixture
def folder(tmp_path: Path, counters: bytes) -> Path:
    """A folder with what an attacker may leave there under the names of counters."""
    os.mkfifo(tmp_path / "ulms-1-pipe")
    (tmp_path / "ulms-1-zeros").symlink_to("/dev/zero")
    (tmp_path / "real").write_bytes(counters)
    (tmp_path / "ulms-1-link").symlink_to(tmp_path / "real")
    (tmp_path / "ulms-1-folder").mkdir()
    with (tmp_path / "ulms-1-large").open("wb") as file:
        file.write(counters)
        file.truncate(1 << 40)
    return tmp_path


@pytest.mark.parametrize("name", ["pipe", "zeros", "link", "folder", "large"])
def test_what_is_no_file_of_counters_is_not_read(folder: Path, name: str) -> None:
    tracemalloc.start()
    with pytest.raises(OSError, match=r"regular|level|link|than|directory"):
        stats.read(folder / f"ulms-1-{name}")
    assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    tracemalloc.stop()


def test_a_look_at_such_a_folder_ends(folder: Path) -> None:
    before = sorted(folder.iterdir())
    assert stats.running(folder) == []
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be two users")
def test_another_users_counters_are_not_read_but_by_root(counters: bytes, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    path = tmp_path / "ulms-1-1"
    path.write_bytes(counters)
    path.chmod(0o644)
    os.chown(path, 12345, 12345)
    assert stats.read(path)["operations"] == 64
    assert stats.running(tmp_path) == []
    assert path.exists()  # root removes its own
    pid = os.fork()
    if pid == 0:
        try:
            os.seteuid(54321)
            stats.read(path)
        except PermissionError:
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_dead_processes_of_ours_left_is_removed(counters: bytes, tmp_path: Path) -> None:
    here, elsewhere, alive = (tmp_path / f"ulms-1-{name}" for name in ("here", "else", "alive"))
    for path in (here, elsewhere, alive):
        path.write_bytes(counters)
    header = np.frombuffer(counters, dtype=stats._HEADER, count=1).copy()
    header["pid_namespace"] += 1
    elsewhere.write_bytes(header.tobytes() + counters[header.nbytes :])
    header = np.frombuffer(counters, dtype=stats._HEADER, count=1).copy()
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    header["pid"], header["process_start"] = os.getpid(), int(own[19])
    alive.write_bytes(header.tobytes() + counters[header.nbytes :])
    assert [found.path for found in stats.running(tmp_path)] == [alive]
    assert sorted(tmp_path.iterdir()) == sorted([elsewhere, alive])


# --- what reaches a terminal ---


def steered(text: str) -> bool:
    """Whether a terminal that is shown the text does more than to show it."""
    return any(c in text for c in STEERING if c not in "[31m2J")


def test_every_character_that_steers() -> None:
    steers = [chr(n) for n in (*range(32), *range(127, 160), 0x202E, 0x2066, 0xD800)]
    assert {printable(c) for c in steers if c not in "\t\n"} == {"?"}
    assert printable("axpy<float>(\tü, 漢)\n") == "axpy<float>(\tü, 漢)\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_names_in_pages(terminal: bool) -> None:
    out = io.StringIO()
    page = console(out)
    page._force_terminal = terminal
    page.no_color = True
    page.print(STEERING)
    page.print(table((STEERING, "b"), [(STEERING, Name(f"axpy{STEERING}"))], title=STEERING))
    shown = out.getvalue().replace("\x1b[", "") if terminal else out.getvalue()
    assert "axpy?" in shown
    assert not any(c in shown for c in "\x07\x9b\r\u202e")
    assert terminal or not steered(shown)


def test_counters_of_a_program_with_such_a_name(
    counters: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    header = np.frombuffer(counters, dtype=stats._HEADER, count=1).copy()
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    header["pid"], header["process_start"] = os.getpid(), int(own[19])
    header["program"] = STEERING.encode()
    data = header.tobytes() + counters[header.nbytes :]
    for name in (b"gemm\0\0\0\0\0\0\0\0", b"kernels run"):
        assert name in data
        data = data.replace(name, b"\x1b]0;xy\x07\x1b[2J\r"[: len(name)])
    assert len(data) == len(counters)
    (tmp_path / "ulms-1-1").write_bytes(data)
    monkeypatch.setattr(stats, "running", lambda: [stats.read(tmp_path / "ulms-1-1")])
    assert main(["top", "--once"]) == 0
    shown = capsys.readouterr().out
    assert "?[31m?" in shown
    assert not steered(shown)


def test_errors_that_name_such_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"a{STEERING}b"
    path.write_text("no trace")
    for words in (["trace", "show"], ["plan", "--memory", "1GiB"], ["sim"]):
        assert main([*words, str(path)]) == 2
        told = capsys.readouterr()
        assert "?b" in told.err
        assert not steered(told.err + told.out)


# --- traces ---


def header(text: bytes, claims: int | None = None) -> bytes:
    size = len(text) if claims is None else claims
    fixed = struct.pack("<8sIIIIQQ", b"ulmstrac", 1, size, zlib.crc32(text), 1, 0, 0)
    return fixed + text + b" " * (8 - len(text) % 8)


def chunk(records: bytes, count: int = 0) -> bytes:
    rest = struct.pack("<IIQ", len(records), count, 0) + records
    return b"CHNK" + struct.pack("<I", zlib.crc32(rest)) + rest


def record(kind: RecordType, thread: int, body: bytes) -> bytes:
    return struct.pack("<HHIQQ", kind, 3 + len(body) // 8, thread, thread, 0) + body


def chunks_of(records: Iterator[bytes]) -> bytes:
    """Chunks of up to half a MiB."""
    out, inside = [], bytearray()
    for each in records:
        inside += each
        if len(inside) > MIB // 2:
            out.append(chunk(bytes(inside)))
            inside.clear()
    return b"".join([*out, chunk(bytes(inside))])


N = 10_000
HOSTILE = {
    "empty chunks": lambda: chunk(b"") * N,
    "chunks between rubbish": lambda: (chunk(b"") + b"\0" * 8) * N,
    "chunks that claim much": lambda: (b"CHNK" + struct.pack("<IIIQ", 1, MIB, 1, 0)) * N,
    "the least records": lambda: chunks_of(record(RecordType.COUNTS, i, b"") for i in range(N)),
    "records that do not fit": lambda: chunk(b"\0" * 8) * N,
    "records that are too short": lambda: chunks_of(
        record(RecordType.RETIRED, i, b"") for i in range(N)
    ),
    "names": lambda: chunks_of(
        record(RecordType.FUNCTION, i, struct.pack("<II", i, 0xFFFFFFFF)) for i in range(N)
    ),
    "graphs": lambda: chunks_of(
        record(RecordType.GRAPH, i, struct.pack("<QIIQ", i, 1, 0, 1 << 60)) for i in range(N)
    ),
    "tables": lambda: chunks_of(
        record(RecordType.TABLE, i, struct.pack("<QQII", i, 1 << 60, 0, 0xFFFFFFFF))
        for i in range(N)
    ),
    "operations": lambda: chunks_of(
        record(RecordType.OP, i, struct.pack("<QQIIHhBBbB", i, i, 1, 1, 1, 0, 0, 0, 0, 0))
        for i in range(N)
    ),
    "touches": lambda: chunk(record(RecordType.OP, 1, bytes(32) + bytes(24) * 20000)) * 50,
    "counts": lambda: chunk(record(RecordType.COUNTS, 1, bytes(8) * 60000)) * 20,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_memory_that_a_trace_takes(what: str, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(header(b"{}") + HOSTILE[what]())
    assert takes(path) <= 32 * path.stat().st_size + 64 * MIB
    assert takes(path, plain=True) <= 32 * path.stat().st_size + MIB  # not by the room beside


def takes(path: Path, plain: bool = False) -> int:
    tracemalloc.start()
    trace = read(path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(trace, Trace)
    assert not plain or len(trace.losses) <= 1001
    return most


@pytest.mark.parametrize(
    "text", [b"[" * 60000, b"[" + b"{}," * 20000 + b"{}]", b'{"a":' * 10000, b"\xff" * 1000]
)
def test_descriptions_that_are_none(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(header(text) + chunk(b""))
    assert read(path).machine == {}
    path.write_bytes(header(b"{}", 0xFFFFFFF8) + chunk(b""))
    assert takes(path) <= 32 * path.stat().st_size + MIB


def test_a_large_description_is_none(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(header(json.dumps({"a": ["x"] * 500_000}).encode()) + chunk(b""))
    assert takes(path) <= 32 * path.stat().st_size + MIB
    assert read(path).machine == {}


def test_a_trace_that_is_small_only_while_it_is_packed(tmp_path: Path) -> None:
    """A bomb: 1000 times its size in the same bytes."""
    path = tmp_path / "trace.gz"
    packer = zlib.compressobj(9, wbits=31)
    packed = packer.compress(header(b"{}")) + packer.compress(bytes(256 * MIB)) + packer.flush()
    path.write_bytes(packed)
    assert 900 * len(packed) < 256 * MIB
    most = takes(path)
    assert most <= 32 * container.EXPANDS_MOST * len(packed) + 64 * MIB
    assert most < 128 * MIB
    assert "more than 32 times" in str(read(path).losses)


def test_what_would_wait_or_never_end_is_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(OSError, match="no regular file"):
            read(tmp_path / name)
    with (tmp_path / "large").open("wb") as file:
        file.write(header(b"{}"))
        file.truncate(2 * MIB)
    monkeypatch.setattr(container, "HOLDS_MOST", MIB)
    with pytest.raises(TraceError, match="larger than a trace may be"):
        read(tmp_path / "large")
