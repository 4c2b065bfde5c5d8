"""Which pages are advised to be mostly read: as backend `um` does it (csrc/backend/pager/moves.c).

The engine asks for it with KEEP. Advice that turned out wrong, because the page was written, is not
given again; a page without it leaves with its bytes, whether the engine calls it clean or not.
"""

from collections.abc import Iterable

from pump.sim.engine import CLEAN, FILL, KEEP, READ, Move, Touch
from pump.sim.sequence import pages_of


class Advice:
    """Of one run."""

    def __init__(self, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.kept: set[int] = set()
        self.written: set[int] = set()  # while kept: never again

    def begin(self, move: Move) -> Move:
        """The move as it is carried out: KEEP if advice is given, CLEAN if it needs no bytes."""
        pages = pages_of([Touch(move.start, move.bytes, READ)], self.page_bytes)
        flags = move.flags
        if move.flags & KEEP:
            if pages <= self.kept or pages & self.written:
                flags &= ~KEEP
            else:
                self.kept |= pages
            return move._replace(flags=flags)
        if not pages <= self.kept:
            flags &= ~CLEAN
        if move.kind == FILL:
            self.written |= pages & self.kept
        self.kept -= pages
        return move._replace(flags=flags)

    def issued(self, touches: Iterable[Touch]) -> None:
        """An operation: what it writes loses the advice."""
        if self.kept:
            writes = [touch for touch in touches if touch.writes]
            lost = self.kept & pages_of(writes, self.page_bytes)
            self.kept -= lost
            self.written |= lost
