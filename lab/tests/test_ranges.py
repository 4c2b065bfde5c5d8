"""Sets of bytes, against Python's sets."""

import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lab.touches import ranges
from lab.touches.ranges import Ranges, elements

pytestmark = pytest.mark.unit

PAIRS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=8)


def members(found: Ranges) -> set[int]:
    return {at for a, b in zip(found.start, found.end, strict=True) for at in range(a, b)}


def make(pairs: list[tuple[int, int]]) -> tuple[Ranges, set[int]]:
    made = Ranges.of([a for a, _ in pairs], [b for _, b in pairs])
    return made, {at for a, b in pairs for at in range(a, b)}


@given(PAIRS, PAIRS)
def test_algebra(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    (a, of_a), (b, of_b) = make(left), make(right)
    for found, expected in (
        (a, of_a),
        (a | b, of_a | of_b),
        (a & b, of_a & of_b),
        (a - b, of_a - of_b),
        (a.hull(), set(range(min(of_a), max(of_a) + 1)) if of_a else set()),
    ):
        assert members(found) == expected
        assert found.bytes == len(expected)
        assert (found.start[1:] > found.end[:-1]).all()


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=4), st.sampled_from([1, 4])
)
def test_elements(dims: list[tuple[int, int]], itemsize: int) -> None:
    sizes, strides = [size for size, _ in dims], [stride for _, stride in dims]
    expected = {
        100 + itemsize * sum(i * stride for i, stride in zip(index, strides, strict=True)) + byte
        for index in product(*map(range, sizes))
        for byte in range(itemsize)
    }
    assert members(elements(100, itemsize, sizes, strides)) == expected


def test_a_transposed_matrix_is_one_run() -> None:
    assert len(elements(0, 4, [7, 5], [1, 7]).start) == 1


def test_too_many_runs_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(elements(0, 4, [9, 3], [10, 1]).start) == 9
    monkeypatch.setattr(ranges, "RUNS_MAX", 8)
    found = elements(0, 4, [9, 3], [10, 1])
    assert (found.start.tolist(), found.end.tolist()) == ([0], [4 * (8 * 10 + 3)])
