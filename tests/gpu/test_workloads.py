"""Programs of other kinds than PyTorch's training compute the same with less memory, on a GPU."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import run
from bench.gpu.workloads import framework_of
from bench.gpu.workloads.sizes import PAIRS
from pump.bench.runner import Asked

pytestmark = pytest.mark.gpu

MORE = {"gat": "torch_geometric", "triton-mlp": "triton"}


@pytest.mark.parametrize("name", PAIRS)
def test_numbers_are_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for framework in filter(None, (framework_of(name), MORE.get(name))):
        if not find_spec(framework):
            pytest.skip(f"without {framework}")
    for steps in ("WARM", "WARM_ONCE", "WARM_UNLEARNT"):
        monkeypatch.setattr(run, steps, 2)
    monkeypatch.setattr(run, "TIMED", 3)
    rows = run.Programs().rows(Asked([name], ["native", "um", "vmm"], [1.7], quiet=True))
    assert [(row.system, row.failed) for row in rows] == [("native", ""), ("um", ""), ("vmm", "")]
    for row in rows[1:]:
        assert row.numbers_equal, row
        assert row.bytes_in, row
