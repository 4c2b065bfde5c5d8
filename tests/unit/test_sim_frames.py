"""Frames in virtual time, and the claims of pages on those that they gave up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pump.sim.engine import CLEAN, DEAD, EVICT, FILL, IN_PLACE, Move
from pump.sim.frames import CLAIMS, Frames
from pump.sim.link import PAGE_BYTES as PAGE

pytestmark = pytest.mark.unit


def comes(frames: Frames, page: int, flags: int = 0) -> bool:
    """True: it gets its frame back."""
    return frames.begin(Move(1, page * PAGE, PAGE, 0, 0, FILL, flags)) == 0


def leaves(frames: Frames, page: int, flags: int = DEAD) -> None:
    frames.end(Move(1, page * PAGE, PAGE, 0, 0, EVICT, flags))


def test_only_what_is_stale_has_a_claim() -> None:
    for maps_away, flags, expected in (
        (True, DEAD, True),
        (True, 0, False),
        (True, CLEAN, False),
        (False, 0, True),
        (False, IN_PLACE, False),
    ):
        frames = Frames(PAGE, maps_away)
        assert not comes(frames, 0)
        leaves(frames, 0, flags)
        assert comes(frames, 0) == expected


def test_idle_frames_without_claims_go_first_then_the_last_to_be_claimed() -> None:
    frames = Frames(PAGE, maps_away=True)
    for page in range(4):
        comes(frames, page)
    for page in (1, 0, 3):
        leaves(frames, page)
    leaves(frames, 2, CLEAN)
    taken = []
    for page in range(4, 8):
        assert not comes(frames, page, DEAD)
        taken.append(frames.places[page].frame)
    assert taken == [2, 3, 1, 0]


def test_bytes_of_neighbours_go_to_neighbours_whatever_the_claims() -> None:
    frames = Frames(PAGE, maps_away=True)
    for page in range(5):
        comes(frames, page)
    for page in (0, 2, 3, 4):
        leaves(frames, page)
    assert not comes(frames, 5)  # none but the one without an idle neighbour
    assert frames.begin(Move(1, 6 * PAGE, 2 * PAGE, 0, 0, FILL, 0)) == 2
    assert [frames.places[page].frame for page in (5, 6, 7)] == [0, 2, 3]


def test_a_claim_outlives_those_who_have_the_frame_meanwhile() -> None:
    frames = Frames(PAGE, maps_away=True)
    for page in range(CLAIMS + 1):
        assert not comes(frames, page)
        leaves(frames, page)
    assert comes(frames, 1)
    assert not comes(frames, 0)  # it is taken, and the claim is gone
    leaves(frames, 1)
    assert not comes(frames, CLAIMS)  # one too many was not remembered


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0, DEAD, IN_PLACE])), max_size=200))
def test_no_frame_has_two_pages(events: list[tuple[int, int]]) -> None:
    """Pages come and leave by turns; who gets a frame back had it last when it was here last."""
    frames, here, had = Frames(PAGE, maps_away=False), dict[int, int](), dict[int, int]()
    for page, flags in events:
        if page in here:
            leaves(frames, page, flags)
            had[page] = here.pop(page)
        else:
            back = comes(frames, page)
            here[page] = frames.places[page].frame
            assert not back or here[page] == had[page]
        assert len(set(here.values())) == len(here)
        assert frames.idle == set(range(len(frames.claims))) - set(here.values())
        assert max((len(claims) for claims in frames.claims), default=0) <= CLAIMS
