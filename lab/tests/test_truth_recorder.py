"""The recorder of what a PyTorch step touches, on the CPU; only where PyTorch is installed."""

import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gpu" / "programs"))
sys.path.insert(0, str(ROOT))

import truth as recorder  # noqa: E402

from lab.touches.truth import Operand, Operation, truth_of  # noqa: E402

pytestmark = pytest.mark.unit


def by_role(operation: Operation) -> dict[str, Operand]:
    return {operand.role: operand for operand in operation.operands}


def only(operations: list[Operation], name: str) -> Operation:
    (found,) = (each for each in operations if each.name.startswith(name + "."))
    return found


def test_forward_and_backward() -> None:
    """Arguments by name, results, what is written; views give nothing back."""
    x, weight = torch.randn(5, 7), torch.randn(3, 7, requires_grad=True)
    read = truth_of(
        recorder.record(lambda: torch.nn.functional.linear(x, weight).sum().backward(), "cpu")
    )
    products = [each for each in read.operations if each.name == "aten.mm.default"]
    forward, backward = map(by_role, products)
    assert forward["self"].bytes.start.tolist() == [x.data_ptr()]
    assert forward["self"].bytes.bytes == 4 * 5 * 7
    assert forward["mat2"].bytes.start.tolist() == [weight.data_ptr()]
    assert forward["return 0"].bytes.bytes == 4 * 5 * 3
    assert [each.written for each in forward.values()] == [False, False, True]
    assert backward["return 0"].bytes.bytes == weight.nbytes
    view = by_role(next(each for each in read.operations if each.name == "aten.t.default"))
    assert list(view) == ["self"]
    times = [(each.begin, each.end) for each in read.operations]
    assert times == sorted(times)
    assert read.begin <= times[0][0] <= times[-1][1] <= read.end


def test_lists_and_in_place() -> None:
    """Every tensor of a list has its own role; what the schema changes is written."""
    tensors = [torch.ones(n) for n in (1, 2, 3)]
    others = [torch.ones(n) for n in (1, 2, 3)]
    read = truth_of(recorder.record(lambda: torch._foreach_add_(tensors, others), "cpu"))
    operands = by_role(only(read.operations, "aten._foreach_add_"))
    assert list(operands) == [f"{name}[{i}]" for name in ("self", "other") for i in range(3)]
    assert [each.written for each in operands.values()] == [True] * 3 + [False] * 3


def test_several_results() -> None:
    read = truth_of(recorder.record(lambda: torch.randn(4, 6).max(dim=1), "cpu"))
    operands = by_role(only(read.operations, "aten.max"))
    assert [(role, each.bytes.bytes) for role, each in operands.items()] == [
        ("self", 96),
        ("return 0", 16),
        ("return 1", 32),
    ]


def test_what_python_holds() -> None:
    tensor = torch.ones(1000)
    assert (tensor.data_ptr(), tensor.nbytes) in set(recorder.held("cpu"))


class Allocator:
    """What `torch.cuda.memory` tells of a caching allocator, made up."""

    def __init__(self) -> None:
        self.live = {0x1000: 100}
        self.history: list[dict[str, Any]] = [{"action": "alloc", "addr": 0x1000, "size": 100}]
        self.counts = {"allocated": 9, "freed": 8}

    def allocate(self, address: int, size: int) -> None:
        self.live[address] = size
        self.counts["allocated"] += 1
        self.history += [
            {"action": "segment_alloc", "addr": 0x1000, "size": 1 << 20},
            {"action": "alloc", "addr": address, "size": size},
        ]

    def free(self, address: int) -> None:
        size = self.live.pop(address)
        self.counts["freed"] += 1
        for action in ("free_requested", "free_completed"):
            self.history.append({"action": action, "addr": address, "size": size})

    def stats(self) -> dict[str, Any]:
        return {"allocation": {"all": dict(self.counts)}}

    def snapshot(self) -> dict[str, Any]:
        blocks, at = [], 0x1000
        for start, size in sorted(self.live.items()):
            if start > at:
                blocks.append({"size": start - at, "requested_size": 0, "state": "inactive"})
            room = -(-size // 512) * 512
            blocks.append({"size": room, "requested_size": size, "state": "active_allocated"})
            at = start + room
        segment = {"address": 0x1000, "total_size": 1 << 20, "blocks": blocks}
        return {"segments": [segment], "device_traces": [list(self.history)]}


def test_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions count what is handed out and returned; older events are left out."""
    allocator = Allocator()
    recording = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "memory_stats_as_nested_dict", allocator.stats)
    monkeypatch.setattr(torch.cuda.memory, "_snapshot", allocator.snapshot)
    monkeypatch.setattr(
        torch.cuda.memory, "_record_memory_history", lambda *a, **k: recording.append((a, k))
    )
    allocator.allocate(0x4000, 700)
    history = recorder.History()
    assert history.blocks == [(0x1000, 100), (0x4000, 700)]
    assert history.position() == 0
    allocator.free(0x4000)
    allocator.allocate(0x2000, 512)
    assert history.position() == 2
    assert history.end() == [(False, 0x4000, 700), (True, 0x2000, 512)]
    assert set(history.segments) == {(0x1000, 1 << 20)}
    assert recording == [(("all",), {"context": None}), ((None,), {})]
