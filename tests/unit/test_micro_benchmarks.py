"""The loops of `make bench` compile, and the engine takes no more instructions than it may."""

import shutil
from pathlib import Path

import pytest

from bench.micro import built, engine_cost

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.mark.parametrize("loop", built.LOOPS)
def test_a_loop_compiles(loop: str, tmp_path: Path) -> None:
    assert built.compiled(tmp_path / "loop.so", loop).exists()


@pytest.mark.skipif(not shutil.which("valgrind"), reason="no valgrind to count instructions")
def test_instructions_of_an_operation(tmp_path: Path) -> None:
    assert 1_000 < engine_cost.instructions(tmp_path) < engine_cost.MOST
