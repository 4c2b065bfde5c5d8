"""Frames, and the claims of pages on those that they gave up: compiled, against plain Python."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pump.sim.backend import Frames
from pump.sim.engine import CLEAN, DEAD, EVICT, FILL, IN_PLACE, Move
from pump.sim.link import PAGE_BYTES as PAGE
from tests.reference.frames import CLAIMS
from tests.reference.frames import Frames as Reference

pytestmark = pytest.mark.unit

MOST = 40


def comes(frames: Frames, page: int, flags: int = 0) -> bool:
    """True: it gets its frame back."""
    return frames.begin(Move(1, page * PAGE, PAGE, 0, FILL, flags)) == 0


def leaves(frames: Frames, page: int, flags: int = DEAD) -> None:
    frames.end(Move(1, page * PAGE, PAGE, 0, EVICT, flags))


def test_only_what_is_stale_has_a_claim() -> None:
    for maps_away, flags, expected in (
        (True, DEAD, True),
        (True, 0, False),
        (True, CLEAN, False),
        (False, 0, True),
        (False, IN_PLACE, False),
    ):
        frames = Frames(PAGE, maps_away, MOST)
        assert not comes(frames, 0)
        leaves(frames, 0, flags)
        assert comes(frames, 0) == expected


def test_idle_frames_without_claims_go_first_then_the_last_to_be_claimed() -> None:
    frames = Frames(PAGE, maps_away=True, most=MOST)
    for page in range(4):
        comes(frames, page)
    for page in (1, 0, 3):
        leaves(frames, page)
    leaves(frames, 2, CLEAN)
    taken = []
    for page in range(4, 8):
        assert not comes(frames, page, DEAD)
        taken.append(frames.frame[page])
    assert taken == [2, 3, 1, 0]


def test_bytes_of_neighbours_go_to_neighbours_whatever_the_claims() -> None:
    frames = Frames(PAGE, maps_away=True, most=MOST)
    for page in range(5):
        comes(frames, page)
    for page in (0, 2, 3, 4):
        leaves(frames, page)
    assert not comes(frames, 5)  # none but the one without an idle neighbour
    assert frames.begin(Move(1, 6 * PAGE, 2 * PAGE, 0, FILL, 0)) == 2
    assert [frames.frame[page] for page in (5, 6, 7)] == [0, 2, 3]


def test_a_claim_outlives_those_who_have_the_frame_meanwhile() -> None:
    frames = Frames(PAGE, maps_away=True, most=MOST)
    for page in range(CLAIMS + 1):
        assert not comes(frames, page)
        leaves(frames, page)
    assert comes(frames, 1)
    assert not comes(frames, 0)  # it is taken, and the claim is gone
    leaves(frames, 1)
    assert not comes(frames, CLAIMS)  # one too many was not remembered


runs = st.tuples(
    st.integers(0, 36), st.integers(1, 4), st.sampled_from([0, 0, DEAD, CLEAN, IN_PLACE])
)


@given(st.booleans(), st.lists(runs, max_size=150))
def test_the_compiled_frames_are_those_of_plain_python(
    maps_away: bool, events: list[tuple[int, int, int]]
) -> None:
    """Runs of pages come and leave by turns, as far as all of one can."""
    frames, reference = Frames(PAGE, maps_away, MOST), Reference(PAGE, maps_away)
    here = set[int]()
    for first, count, flags in events:
        kind = EVICT if first in here else FILL
        pages = list(range(first, first + count))
        while (pages[-1] in here) != (kind == EVICT):
            pages.pop()
        if len({page in here for page in pages}) > 1:
            continue
        move = Move(1, first * PAGE, len(pages) * PAGE, 0, kind, flags)
        if kind == FILL:
            assert frames.begin(move) == reference.begin(move)
            assert [frames.frame[p] for p in pages] == [reference.places[p].frame for p in pages]
        else:
            frames.end(move)
            reference.end(move)
        here.symmetric_difference_update(pages)
        assert len({frames.frame[page] for page in here}) == len(here)
        for page in range(MOST):
            assert frames.holder(page * PAGE) == reference.holder(page * PAGE)
    assert (frames.came, frames.back) == (reference.came, reference.back)
