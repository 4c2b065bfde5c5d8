"""What hooks add to a call in a program that does something else between two of them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import paths

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import cold_cost  # noqa: E402

pytestmark = pytest.mark.emu
TIMES, ROUNDS = 200, 9
MOST_NS = {
    "launch": 4500,
    "question": 1500,
    "block": 4500,
    "cublasSgemm_v2": 6000,
    "cublasGemmEx": 6000,
    "cublasGemmStridedBatchedEx": 6000,
    "cublasLtMatmul": 8000,
}


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    """Observed, and at rest."""
    program = cold_cost.build(tmp_path_factory.mktemp("cold"), paths.emulator_dir())
    ways = (cold_cost.OBSERVED, cold_cost.AT_REST)
    return [cold_cost.nanoseconds(program, paths.library(), TIMES, ROUNDS, way) for way in ways]


@pytest.mark.parametrize("name", cold_cost.CALLS)
def test_with_cold_caches(
    over: list[dict[str, float]], tell: Callable[[str], None], name: str
) -> None:
    observed, at_rest = (each[name] for each in over)
    tell(
        f"{name}, caches swept: {observed:.0f} ns over the unhooked one, "
        f"{at_rest:.0f} ns where memory could move and everything fits"
    )
    assert max(observed, at_rest) <= MOST_NS[name]
