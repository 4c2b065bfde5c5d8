"""The demonstration: the numbers are unchanged, and what was seen is what the program did."""

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pump.trace import OpKind

pytestmark = pytest.mark.emu

# tests/programs/train.c: steps, layers of the network, and what each step issues.
STEPS, WIDTH = 100, (48, 96, 96, 64, 16)
LAYERS = len(WIDTH) - 1
GEMMS = LAYERS + 1 + 2 * LAYERS - 1  # forward, loss, backward
KERNELS = {"gemm": GEMMS, "relu": LAYERS - 1, "relu_backward": LAYERS - 1, "adam": 1}
KERNELS |= {"axpy": 1, "scale": 1}
COPIES = {"from the host": 2, "batch taken": 2, "loss": 1, "to the host": 1}
FLOATS = sum(a * b for a, b in itertools.pairwise(WIDTH))
ARENA_BYTES = 1 << 20


@pytest.fixture(scope="module")
def demo() -> Any:
    """Both runs of the demonstration."""
    return load("demo").run_demo()


def load(name: str) -> ModuleType:
    """A script beside this file, as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_output_is_identical_and_the_network_learns(demo: Any) -> None:
    assert demo.plain == demo.observed
    losses = [float(line.split()[-1]) for line in demo.plain.splitlines()]
    assert len(losses) == 1 + STEPS // 10
    assert losses[-1] < losses[0] / 2


def test_every_kernel_is_seen_and_matched(demo: Any) -> None:
    seen = {use.name: use.launches for use in demo.summary.functions}
    assert seen == {name: count * STEPS for name, count in KERNELS.items()}
    assert demo.summary.kernels == sum(KERNELS.values()) * STEPS
    assert demo.summary.unmatched == []
    assert [use.name for use in demo.summary.functions if use.blind] == []


def test_every_other_operation_is_seen(demo: Any) -> None:
    counted = demo.summary.operations
    assert counted[OpKind.COPY] == sum(COPIES.values()) * STEPS + LAYERS
    assert counted[OpKind.MEMSET] == LAYERS * STEPS + 2 * LAYERS
    assert counted[OpKind.RECORD] == 2 * STEPS
    assert counted[OpKind.AFTER] == 2 * STEPS
    assert counted[OpKind.WAIT] == 2 * STEPS


def test_memory_is_accounted_to_the_byte(demo: Any) -> None:
    summary = demo.summary
    assert (summary.allocations, summary.freed) == (3 * LAYERS + 1, 3 * LAYERS + 1)
    assert summary.peak_bytes == 3 * 4 * FLOATS + ARENA_BYTES


def test_the_trace_is_complete(demo: Any) -> None:
    assert demo.summary.complete, demo.summary.notes


def test_half_the_memory_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes move only where memory is short."""
    monkeypatch.setattr("bench.emulator.run.STRETCH", 1)  # no times are compared
    script = load("demo")
    runs = script.run_in_half()
    assert len({told.result for told in runs.values()}) == 1
    native = runs.pop("native")
    assert native.moved == 0
    assert all(told.moved > native.footprint / 4 for told in runs.values())


def test_another_result_is_told() -> None:
    script = load("demo")
    told = SimpleNamespace(result="1", moved=3 << 20, step_ms=[1.0, 2.0, 9.0], footprint=1 << 30)
    other = SimpleNamespace(**(vars(told) | {"result": "2"}))
    first, um, vmm = script.half_lines({"native": told, "um": told, "vmm": other})
    assert "needs 1.0 GiB" in first
    assert um == "  um: same result, 3 MiB moved a step, 2.0 ms a step"
    assert vmm == "  vmm: ANOTHER RESULT, 3 MiB moved a step, 2.0 ms a step"
