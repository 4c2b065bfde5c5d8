"""Managed memory under unmodified programs on a real GPU, within ULMS_MANAGED_LIMIT."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import programs
from pump.paths import library

pytestmark = pytest.mark.gpu

GIB = 1 << 30
LIMIT = 2 * GIB


def run(name: str, tmp_path: Path, **more: str) -> programs.Result:
    env = {"LD_PRELOAD": str(library()), "ULMS_BACKEND": "um", **more}
    return programs.run(name, tmp_path, observe=False, count=False, warm=0, timed=0, more=env)


@pytest.mark.parametrize("name", programs.LIMITS)
@pytest.mark.parametrize("share", [1, 2])
def test_out_of_memory_at_the_limit(name: str, share: int, tmp_path: Path) -> None:
    """Where all that the limit lets a program have fits the device, and where half of it does."""
    done = run(
        name,
        tmp_path,
        ULMS_MANAGED_LIMIT=str(LIMIT),
        ULMS_GPU_MEMORY=str(LIMIT // share),
        ULMS_GPU_MEMORY_FACTOR="100",
    )
    assert done.status == 0, done.stderr
    assert done.facts["refused"] == 1
    assert LIMIT // 2 < int(str(done.facts["most"])) <= LIMIT
    assert done.facts["right"] is True
