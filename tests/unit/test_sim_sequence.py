"""Recorded sequences of operations: what a step leaves behind, and files that are none."""

from pathlib import Path

import pytest

from pump.sim.engine import WRITE, Touch
from pump.sim.link import PAGE_BYTES as PAGE
from pump.sim.sequence import (
    Block,
    Given,
    Operation,
    Sequence,
    SequenceError,
    page_runs,
    read_sequence,
)

pytestmark = pytest.mark.unit


def test_a_step_may_leave_other_blocks_than_it_found() -> None:
    """Its repetition finds what it found itself."""
    old, new = Block(0, 8), Block(8, 8)
    work = Operation(1, 1, (Touch(*new, WRITE),))
    step = (Given(new, True), work, Given(old, False))
    first, again, last = Sequence((old,), (step,)).play(3)
    assert first == step
    assert again == last == (Given(new, False), Given(old, True), *step)


def test_pages_come_in_runs() -> None:
    ranges = [Block(0, 1), Block(PAGE - 1, 2), Block(5 * PAGE, PAGE)]
    assert list(page_runs(ranges, PAGE)) == [(0, 2), (5, 1)]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("pump-sequence 0\n", "does not begin"),
        ("pump-sequence 1\nstep\n", "no operation"),
        ("pump-sequence 1\nstep\no 1 2 7r\n", ":3: o 1 2 7r"),
        ("pump-sequence 1\nblock 0 1000\n", ":2: block"),
        ("pump-sequence 1\nblock 0 1000 8\no 1 2 0r\n", ":3: o"),
        ("pump-sequence 1\nblock 0 1000 8\nstep\no 1 2 0x\n", ":4: o"),
        ("pump-sequence 1\nnoise\n", ":2: noise"),
    ],
)
def test_damaged_sequences_are_refused(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SequenceError, match=where):
        read_sequence(path)
