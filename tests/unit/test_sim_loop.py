"""Steps in what a program did: what repeats, and on the same memory."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from pump.sim.loop import Lives, Loop, Told, find_loop, starts_of
from pump.trace.trace import TOUCH, Rows
from pump.trace.words import TouchMode

pytestmark = pytest.mark.unit

SIZE = 16 << 20
FOR_EVER = 1 << 60


def touches_on(blocks: Iterable[int]) -> Rows:
    """Of whole blocks, by their numbers."""
    rows = [(SIZE * block, SIZE, 1, TouchMode.READ, False, 0) for block in blocks]
    return np.array(rows, dtype=TOUCH)


def told_of(*operations: Iterable[int], lives: dict[int, tuple[int, int]] | None = None) -> Told:
    """Operations by the blocks that they touch. lives: the serials from and until which a block
    lives; all others live all the time.
    """
    blocks = sorted({block for operation in operations for block in operation})
    spans = np.array([(lives or {}).get(block, (-1, FOR_EVER)) for block in blocks])
    starts = np.array([SIZE * block for block in blocks])
    touches = [touches_on(operation) for operation in operations]
    return Told(
        np.arange(len(operations)), touches, Lives(starts, starts + SIZE, spans[:, 0], spans[:, 1])
    )


@pytest.mark.parametrize(
    ("before", "step", "times", "after", "expected"),
    [
        ([], [1, 2, 3, 4], 5, [], Loop(20, 4)),
        ([9, 9, 9], [1, 2, 2, 2, 3], 4, [], Loop(23, 5)),  # runs of one kind inside
        ([7, 8] * 10, [1, 2, 3, 4, 5, 6], 9, [8, 8], Loop(74, 6)),  # another loop before; the end
        ([1, 2, 3], [1, 2, 3, 4] * 3 + [5], 6, [], Loop(81, 13)),  # layers inside
    ],
)
def test_the_step_is_what_repeats_longest(
    before: list[int], step: list[int], times: int, after: list[int], expected: Loop
) -> None:
    """Each kind of operation has a block of its own."""
    keys = [*before, *step * times, *after]
    assert find_loop(np.array(keys), told_of(*([key] for key in keys))) == expected


def test_what_does_not_repeat_has_no_step() -> None:
    assert find_loop(np.arange(100), told_of(*([key] for key in range(100)))) is None


@pytest.mark.parametrize("layers", [12, 32, 200])
@pytest.mark.parametrize("steps", [2, 7])
def test_a_layer_is_no_step(layers: int, steps: int) -> None:
    """All operations are of one kind, and one block is touched by all: only weights differ."""
    told = told_of(*([layer, 1000] for layer in [*range(layers)] * steps))
    keys = np.zeros(layers * steps, dtype=np.int64)
    loop = find_loop(keys, told)
    assert loop == Loop(layers * steps, layers)
    assert len(starts_of(keys, loop)) == steps


def test_layers_of_a_single_step_are_none() -> None:
    told = told_of(*([layer, 1000] for layer in range(32)))
    assert find_loop(np.zeros(32, dtype=np.int64), told) is None


def elsewhere(step: int, layer: int) -> int:
    """A new block in each step."""
    return 1000 + 100 * step + layer


def to_and_fro(step: int, layer: int) -> int:
    """Two blocks in turn, as caches that grow have them."""
    return 1000 + 100 * (step % 2) + layer


@pytest.mark.parametrize("place", [elsewhere, to_and_fro])
def test_what_does_not_last_may_lie_elsewhere_in_each_step(
    place: Callable[[int, int], int],
) -> None:
    """And be twice as much as what does."""
    layers, steps = 12, 6
    operations, lives = [], {}
    for step in range(steps):
        for layer in range(layers):
            operations.append([layer, place(step, layer), 50 + place(step, layer)])
            for block in operations[-1][1:]:
                if place is elsewhere:
                    lives[block] = (layers * step - 1, layers * (step + 1) + layer)
    told = told_of(*operations, lives=lives)
    loop = find_loop(np.zeros(len(operations), dtype=np.int64), told)
    assert loop == Loop(layers * steps, layers if place is elsewhere else 2 * layers)


def test_lasting_blocks_hold_what_lies_in_them() -> None:
    lives = Lives(*np.array([[0, 10, 3, 50], [20, 30, -1, 60], [40, 50, -1, 20]]).T)
    lasting = lives.lasting(5, 40)
    assert lasting.starts.tolist() == [0, 20]
    assert lasting.hold(np.array([0, 9, 10, 20, 29, 30, 45])).tolist() == [1, 1, 0, 1, 1, 0, 0]
    assert not lives.lasting(-5, 40).hold(np.array([0, 25])).any()
