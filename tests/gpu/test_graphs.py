"""A CUDA graph that does not fit computes the same in pieces, on a real GPU."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.gpu import programs
from pump.paths import library

pytestmark = pytest.mark.gpu

STEPS = 20
OURS = {
    "ULMS_LOG_LEVEL": "INFO",
    "ULMS_MANAGED_LIMIT": "4GiB",
    "ULMS_GPU_MEMORY": "1GiB",
}


def run(tmp_path: Path, more: dict[str, str]) -> programs.Result:
    name = "graph-large"
    return programs.run(name, tmp_path, observe=False, count=False, warm=0, timed=STEPS, more=more)


@pytest.mark.parametrize("backend", ["um", "vmm"])
def test_numbers_are_equal(backend: str, tmp_path: Path) -> None:
    ours = OURS | {"LD_PRELOAD": str(library()), "ULMS_BACKEND": backend}
    native, found = run(tmp_path, {}), run(tmp_path, ours)
    assert programs.numbers_equal([native, found]), found.stderr
    ((_, _, launches),) = programs.SUMMARY.findall(found.stderr)
    assert int(launches) > 4 * STEPS
