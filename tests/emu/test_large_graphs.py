"""Graphs of more nodes than a launch has arguments."""

from pathlib import Path

import pytest

from pump import open_trace
from tests.conftest import RunEmulated
from tests.emu.small_program import run_small

pytestmark = pytest.mark.emu
NODES, SIZE = 20_000, 1 << 10
PROGRAM = """
stream, graph, graph_exec = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
start = allocated(NODES * SIZE).value
kinds = ["call", "library", "framework", "observed", "allocation"]
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuStreamBeginCapture_v2", stream, 2)
for i in range(NODES):
    at = ctypes.c_uint64(start + i * SIZE)
    call("cuMemsetD8Async", at, ctypes.c_ubyte(1), ctypes.c_size_t(SIZE), stream)
call("cuStreamEndCapture", stream, ctypes.byref(graph))
call("cuGraphInstantiateWithFlags", ctypes.byref(graph_exec), graph, ctypes.c_ulonglong(0))
before = [counter(f"touches_{kind}") for kind in kinds] + [counter("touched_bytes")]
call("cuGraphLaunch", graph_exec, stream)
call("cuStreamSynchronize", stream)
after = [counter(f"touches_{kind}") for kind in kinds] + [counter("touched_bytes")]
print(*(now - then for now, then in zip(after, before)))
"""


def test_every_touch_of_a_graph_is_counted(tmp_path: Path, run_emulated: RunEmulated) -> None:
    text = f"NODES, SIZE = {NODES}, {SIZE}\n" + PROGRAM
    told = run_small(run_emulated, tmp_path, text, memory="1GiB", ULMS_BACKEND="um")
    assert told.split() == [str(NODES), "0", "0", "0", "0", str(NODES * SIZE)]


SET = """
stream, graph, graph_exec = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()


class Memset(ctypes.Structure):
    _fields_ = [
        ("dst", ctypes.c_uint64), ("pitch", ctypes.c_size_t), ("value", ctypes.c_uint),
        ("element", ctypes.c_uint), ("width", ctypes.c_size_t), ("height", ctypes.c_size_t),
    ]


def parameters(i, value):
    return ctypes.byref(Memset(start + i * SIZE, SIZE, value, 1, SIZE, 1))


start = allocated(NODES * SIZE).value
nodes = [ctypes.c_void_p() for _ in range(NODES)]
call("cuStreamCreate", ctypes.byref(stream), 1)
call("cuGraphCreate", ctypes.byref(graph), 0)
for i, node in enumerate(nodes):
    made = ctypes.byref(node), graph, None, ctypes.c_size_t(0), parameters(i, 1), context
    call("cuGraphAddMemsetNode", *made)
call("cuGraphInstantiateWithFlags", ctypes.byref(graph_exec), graph, ctypes.c_ulonglong(0))
for _ in range(2):
    for i, node in enumerate(nodes):
        other = parameters(NODES - 1 - i, 2)
        call("cuGraphExecMemsetNodeSetParams", graph_exec, node, other, context)
    call("cuGraphLaunch", graph_exec, stream)
call("cuStreamSynchronize", stream)
"""


def test_a_graph_is_summed_up_once_a_launch_whatever_is_set(
    tmp_path: Path, run_emulated: RunEmulated
) -> None:
    trace = tmp_path / "trace"
    text = f"NODES, SIZE = 200, {SIZE}\n" + SET
    run_small(
        run_emulated, tmp_path, text, memory="1GiB", ULMS_BACKEND="observe", ULMS_TRACE=str(trace)
    )
    graphs = open_trace(trace).graphs
    assert len(graphs) == 3  # as it was made, and at each launch
    assert list(graphs["touches"]) == [200] * 3
