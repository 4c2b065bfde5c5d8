"""JAX with less memory than it needs, on a real GPU: behind its handles lies memory that moves."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import programs
from pump.paths import library

pytestmark = pytest.mark.gpu

pytest.importorskip("jax")


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_it_trains_to_the_same_losses(backend: str, tmp_path: Path) -> None:
    """Its allocator takes a share of the memory that it is shown: of 128 MiB, eight times."""
    native = programs.run("jax", tmp_path, observe=False, count=False, warm=2, timed=4)
    env = {
        "LD_PRELOAD": str(library()),
        "ULMS_BACKEND": backend,
        "ULMS_GPU_MEMORY": "128MiB",
        "ULMS_GPU_MEMORY_FACTOR": "100",
        "ULMS_MANAGED_LIMIT": "2GiB",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "8",
        "REPORT_COUNTERS": "filled_bytes,evicted_bytes,in_place_bytes",
    }
    under = programs.run("jax", tmp_path, observe=False, count=False, warm=2, timed=4, more=env)
    assert (native.status, under.status) == (0, 0), under.stderr
    assert programs.numbers_equal([native, under]), (native.numbers, under.numbers)
    moved = under.facts["counters"]
    assert isinstance(moved, dict)
    assert sum(moved.values()) > 0
