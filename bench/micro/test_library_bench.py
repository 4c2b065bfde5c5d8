"""What hooked calls of cuBLAS and cuDNN cost over the unhooked ones, on the look-alikes."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pump import paths

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.micro import library_cost  # noqa: E402

pytestmark = pytest.mark.emu
ROUNDS = 1001


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, library_cost.Cost]:
    program = library_cost.build(tmp_path_factory.mktemp("library"), paths.emulator_dir())
    return library_cost.nanoseconds(program, paths.library(), ROUNDS)


@pytest.mark.parametrize("name", library_cost.CALLS)
def test_hooked_call(
    costs: dict[str, library_cost.Cost], tell: Callable[[str], None], name: str
) -> None:
    cost = costs[name]
    tell(f"{name}: {cost.plain:.0f} ns unhooked, {cost.hooked:.0f} hooked, {cost.over:.0f} over it")
    assert cost.over <= library_cost.BOUND_NS
