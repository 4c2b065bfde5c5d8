"""Frames with claims, as csrc/frames has them, in plain Python.

A page that is stale has left the device and is mapped still at the frame that it gave up. If that
is idle when the page comes again the page gets it back, and nothing has to be mapped.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

from pump.sim.engine import DEAD, FILL, IN_PLACE, Move

CLAIMS = 4  # on a frame that are remembered; pages beyond them are mapped anew


@dataclass
class Place:
    """Where a page is, or was when it left."""

    frame: int = -1
    came: int = 0  # how many pages had come
    stale: bool = False


@dataclass
class Frames:
    """Of one device: made as they are needed, then recycled."""

    page_bytes: int
    maps_away: bool  # what is away is mapped on the host, but for dead pages
    came: int = 0  # pages
    back: int = 0  # of these, those that got the frame back that they had left
    claims: list[list[int]] = field(default_factory=list)  # by frame: when its claimants came
    pages: list[int] = field(default_factory=list)  # by frame: that came last
    idle: set[int] = field(default_factory=set)
    after: int = 0  # the frame taken last, and one
    places: dict[int, Place] = field(default_factory=lambda: defaultdict(Place))  # by page

    def begin(self, move: Move) -> int:
        """The pages of a fill get frames: how many of them have to be mapped."""
        if move.kind != FILL:
            return 0
        pages = self.pages_of(move)
        places = [self.places[page] for page in pages]
        others = [place for place in places if not self.reclaim(place)]
        for place in places:
            self.came += 1
            place.came = self.came
        if others:
            together = [] if move.flags & DEAD else self.take_neighbours(len(others))
            taken = together or sorted(self.take() for _ in others)
            for place, frame in zip(others, taken, strict=True):
                place.frame = frame
        for page, place in zip(pages, places, strict=True):
            self.pages[place.frame] = page
        self.back += len(pages) - len(others)
        return len(others)

    def end(self, move: Move) -> None:
        """The pages of an evict move give up their frames."""
        if move.kind == FILL:
            return
        stale = bool(move.flags & DEAD) or not (self.maps_away or move.flags & IN_PLACE)
        for page in self.pages_of(move):
            place = self.places[page]
            claims = self.claims[place.frame]
            place.stale = stale and len(claims) < CLAIMS
            if place.stale:
                claims.append(place.came)
            self.idle.add(place.frame)

    def holder(self, start: int) -> int:
        """The page that has the frame on which the one at `start` has a claim; 0: none."""
        place = self.places.get(start // self.page_bytes)
        if not place or not place.stale or place.frame in self.idle:
            return 0
        return self.pages[place.frame] * self.page_bytes

    def pages_of(self, move: Move) -> range:
        """Their numbers."""
        return range(move.start // self.page_bytes, (move.start + move.bytes) // self.page_bytes)

    def reclaim(self, place: Place) -> bool:
        """A page comes. True: it has its frame back."""
        if not place.stale:
            return False
        place.stale = False
        self.claims[place.frame].remove(place.came)
        back = place.frame in self.idle
        self.idle.discard(place.frame)
        return back

    def take(self) -> int:
        """One without claims, or else the one whose first claimant came last: pages tend to come in
        the same order again. Neighbours go together.
        """
        if not self.idle:
            self.claims.append([])
            self.pages.append(0)
            return len(self.claims) - 1

        def order(frame: int) -> tuple[float, bool, int]:
            return -min(self.claims[frame], default=inf), frame < self.after, frame

        frame = min(self.idle, key=order)
        self.idle.remove(frame)
        self.after = frame + 1
        return frame

    def take_neighbours(self, n: int) -> list[int]:
        """Of those idle, whatever their claims, those that leave fewest others; all or none."""
        idle = sorted(self.idle)
        starts = [i for i, frame in enumerate(idle) if frame - 1 not in self.idle]
        runs = [idle[i:j] for i, j in pairwise([*starts, len(idle)]) if j - i >= n]
        taken = min(runs, key=len, default=[])[:n]
        self.idle.difference_update(taken)
        return taken
