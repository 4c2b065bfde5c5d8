"""What a backend keeps of pages, by its own compiled code: frames of `vmm`, advice of `um`."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from pump import binding
from pump.sim.engine import CLEAN, DEAD, FILL, IN_PLACE, KEEP, Move, Touch
from pump.sim.sequence import pages_of


def numbers(move: Move, page_bytes: int) -> range:
    """Of the pages of a move."""
    return range(move.start // page_bytes, (move.start + move.bytes) // page_bytes)


class Frames:
    """csrc/frames, of one device. `maps_away`: what is away is mapped on the host, but for dead
    pages; else all of it stays mapped where it was, and has a claim there.
    """

    def __init__(self, page_bytes: int, maps_away: bool, most: int) -> None:
        self.ffi, self.lib = binding.ffi(), binding.library()
        self.page_bytes, self.maps_away = page_bytes, maps_away
        self.came = self.back = 0  # pages; of these, those that got their frame back
        self.pool = self.ffi.gc(self.lib.ulms_frames_new(most), self.lib.ulms_frames_free)
        self.claims: dict[int, Any] = defaultdict(lambda: self.ffi.new("struct ulms_claim *"))
        self.frame: dict[int, int] = {}  # by page

    def begin(self, move: Move) -> int:
        """The pages of a fill get frames: how many of them have to be mapped."""
        if move.kind != FILL:
            return 0
        pages = numbers(move, self.page_bytes)
        claims = [self.claims[page] for page in pages]
        frames = self.ffi.new("uint32_t[]", len(pages))
        together = not move.flags & DEAD
        enough = self.lib.ulms_frames_come(self.pool, claims, frames, len(pages), together)
        assert enough, "more pages than the program has"
        back = sum(bool(c.frame == frame) for c, frame in zip(claims, frames, strict=True))
        for page, claim, frame in zip(pages, claims, frames, strict=True):
            self.frame[page] = frame
            self.lib.ulms_frames_hold(self.pool, frame, page * self.page_bytes, claim)
        self.came += len(pages)
        self.back += back
        return len(pages) - back

    def end(self, move: Move) -> None:
        """The pages of an evict move give up their frames."""
        if move.kind == FILL:
            return
        pages = numbers(move, self.page_bytes)
        if move.flags & DEAD or not (self.maps_away or move.flags & IN_PLACE):
            for page in pages:
                self.lib.ulms_frames_give_stale(self.pool, self.frame[page], self.claims[page])
        else:
            frames = [self.frame[page] for page in pages]
            self.lib.ulms_frames_give(self.pool, frames, len(frames))

    def holder(self, start: int) -> int:
        """The page that has the frame on which the one at `start` has a claim; 0: none."""
        claim = self.claims.get(start // self.page_bytes)
        return int(self.lib.ulms_frames_holder(self.pool, claim)) if claim else 0


class Advice:
    """Which pages are advised to be mostly read. One without it leaves with its bytes, whether the
    engine calls it clean or not.
    """

    def __init__(self, page_bytes: int) -> None:
        self.ffi, self.lib = binding.ffi(), binding.library()
        self.page_bytes = page_bytes
        self.state: dict[int, int] = {}  # by page that has any: ULMS_ADVICE_*
        self.kept: set[int] = set()  # pages

    def begin(self, move: Move) -> Move:
        """The move as it is carried out: KEEP if advice is given, CLEAN if it needs no bytes."""
        pages = numbers(move, self.page_bytes)
        before = [self.state.get(page, 0) for page in pages]
        state = self.ffi.new("uint8_t[]", before)
        advised = self.lib.ulms_advise(state, len(before), move.kind, move.flags)
        lost = 0 if self.kept.issuperset(pages) else CLEAN
        if advised:
            for page, after in zip(pages, state, strict=True):
                self.set(page, after)
        lost |= 0 if advised == self.lib.ULMS_ADVISE_KEEP else KEEP
        return move._replace(flags=move.flags & ~lost)

    def issued(self, touches: Iterable[Touch]) -> None:
        """An operation: what it writes loses the advice."""
        if self.kept:
            writes = [touch for touch in touches if touch.writes]
            for page in self.kept & pages_of(writes, self.page_bytes):
                self.set(page, self.lib.ULMS_ADVICE_WRITTEN)

    def set(self, page: int, state: int) -> None:
        """0: it has none any more."""
        if state:
            self.state[page] = state
        else:
            self.state.pop(page, None)
        if state == self.lib.ULMS_ADVICE_KEPT:
            self.kept.add(page)
        else:
            self.kept.discard(page)
