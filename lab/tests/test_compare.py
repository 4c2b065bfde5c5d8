"""What a step truly touched against a trace of it: made-up steps, with one thing wrong each."""

import copy
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lab.touches.compare import compare  # noqa: E402
from lab.touches.page import HOOKS, cells  # noqa: E402
from lab.touches.truth import truth_of  # noqa: E402
from pump.trace import OpFlag, OpKind, TouchMode, TouchSource, Trace  # noqa: E402
from pump.trace.trace import (  # noqa: E402
    ALLOCATION,
    BLOCK,
    COUNTS,
    DROP,
    GRAPH,
    HOLD,
    MOVE,
    OPERATION,
    RETIREMENT,
    TABLE,
    TOUCH,
)

pytestmark = pytest.mark.unit

MIB = 1 << 20
SEGMENT, X, Y, W, WORKSPACE = 64 * MIB, 64 * MIB, 65 * MIB, 66 * MIB, 68 * MIB
SIZE = 4096
READ, WRITE, UPDATE, SCRATCH = TouchMode
MAIN, BACKWARD = 1000, 1001
Touch = tuple[int, int, TouchMode]


@dataclass
class World:
    """A step being made up. Time goes on by 100 ns an operation."""

    operations: list[dict[str, Any]] = field(default_factory=list)
    events: list[tuple[bool, int, int]] = field(default_factory=list)
    launches: list[tuple[int, int, list[Touch], int, int]] = field(default_factory=list)
    source: TouchSource = TouchSource.FRAMEWORK
    now: int = 10_000

    def operation(
        self,
        name: str,
        tensors: list[tuple[str, int, list[int], bool]],
        touches: list[Touch],
        *,
        thread: int = MAIN,
        events: tuple[tuple[bool, int, int], ...] = (),
    ) -> None:
        """Tensors of floats, dense, and one launch with these touches."""
        before = len(self.events)
        self.events += events
        self.operations.append(
            {
                "name": name,
                "thread": thread,
                "begin": self.now,
                "end": self.now + 50,
                "before": before,
                "after": len(self.events),
                "tensors": [dense(*tensor) for tensor in tensors],
            }
        )
        if touches:
            self.launch(touches, at=self.now + 25, thread=thread - MAIN + 1)
        self.now += 100

    def launch(self, touches: list[Touch], *, at: int, thread: int = 1, flags: int = 0) -> None:
        self.launches.append((at, thread, touches, flags, 0))

    def compare(self) -> dict[str, Any]:
        known = [(X, SIZE), (Y, SIZE), (W, SIZE)]
        recorded = {
            "begin": 9_000,
            "end": self.now,
            "operations": self.operations,
            "held": known,
            "blocks": [*known, (WORKSPACE, 8 * SIZE)],
            "segments": [(SEGMENT, 8 * MIB)],
            "events": self.events,
            "events_agree": True,
        }
        return compare(truth_of(json.loads(json.dumps(recorded))), self.trace())

    def trace(self) -> Trace:
        operations = np.zeros(len(self.launches), OPERATION)
        touches: list[tuple[int, int, int, TouchMode, bool, TouchSource]] = []
        for i, (at, thread, mine, flags, status) in enumerate(self.launches):
            row = (i + 1, at, thread, 1, 0, 7, 1, 0, status, OpKind.LAUNCH, flags, 0, len(touches))
            operations[i] = (*row, len(mine))
            touches += [(start, size, 5, mode, False, self.source) for start, size, mode in mine]
        return Trace(
            path=Path("none"),
            machine={},
            pid=1,
            opened=0.0,
            opened_ns=0,
            operations=operations,
            touches=np.array(touches, dtype=TOUCH),
            retirements=np.zeros(0, RETIREMENT),
            allocations=np.zeros(0, ALLOCATION),
            blocks=np.zeros(0, BLOCK),
            graphs=np.zeros(0, GRAPH),
            graph_touches=np.zeros(0, TOUCH),
            tables=np.zeros(0, TABLE),
            table_pointers=np.zeros(0, np.uint64),
            drops=np.zeros(0, DROP),
            moves=np.zeros(0, MOVE),
            holds=np.zeros(0, HOLD),
            counts=np.zeros(0, COUNTS),
            count_values=np.zeros(0, np.uint64),
            functions={7: "kernel"},
            apis={},
            counters={},
            losses=[],
            closed=True,
        )


def dense(
    role: str, start: int, sizes: list[int], written: bool
) -> tuple[str, int, int, list[int], list[int], bool]:
    strides = [int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    return role, start, 4, sizes, strides, written


COPY = [("self", Y, [1024], True), ("src", X, [1024], False)]
EXACT: list[Touch] = [(Y, SIZE, WRITE), (X, SIZE, READ)]


def test_all_found() -> None:
    world = World()
    world.operation("aten.copy_.default", COPY, EXACT)
    world.operation("aten.view.default", [("self", X, [1024], False)], [])
    world.operation("aten.copy_.default", COPY, EXACT, thread=BACKWARD)
    found = world.compare()
    assert (found["operations"], found["operations_recorded"], found["launches"]) == (2, 3, 2)
    assert found["truth"] == 4 * SIZE
    wrong = ("missed", "surplus", "read_only", "overwritten", "unplaced", "workspaces")
    assert [found[name] for name in wrong] == [0] * len(wrong)
    assert (found["worst"], found["without_owner"], found["unread"]) == ([], {}, [])
    assert found["threads"] == {str(MAIN): 1, str(BACKWARD): 2}
    assert found["history_agrees"]
    assert found["trace_complete"]


def test_missed() -> None:
    world = World()
    world.operation("aten.copy_.default", COPY, [(Y, SIZE, WRITE), (X + 100, SIZE - 200, READ)])
    found = world.compare()
    assert (found["missed"], found["surplus"]) == (200, 0)
    assert found["by_operation"]["aten.copy_.default"]["missed_operands"] == {"src": 200}
    (worst,) = found["worst"]
    assert (worst["operands"][0]["role"], worst["operands"][0]["missed"]) == ("src", 200)
    assert worst["kernels"] == ["kernel"]


@pytest.mark.parametrize(
    ("kind", "start", "size", "source"),
    [
        ("own", X + SIZE, SIZE - 100, TouchSource.LIBRARY),
        ("rounding", X + 2 * SIZE - 100, 100, TouchSource.FRAMEWORK),
        ("remainder", X + 2 * SIZE, 64, TouchSource.FRAMEWORK),
        ("free", X + 2 * SIZE, 64, TouchSource.OBSERVED),
        ("other", W, SIZE, TouchSource.FRAMEWORK),
        ("outside", SEGMENT + 8 * MIB, 64, TouchSource.ALLOCATION),
    ],
)
def test_kinds_of_surplus(kind: str, start: int, size: int, source: TouchSource) -> None:
    """The tensor is the first half of a block of two, without 100 bytes."""
    world = World(source=source)
    world.events += [(False, X, SIZE), (True, X, 2 * SIZE - 100)]
    tensors = [("self", X, [1024], False)]
    world.operation("aten.sum.default", tensors, [(X, SIZE, READ), (start, size, READ)])
    found = world.compare()
    assert (found["missed"], found["surplus"]) == (0, size)
    assert {name: n for name, n in found["surplus_by_kind"].items() if n} == {kind: size}
    assert found["worst"][0]["touches"][0]["surplus"] == size


def test_holes() -> None:
    """Two rows of 256 bytes, 2048 bytes apart."""
    world = World()
    world.operation("aten.sum.default", [], [(X, 2048 + 256, READ)])
    world.operations[0]["tensors"] = [("self", X, 4, [2, 64], [512, 1], False)]
    found = world.compare()
    assert (found["truth"], found["missed"], found["surplus"]) == (512, 0, 2048 - 256)
    assert found["surplus_by_kind"]["holes"] == 2048 - 256


def test_scratch_is_no_surplus() -> None:
    """A block handed out and taken back meanwhile; one that never held a tensor."""
    world = World()
    temporary, result = 67 * MIB, 67 * MIB
    events = ((True, temporary, 3 * SIZE), (False, temporary, 0), (True, result, SIZE))
    tensors = [("self", X, [1024], False), ("return 0", result, [1024], True)]
    touches: list[Touch] = [(X, SIZE, READ), (temporary, 3 * SIZE, UPDATE)]
    world.operation(
        "aten.sort.default", tensors, [*touches, (WORKSPACE, 8 * SIZE, SCRATCH)], events=events
    )
    found = world.compare()
    assert (found["missed"], found["surplus"]) == (0, 0)
    assert (found["temporaries"], found["workspaces"]) == (3 * SIZE, 8 * SIZE)
    assert found["unplaced"] == 0


def test_the_next_operation_does_not_own_a_block_that_is_gone() -> None:
    world = World()
    world.operation("aten.empty.default", [], [], events=((True, 67 * MIB, SIZE),))
    tensors = [("self", 67 * MIB, [1024], True)]
    world.operation("aten.fill_.Scalar", tensors, [(67 * MIB, SIZE, WRITE)])
    world.events.append((False, 67 * MIB, SIZE))
    world.operation("aten.copy_.default", COPY, [*EXACT, (67 * MIB, SIZE, READ)])
    found = world.compare()
    assert found["surplus"] == found["surplus_by_kind"]["remainder"] == SIZE


def test_directions() -> None:
    world = World()
    world.operation("aten.copy_.default", COPY, [(Y, SIZE, READ), (X, SIZE, WRITE)])
    found = world.compare()
    assert (found["missed"], found["surplus"]) == (0, 0)
    assert (found["read_only"], found["overwritten"]) == (SIZE, SIZE)
    world = World()
    world.operation("aten.copy_.default", COPY, [(Y, SIZE, UPDATE), (X, SIZE, UPDATE)])
    found = world.compare()
    assert (found["read_only"], found["overwritten"]) == (0, 0)


def test_unread_operands() -> None:
    """The weight counts only where the gradient of the input is asked for."""
    tensors = [("grad_output", X, [1024], False), ("weight", W, [1024], False)]
    weight_gradient = ("return 1", Y, [1024], True)
    world = World()
    touches: list[Touch] = [(X, SIZE, READ), (Y, SIZE, WRITE)]
    world.operation("aten.convolution_backward.default", [*tensors, weight_gradient], touches)
    found = world.compare()
    assert (found["truth"], found["missed"], found["surplus"]) == (2 * SIZE, 0, 0)
    assert [(each["operand"], each["bytes"]) for each in found["unread"]] == [("weight", SIZE)]
    world.operations[0]["tensors"].append(dense("return 0", WORKSPACE, [1], True))
    assert world.compare()["missed"] == SIZE + 4
    world.operations[0]["tensors"].pop()
    world.launches[0][2].append((W, SIZE, READ))
    assert world.compare()["surplus_by_kind"]["unread"] == SIZE


def test_work_without_owner() -> None:
    """Between operations, or on a thread that runs others; a capture runs nothing."""
    world = World()
    world.operation("aten.copy_.default", COPY, EXACT)
    world.operation("aten.copy_.default", COPY, EXACT)
    world.launch([(W, SIZE, READ)], at=10_075)
    world.launch([(W, SIZE, READ)], at=10_026, thread=3)
    world.launch([(W, SIZE, READ)], at=10_027, flags=OpFlag.CAPTURED)
    world.launch([(W, SIZE, READ)], at=8_000)
    found = world.compare()
    assert (found["operations"], found["launches"], found["surplus"]) == (2, 4, 0)
    assert found["without_owner"] == {"kernel": {"launches": 2, "bytes": 2 * SIZE}}


def test_tensors_outside_of_all_blocks_are_told() -> None:
    world = World()
    world.operation("aten.sum.default", [("self", 80 * MIB, [4], False)], [(80 * MIB, 16, READ)])
    assert world.compare()["unplaced"] == 16


# --- the page ---


def result() -> dict[str, Any]:
    """As the command writes it."""
    world = World()
    world.operation("aten.copy_.default", COPY, [*EXACT, (W, SIZE, READ)])
    runs = {hooks: copy.deepcopy(world.compare()) for hooks in HOOKS}
    runs["driver"] = {"status": 1}
    where = {"gpu": "a GPU", "driver": "1.2", "when": "2026-11-21T00:00:00", "commit": "0123456789"}
    return {"machine": where, "programs": [{"program": "lstm", "runs": runs}]}


def test_a_row_of_the_table() -> None:
    row = cells(result()["programs"][0])
    assert row[1:] == ["0", "0, 0, failed", "50 %", "50 %", "failed"]
