"""How moves get on beside each other: in a direction of the link, and in the driver."""

from collections import deque
from dataclasses import dataclass, field

from pump.sim.engine import Move
from pump.sim.link import Kind, Part

LEAST_NS = 1e-3  # shorter than anything here takes


@dataclass(eq=False)
class UnderWay:
    """A move that has begun. The first part is the one it is at, `left` is what is left of that."""

    move: Move
    parts: deque[Part]
    kind: Kind | None = field(init=False)  # of the part it is at; None: it is done
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.kind, self.left = self.parts[0]

    @property
    def maps(self) -> bool:
        """It needs the driver's lock."""
        return self.kind is Kind.UNMAP or self.kind is Kind.ACCESS

    def pass_on(self) -> None:
        """To the next part."""
        self.parts.popleft()
        self.kind, self.left = self.parts[0] if self.parts else (None, 0.0)


@dataclass
class Lane:
    """Up to `movers` moves at once. One call is made and one's bytes go at a time."""

    movers: int
    next: Move | None = None  # taken, and may not begin yet
    moves: list[UnderWay] = field(default_factory=list)
    called: UnderWay | None = None  # the move whose call is made
    turn: UnderWay | None = None  # whose bytes go, or go next

    def look(self) -> None:
        """A move has come to another part, begun or ended: the first of each kind gets on."""
        self.called = self.turn = None
        for one in reversed(self.moves):
            if one.kind is Kind.CALL:
                self.called = one
            elif one.kind is Kind.COPY or one.kind is Kind.TURN:
                self.turn = one

    def copied(self) -> UnderWay | None:
        """The move whose bytes go."""
        turn = self.turn
        return turn if turn and turn.kind is Kind.COPY else None

    def may_take(self) -> bool:
        return not (self.next or self.called) and len(self.moves) < self.movers


class Driver:
    """Calls that map are made one at a time, in the order in which they were begun. Access to a
    handle is given behind the copy to the host that is under way.
    """

    def __init__(self) -> None:
        self.queue: deque[UnderWay] = deque()
        self.copied: UnderWay | None = None  # what the first waits for
        self.copies = 0  # until it has fewer parts

    def first(self) -> UnderWay | None:
        """The move whose call is made."""
        return self.queue[0] if self.queue else None

    def works(self) -> UnderWay | None:
        """The same, if it does not wait for a copy."""
        if self.copied and len(self.copied.parts) < self.copies:
            self.copied = None
        return None if self.copied else self.first()

    def begins(self, out: UnderWay | None) -> None:
        """The first comes to its next part; `out`: whose bytes go to the host."""
        first = self.first()
        self.copied = out if first and first.kind is Kind.ACCESS else None
        self.copies = len(out.parts) if out else 0
