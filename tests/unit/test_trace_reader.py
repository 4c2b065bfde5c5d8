"""Reading whole traces: what tests/programs/trace_writer.c wrote comes back."""

import gzip
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pump.trace import (
    EventKind,
    MemoryKind,
    MoveFlag,
    MoveKind,
    OpKind,
    Trace,
    TraceError,
    compress,
    export_chrome,
    read,
    summarize,
)
from pump.trace.words import TouchMode, TouchSource
from tests.conftest import PATIENCE_S, TRACE_WRITER

BASE = 0x7F0000000000


@pytest.fixture(scope="module")
def writer(compiled: Callable[..., Path]) -> Path:
    return compiled(*TRACE_WRITER)


def write(writer: Path, path: Path, *words: str) -> Trace:
    subprocess.run([writer, path, *words], check=True, timeout=PATIENCE_S)
    return read(path)


@pytest.fixture(scope="module")
def story(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return write(writer, tmp_path_factory.mktemp("traces") / "story.trace", "story")


@pytest.mark.unit
def test_a_story_comes_back(story: Trace) -> None:
    assert story.complete
    assert story.notes == []
    assert story.machine == {"program": "writer", "device": "none"}
    assert story.functions == {1: "axpy(float*, int)"}
    assert story.apis == {7: "cuLaunchKernel", 8: "cuMemcpyHtoD_v2"}
    kinds = story.operations["kind"].tolist()
    assert kinds == [OpKind.LAUNCH, OpKind.COPY, OpKind.GRAPH, OpKind.GRAPH]
    launch = story.operations[0]
    assert launch["stream"] == 0xFFFFFFFFFFFF0000
    assert (launch["function"], launch["kernels"], launch["api"]) == (1, 1, 7)
    assert (launch["device"], launch["status"], launch["thread"]) == (1, 0, 1)
    assert story.function_name(1) == "axpy(float*, int)"
    assert story.function_name(2) == "function 2"
    assert story.api_name(9) == "call 9"


@pytest.mark.unit
def test_touches_come_back(story: Trace) -> None:
    touches = story.touches_of(story.operations[0])
    assert touches["start"].tolist() == [BASE, BASE + 512, BASE + 1024]
    assert touches["bytes"].tolist() == [512] * 3
    assert touches["allocation"].tolist() == [(1 << 40) + i for i in range(3)]
    assert touches["mode"].tolist() == [TouchMode.READ, TouchMode.WRITE, TouchMode.UPDATE]
    assert touches["sparse"].tolist() == [True, False, False]
    sources = [TouchSource.CALL, TouchSource.LIBRARY, TouchSource.FRAMEWORK]
    assert touches["source"].tolist() == sources
    assert len(story.touches_of(story.operations[1])) == 1


@pytest.mark.unit
def test_a_graph_launch_touches_what_its_graph_held_then(story: Trace) -> None:
    first, second = story.operations[2:]
    assert len(story.touches_of(first)) == 3000
    assert len(story.touches_of(second)) == 1
    assert story.graphs["kernels"].tolist() == [40, 20]
    assert (story.graphs["total"] == story.graphs["touches"]).all()
    graph = story.graph_of(first)
    assert graph is not None
    assert graph["exec"] == 0x9000
    assert story.graph_of(story.operations[0]) is None
    assert story.graph_index(0, 0x9000) is None
    starts = story.touches_of(first)["start"]
    assert (starts == BASE + 512 * np.arange(3000, dtype=np.uint64)).all()


@pytest.mark.unit
def test_memory_comes_back(story: Trace) -> None:
    assert story.allocations["born"].tolist() == [True, False]
    birth = story.allocations[0]
    assert (birth["start"], birth["bytes"], birth["id"]) == (BASE, 1 << 20, 1)
    assert (birth["charged"], birth["context"], birth["device"]) == (2 << 20, 5, 0)
    assert birth["kind"] == MemoryKind.PLAIN
    assert story.blocks["born"].tolist() == [True, False]
    assert story.blocks["bytes"].tolist() == [4096, 4096]
    assert story.tables["pointers"].tolist() == [5000]
    assert story.table_pointers.tolist() == [BASE + i for i in range(5000)]
    assert story.retirements[["operation", "start_ns", "ns"]].tolist() == [
        (int(story.operations["serial"][0]), 1000, 250)
    ]


@pytest.mark.unit
def test_moves_and_holds_come_back(story: Trace) -> None:
    moves = story.moves
    assert moves["kind"].tolist() == [MoveKind.FILL] * 2 + [MoveKind.EVICT] * 2
    assert moves["flags"].tolist() == [
        MoveFlag.EARLY,
        0,
        MoveFlag.DEAD | MoveFlag.DISCARDED,
        MoveFlag.CLEAN | MoveFlag.FAILED,
    ]
    assert (moves["start"] == BASE).all()
    assert (moves["bytes"] == 2 << 20).all()
    assert (moves["device"] == 1).all()
    assert (moves["begun_ns"] < moves["time_ns"]).all()
    assert moves["resident"].tolist() == [6 << 20, 8 << 20, 6 << 20, 6 << 20]
    first, lost = story.holds
    launch = story.operations[0]
    assert first["operation"] == launch["serial"]
    assert story.label(launch) == "axpy(float*, int)"
    assert (first["ns"], first["missing"], first["device"]) == (4000, 2 << 20, 1)
    assert story.operation_index(story.holds["operation"]).tolist() == [0, -1]
    assert lost["missing"] == 0


@pytest.mark.unit
def test_counters_come_back_by_name(story: Trace) -> None:
    (row,) = story.counts
    counted = {name: value for name, value in story.counted(row).items() if value}
    assert counted == {"predicted": 3, "surprises": 1, "paged_bytes": 100, "hit_bytes": 25}
    assert len(set(story.counters.values())) == row["values"] > 40


@pytest.mark.unit
def test_paging(story: Trace) -> None:
    paging = summarize(story).paging
    size = 2 << 20
    assert [(use.what, use.moves, use.bytes) for use in paging.moves] == [
        ("in", 1, size),
        ("in, ahead of need", 1, size),
        ("out, discarded", 1, size),
        ("out, refused", 1, size),
    ]
    assert all(use.ns == use.median_ns == use.longest_ns >= 1000 for use in paging.moves)
    assert (paging.holds, paging.held_ns) == (2, 4100)
    worst, unknown = paging.held
    assert (worst.name, worst.times, worst.ns) == ("axpy(float*, int)", 1, 4000)
    assert worst.missing_bytes == size
    assert unknown.name == "not known"
    assert paging.counters["predicted"] == 3


@pytest.mark.unit
def test_the_longest_move_stands_beside_the_median(story: Trace) -> None:
    moves = np.repeat(story.moves[:1], 3)
    moves["time_ns"] = moves["begun_ns"] + np.array([10, 70, 20], dtype=np.uint64)
    (use,) = summarize(replace(story, moves=moves)).paging.moves
    assert (use.moves, use.ns, use.median_ns, use.longest_ns) == (3, 100, 20, 70)
    assert not summarize(replace(story, moves=moves[:0])).paging.moves


@pytest.mark.unit
def test_events_are_merged_in_the_order_of_the_program(story: Trace) -> None:
    events = list(story.events())
    assert [event.kind.name for event in events] == [
        "ALLOCATION",
        "BLOCK",
        "OPERATION",
        "RETIREMENT",
        "OPERATION",
        "TABLE",
        "GRAPH",
        "OPERATION",
        "GRAPH",
        "OPERATION",
        "BLOCK",
        "ALLOCATION",
        *["MOVE"] * 4,
        *["HOLD"] * 2,
        "COUNTS",
    ]
    assert [event.serial for event in events] == sorted(event.serial for event in events)
    assert all(event.serial == event.row["serial"] for event in events)


@pytest.mark.unit
def test_threads_are_merged_without_a_gap(writer: Path, tmp_path: Path) -> None:
    trace = write(writer, tmp_path / "threads.trace", "threads", "8", "2000")
    assert trace.complete
    assert len(trace.operations) == 16000
    serials = trace.operations["serial"]
    assert (np.diff(serials.astype(np.int64)) > 0).all()
    threads = np.unique(trace.operations["thread"])  # numbered as they begin, others among them
    assert len(threads) == 8
    for thread in threads:
        mine = trace.operations[trace.operations["thread"] == thread]
        assert len(mine) == 2000
        assert (np.diff(mine["time_ns"].astype(np.int64)) >= 0).all()
        assert mine["touches"].tolist() == [i % 5 for i in range(2000)]
        assert all(len(trace.touches_of(row)) == row["touches"] for row in mine[:10])
    assert len(trace.touches) == 16000 * 2
    order = trace.order
    assert len(order) == 16000
    assert (order["kind"] == EventKind.OPERATION).all()


@pytest.mark.unit
def test_an_operation_with_three_touches_takes_at_most_128_bytes(
    writer: Path, tmp_path: Path
) -> None:
    sizes = []
    for number in ("1000", "2000"):
        write(writer, tmp_path / number, "threads", "1", number)
        sizes.append((tmp_path / number).stat().st_size)
    assert (sizes[1] - sizes[0]) / 1000 <= 128  # two touches on average, and chunk headers


@pytest.mark.unit
def test_summary(story: Trace) -> None:
    summary = summarize(story)
    assert summary.program == "writer"
    assert summary.operations[OpKind.LAUNCH] == 1
    assert summary.operations[OpKind.GRAPH] == 2
    assert summary.kernels == 1 + 40 + 40
    assert summary.copied_bytes == 512
    assert summary.touched_bytes == 512 * (3 + 1 + 3000 + 1)
    assert sum(summary.touches.values()) == 3 + 1 + 3000 + 1
    assert summary.touches[TouchSource.CALL] == 1 + 1 + 600 + 1
    assert summary.device_ns == 250
    (use,) = summary.functions
    assert (use.name, use.launches, use.touched_bytes) == ("axpy(float*, int)", 1, 1536)
    assert (use.timed, use.device_ns, use.unmatched) == (1, 250, 0)
    assert summary.unmatched == []
    assert (summary.allocations, summary.freed, summary.peak_bytes) == (1, 1, 2 << 20)
    assert (summary.blocks, summary.tables, summary.table_pointers) == (1, 1, 5000)
    assert summary.span_ns > 0
    assert summary.complete


@pytest.mark.unit
def test_chrome_export_is_what_its_viewers_read(story: Trace, tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    written = export_chrome(story, target)
    events = json.loads(target.read_text())["traceEvents"]
    assert len(events) == written
    (work,) = [event for event in events if event["ph"] == "X" and "cat" not in event]
    assert work["name"] == "axpy(float*, int)"
    assert work["dur"] == 0.25
    assert work["args"]["bytes"] == 1536
    calls = [event for event in events if event["ph"] == "i"]
    assert [call["cat"] for call in calls] == ["launch", "copy", "graph", "graph"]
    curves: dict[str, list[float]] = {}
    for event in events:
        if event["ph"] == "C":
            curves.setdefault(event["name"], []).extend(event["args"].values())
    assert curves == {
        "memory": [2 << 20, 0],
        "pages there": [6 << 20, 8 << 20, 6 << 20, 6 << 20],
        "hits": [25],
        "predicted": [75],
    }
    paged = [event for event in events if event.get("cat") in ("move", "held")]
    assert [event["name"] for event in paged] == [
        "held: axpy(float*, int)",
        "held: not known",
        "in, ahead of need",
        "in",
        "out, discarded",
        "out, refused",
    ]
    named = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    assert [named[event["pid"], event["tid"]] for event in paged] == [
        *["thread 1"] * 2,
        *["pages in"] * 2,
        *["pages out"] * 2,
    ]
    ways = [(event["pid"], event["tid"]) for event in paged[2:]]
    assert len(set(ways)) == len(ways)  # all under way at the same time
    lanes = {(event["pid"], event.get("tid")) for event in events if event["ph"] == "M"}
    assert all((event["pid"], event["tid"]) in lanes for event in [work, *calls, *paged])
    assert all(event["ts"] >= 0 for event in events if "ts" in event)


@pytest.mark.unit
def test_compressed_traces_read_the_same(story: Trace, tmp_path: Path) -> None:
    target = tmp_path / "story.trace.gz"
    before, after = compress(story.path, target)
    assert after < before
    assert gzip.decompress(target.read_bytes()) == story.path.read_bytes()
    again = read(target)
    assert (again.operations == story.operations).all()
    assert (again.graph_touches == story.graph_touches).all()
    assert again.complete
    back = tmp_path / "again.gz"
    compress(target, back)
    assert (read(back).order == story.order).all()


@pytest.mark.unit
def test_compressing_onto_itself_leaves_the_trace_alone(story: Trace) -> None:
    before = story.path.read_bytes()
    with pytest.raises(FileExistsError):
        compress(story.path, story.path)
    assert story.path.read_bytes() == before


@pytest.mark.unit
@pytest.mark.parametrize(
    ("content", "offset", "reason"),
    [
        (b"", 0, "too short"),
        (b"ulmstrac", 8, "too short"),
        (b"#!/bin/sh\n" + b"x" * 100, 0, "not a trace"),
        (b"ulmstrac\x63\x00\x00\x00" + b"\x00" * 100, 8, "version 99"),
        (gzip.compress(b"x" * 100, mtime=0), 0, "not a trace"),
        (b"\x1f\x8b" + b"x" * 100, 0, "too short"),
    ],
)
def test_what_is_no_trace_is_one_line(
    content: bytes, offset: int, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "no.trace"
    path.write_bytes(content)
    with pytest.raises(TraceError) as error:
        read(path)
    assert error.value.offset == offset
    assert reason in str(error.value)
    assert str(error.value).startswith(f"{path}: byte {offset}: ")
    assert "\n" not in str(error.value)
    with pytest.raises(TraceError):
        compress(path, tmp_path / "target")


@pytest.mark.unit
def test_no_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "none")
