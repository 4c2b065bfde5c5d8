"""What is done to the programs of bench/gpu/workloads, on the CPU; skipped where PyTorch is not."""

import math
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import programs, run  # noqa: E402
from bench.gpu.budget import environment  # noqa: E402
from bench.gpu.report import is_start_of  # noqa: E402
from bench.gpu.workloads import framework_of, names, offload  # noqa: E402
from bench.gpu.workloads.sizes import (  # noqa: E402
    CUPY_MIX,
    GRAPH_DECODE,
    GRAPH_PREFILL,
    JAX_TRANSFORMER,
    MOE,
    PAIRS,
    TRITON_MLP,
)
from pump.bench.runner import Asked  # noqa: E402

pytestmark = pytest.mark.unit


def imported(name: str) -> Any:
    """The module; the test is skipped where it is not there, or does not go with its PyTorch."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"without {name}: {error}")


GIB = 1 << 30


def test_programs_are_small_enough_for_managed_memory_and_large_enough_to_move() -> None:
    assert PAIRS.keys() <= names().keys()
    for name, (full, tiny) in PAIRS.items():
        assert 2 * GIB <= full.least_bytes <= 6 * GIB, name
        assert tiny.least_bytes < GIB // 16, name


@pytest.mark.parametrize("tiny", [False, True])
def test_sizes_go_together(tiny: bool) -> None:
    moe, arrays = MOE[tiny], CUPY_MIX[tiny]
    for size in (JAX_TRANSFORMER[tiny], moe, GRAPH_DECODE[tiny], GRAPH_PREFILL[tiny]):
        assert size.width % size.heads == 0
    assert moe.chosen < moe.experts
    for cached in (GRAPH_DECODE[tiny], GRAPH_PREFILL[tiny]):
        assert cached.prompt <= cached.length
    assert arrays.rows % arrays.entries == 0
    assert max(arrays.rows * arrays.entries, arrays.values, arrays.keys) < 1 << 31
    assert TRITON_MLP[tiny].width % (64 if tiny else 128) == 0


@pytest.mark.parametrize("name", [*PAIRS, "lora"])
def test_programs_of_all_frameworks_compute(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the same, of a tiny size, and with other numbers in every step."""
    if framework_of(name) == "cupy":
        pytest.skip("CuPy runs on a GPU only")
    more = {"gat": "torch_geometric", "lora": "peft", "triton-mlp": "triton"}
    for framework in (framework_of(name), more.get(name, "sys")):
        imported(framework)
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setattr(run, "WARM", 1)
    monkeypatch.setattr(run, "WARM_ONCE", 1)
    monkeypatch.setattr(run, "TIMED", 2)
    tiny = run.Programs(tiny=True)
    first, again = (
        tiny.run(name, "native", environment("native", None), math.inf) for _ in range(2)
    )
    assert is_start_of(first.numbers, again.numbers, 3, first.tolerance)
    assert len({*first.numbers}) == len(first.numbers)


@pytest.mark.parametrize(
    ("name", "system", "needs"),
    [
        ("lstm", "save-on-cpu", "torch"),
        ("resnet50", "checkpointing", "torchvision"),
        ("decode-8b", "offload", "transformers"),
    ],
)
def test_tiny_programs_really_run(
    name: str, system: str, needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(needs)
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    for steps in ("WARM", "WARM_ONCE", "WARM_UNLEARNT"):
        monkeypatch.setattr(run, steps, 1)
    monkeypatch.setattr(run, "TIMED", 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # others wait for each other on a busy machine
    wanted = Asked([name], ["native", system], [2.0], quiet=True)
    rows = run.Programs(tiny=True).rows(wanted)
    assert [(row.system, len(row.step_ms)) for row in rows] == [
        ("native", run.TIMED),
        (system, run.TIMED),
    ]
    assert all(row.numbers_equal for row in rows)


def test_batch_norms_that_run_twice_learn_once() -> None:
    torch = imported("torch")
    work = imported("bench.gpu.workloads.by_torch")

    def trained(variant: str) -> tuple[list[float], dict[str, Any]]:
        torch.manual_seed(0)
        blocks = [
            torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU())
            for _ in range(3)
        ]
        model, images = torch.nn.Sequential(*blocks), torch.randn(2, 3, 16, 16)
        made = work.training(lambda: model(images).square().mean(), model, blocks, 0.1)
        work.change(made, variant)
        for _ in range(3):
            made.step()
        assert [block[1].momentum for block in blocks] == [0.1] * 3
        return [number.item() for number in made.numbers], model.state_dict()

    (plain, state), (twice, again) = trained("plain"), trained("checkpointing")
    assert plain == twice
    assert state.keys() == again.keys()
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_a_resnet_that_computes_twice_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = imported("torch")
    imported("torchvision")
    from torch.multiprocessing.reductions import StorageWeakRef

    monkeypatch.syspath_prepend(str(programs.TESTS / "programs"))
    resnet50 = import_module("bench.gpu.workloads.resnet50")
    change: Callable[..., None] = import_module("bench.gpu.workloads.by_torch").change

    def kept(variant: str) -> tuple[int, float]:
        """Bytes of modules' results that live when the forward pass has ended; the loss."""
        torch.manual_seed(0)
        work = resnet50.make("cpu", tiny=True)
        change(work, variant)
        made: dict[int, tuple[Any, int]] = {}
        living = 0

        def after(module: Any, _: object, result: Any) -> None:
            nonlocal living
            storage = result.untyped_storage()
            made[storage.data_ptr()] = StorageWeakRef(storage), storage.nbytes()
            if type(module).__name__ == "ResNet":
                living = sum(size for each, size in made.values() if not each.expired())

        hook = torch.nn.modules.module.register_module_forward_hook(after)
        work.step()
        hook.remove()
        return living, work.numbers[0].item()

    (all_of_them, loss), (some, again) = kept("plain"), kept("checkpointing")
    assert math.isfinite(loss)
    assert loss == again
    assert 0 < some < all_of_them / 2


@pytest.mark.parametrize("way", [offload.Plain, offload.Accelerated])
def test_weights_come_and_go_and_stay(way: Callable[..., offload.Offload]) -> None:
    torch = imported("torch")
    if way is offload.Accelerated and not find_spec("accelerate"):
        pytest.skip("without accelerate")
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).requires_grad_(False)
    x = torch.randn(2, 4)
    expected = block(x)
    weights = {name: weight.clone() for name, weight in block.named_parameters()}
    away = way(block, "cpu")
    assert away.bytes == 4 * (16 + 4 + 4 + 4)
    for _ in range(2):
        assert torch.equal(block(x), expected)
    if way is offload.Accelerated:
        assert {weight.device.type for weight in block.parameters()} == {"meta"}
    away.stay()
    assert all(torch.equal(weight, weights[name]) for name, weight in block.named_parameters())
    assert not any(module._forward_pre_hooks for module in block.modules())
    assert torch.equal(block(x), expected)
