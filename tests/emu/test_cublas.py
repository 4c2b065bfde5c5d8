"""Every function of cuBLAS that the tables tell of, called on the look-alike with random shapes.

What ulms.so traced is compared with `blas_model`, which enumerates the elements with numpy. Calls
are made twice: with kernels that hold all pointers, and with kernels that hold none.
"""

import json
import random
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from hooks.gen import shipped  # noqa: E402
from hooks.generator.row import Told  # noqa: E402
from tests.conftest import RunEmulated  # noqa: E402
from tests.emu.blas_calls import SLOT, SLOTS, Call, Maker  # noqa: E402
from tests.emu.library_run import Touch, joined, run_calls  # noqa: E402

pytestmark = pytest.mark.emu

ROWS = [r for r in shipped().rows if r.library == "cublas" and isinstance(r.treatment, Told)]
CALLS_EACH = 8
LIBRARY = "libcublas.so.13"

Made = dict[str, list[Call]]


@pytest.fixture(scope="module")
def calls() -> Made:
    """Random calls of every function, the same in every run."""
    chance = random.Random(20251121)
    return {row.symbol: [Maker(row, chance).make() for _ in range(CALLS_EACH)] for row in ROWS}


@pytest.fixture(scope="module", params=["hidden", "seen"])
def touched(
    request: pytest.FixtureRequest,
    calls: Made,
    run_emulated: RunEmulated,
    emulator_dir: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, dict[str, list[set[Touch]]]]:
    """What the launches of every function's calls touched; kernels hold pointers, or none."""
    trace = tmp_path_factory.mktemp("cublas") / "trace"
    lines = [call.json(LIBRARY) for made in calls.values() for call in made]
    launches = run_calls(
        run_emulated,
        emulator_dir,
        trace,
        lines,
        library=LIBRARY,
        size=SLOTS * SLOT,
        kernels=request.param,
    )
    return request.param, dict(zip(calls, batched(launches, CALLS_EACH), strict=True))


def batched(items: list[set[Touch]], count: int) -> list[list[set[Touch]]]:
    """The items in lists of `count`."""
    return [items[at : at + count] for at in range(0, len(items), count)]


@pytest.mark.parametrize("symbol", [row.symbol for row in ROWS])
def test_extents(
    symbol: str, calls: Made, touched: tuple[str, dict[str, list[set[Touch]]]]
) -> None:
    """Bytes and modes of every operand, and nothing else."""
    how, launches = touched
    compared = 0
    for call, found in zip(calls[symbol], launches[symbol], strict=True):
        if how == "hidden" or call.exact_when_seen:
            assert joined(found) == joined(call.touches), json.dumps(call.json(LIBRARY))
            compared += 1
    assert compared
