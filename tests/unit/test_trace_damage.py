"""Traces that are cut off, overwritten or left by killed programs: what is left comes back."""

import gzip
import random
import signal
import subprocess
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pump.trace import Trace, TraceError, export_chrome, layout, read, summarize
from tests.conftest import PATIENCE_S, TRACE_WRITER

TRIES = 150
TEXT_END = layout.FILE_HEADER.itemsize + 36  # the test program's line of JSON
HEADER_END = TEXT_END + 4  # filled up


@pytest.fixture(scope="module")
def writer(compiled: Callable[..., Path]) -> Path:
    return compiled(*TRACE_WRITER)


@pytest.fixture(scope="module")
def whole(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """A trace of a few chunks from two threads."""
    path = tmp_path_factory.mktemp("traces") / "whole.trace"
    subprocess.run([writer, path, "threads", "2", "600"], check=True, timeout=PATIENCE_S)
    trace = read(path)
    assert trace.complete
    assert len(chunk_starts(path.read_bytes())) > 3
    return trace


@pytest.fixture(scope="module")
def story_bytes(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("traces") / "story.trace"
    subprocess.run([writer, path, "story"], check=True, timeout=PATIENCE_S)
    return path.read_bytes()


def chunk_starts(data: bytes) -> list[int]:
    """Where the chunks of a whole trace begin, and its end."""
    starts = [HEADER_END]
    while starts[-1] < len(data):
        head = np.frombuffer(data, dtype=layout.CHUNK, count=1, offset=starts[-1])[0]
        assert head["magic"] == layout.CHUNK_MAGIC
        starts.append(starts[-1] + layout.CHUNK.itemsize + int(head["bytes"]))
    return starts


def read_damaged(data: bytes, path: Path) -> Trace | None:
    """Reads, sums up and exports; None for a TraceError, which is one line."""
    path.write_bytes(data)
    try:
        trace = read(path)
    except TraceError as error:
        check_one_line(str(error))
        return None
    for note in trace.notes:
        check_one_line(note)
    summary = summarize(trace)
    assert summary.complete == (not summary.notes)
    assert len(list(trace.events())) == len(trace.order)
    return trace


def check_one_line(text: str) -> None:
    assert text
    assert "\n" not in text


def check_part_of(part: Trace, whole: Trace) -> None:
    """Nothing in a damaged trace may differ from what was there."""
    index = np.searchsorted(whole.operations["serial"], part.operations["serial"])
    same = [name for name in whole.operations.dtype.names or () if name != "first_touch"]
    assert (part.operations[same] == whole.operations[index][same]).all()
    for row in part.operations[:5]:
        original = whole.operations[np.searchsorted(whole.operations["serial"], row["serial"])]
        assert (part.touches_of(row) == whole.touches_of(original)).all()


@pytest.mark.unit
@pytest.mark.slow
def test_cut_off_anywhere_all_whole_chunks_come_back(whole: Trace, tmp_path: Path) -> None:
    data = whole.path.read_bytes()
    starts = chunk_starts(data)
    chance = random.Random(1)
    cuts = [*starts, *(start + 1 for start in starts[:-1]), *range(HEADER_END + 1)]
    cuts += [chance.randrange(len(data)) for _ in range(TRIES)]
    for cut in cuts:
        trace = read_damaged(data[:cut], tmp_path / "cut")
        if cut < layout.FILE_HEADER.itemsize:
            assert trace is None
            continue
        assert trace is not None
        whole_chunks = sum(start <= cut for start in starts[1:])
        covered = starts[whole_chunks]
        lost = sum(loss.bytes for loss in trace.losses)
        if cut < TEXT_END:
            assert lost == cut - layout.FILE_HEADER.itemsize
        else:
            assert lost == max(0, cut - covered)
        assert trace.complete == (cut == len(data))
        assert trace.closed == (whole_chunks == len(starts) - 1)
        check_part_of(trace, whole)


@pytest.mark.unit
@pytest.mark.slow
def test_a_flipped_byte_costs_one_chunk(whole: Trace, tmp_path: Path) -> None:
    data = whole.path.read_bytes()
    starts = chunk_starts(data)
    chance = random.Random(2)
    for _ in range(TRIES):
        at = chance.randrange(len(data))
        damaged = bytearray(data)
        damaged[at] ^= chance.randrange(1, 256)
        trace = read_damaged(bytes(damaged), tmp_path / "flipped")
        if at < HEADER_END:
            assert trace is None or len(trace.operations) == len(whole.operations)
            continue
        assert trace is not None
        (loss,) = trace.losses
        hit = max(start for start in starts if start <= at)
        assert loss.offset == hit
        assert loss.bytes == min(start for start in starts if start > at) - hit
        assert f"from byte {hit} on" in trace.notes[0]
        check_part_of(trace, whole)


@pytest.mark.unit
@pytest.mark.slow
def test_several_damaged_places(whole: Trace, tmp_path: Path) -> None:
    data = bytearray(whole.path.read_bytes())
    starts = chunk_starts(bytes(data))
    data[starts[0] + 50] ^= 1
    data[starts[2] + 50] ^= 1
    trace = read_damaged(bytes(data), tmp_path / "twice")
    assert trace is not None
    assert [loss.offset for loss in trace.losses] == [starts[0], starts[2]]
    assert 0 < len(trace.operations) < len(whole.operations)
    check_part_of(trace, whole)


def reseal(data: bytearray) -> bytes:
    """Makes the sums of all chunks right again, so that nonsense gets past them."""
    for start, end in pairwise(chunk_starts(bytes(data))):
        sum_ = zlib.crc32(data[start + layout.CRC_STARTS : end])
        data[start + 4 : start + 8] = sum_.to_bytes(4, "little")
    return bytes(data)


@pytest.mark.unit
@pytest.mark.slow
def test_nonsense_with_right_sums_does_no_harm(
    whole: Trace, story_bytes: bytes, tmp_path: Path
) -> None:
    chance = random.Random(3)
    for original in (whole.path.read_bytes(), story_bytes):
        bounds = chunk_starts(original)
        kept = {at for start in bounds for at in range(start, start + layout.CHUNK.itemsize)}
        for i in range(TRIES // 2):
            data = bytearray(original)
            for _ in range(chance.choice([1, 1, 5, 200])):
                at = chance.randrange(HEADER_END, len(data))
                if at not in kept:
                    data[at] = chance.choice([0, 1, 255, chance.randrange(256)])
            trace = read_damaged(reseal(data), tmp_path / "nonsense")
            assert trace is not None
            if i % 25 == 0:
                export_chrome(trace, tmp_path / "out.json")


@pytest.mark.unit
@pytest.mark.slow
def test_compressed_traces_are_as_tough(whole: Trace, tmp_path: Path) -> None:
    packed = gzip.compress(whole.path.read_bytes(), mtime=0)
    chance = random.Random(4)
    for _ in range(100):
        cut = chance.randrange(len(packed))
        trace = read_damaged(packed[:cut], tmp_path / "cut.gz")
        assert trace is None or not trace.complete
        damaged = bytearray(packed)
        damaged[chance.randrange(len(packed))] ^= chance.randrange(1, 256)
        trace = read_damaged(bytes(damaged), tmp_path / "flipped.gz")
        if trace is not None:
            check_part_of(trace, whole)


@pytest.mark.unit
@pytest.mark.slow
def test_a_killed_program_leaves_what_it_wrote(writer: Path, tmp_path: Path) -> None:
    for i in range(5):
        path = tmp_path / f"killed-{i}.trace"
        with subprocess.Popen([writer, path, "forever"], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout
            assert run.stdout.readline() == "ready\n"
            run.send_signal(signal.SIGKILL)
            assert run.wait(60) == -signal.SIGKILL
        trace = read(path)
        assert len(trace.operations) >= 900
        serials = trace.operations["serial"].astype(np.int64)
        assert (np.diff(serials) == 1).all()  # one thread: what is there is a prefix
        assert not trace.closed
        assert "the trace was not closed" in trace.notes[-1]
        assert not trace.complete


@pytest.mark.unit
@pytest.mark.slow
def test_a_trace_can_be_read_while_it_is_written(writer: Path, tmp_path: Path) -> None:
    path = tmp_path / "live.trace"
    with subprocess.Popen([writer, path, "forever"], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "ready\n"
        seen = [len(read(path).operations)]
        while seen[-1] == seen[0]:
            seen.append(len(read(path).operations))
        run.kill()
    assert seen[-1] > seen[0] >= 900
