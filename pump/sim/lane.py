"""How moves get on beside each other: in a direction of the link, and in the driver."""

from collections import deque
from dataclasses import dataclass, field

from pump.sim.engine import Move
from pump.sim.link import ACCESS, CALL, COPY, TURN, UNMAP, Kind, Part

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
        return self.kind is UNMAP or self.kind is ACCESS

    @property
    def sends(self) -> bool:
        """Its bytes go in its lane's turn."""
        return self.kind is COPY or self.kind is TURN

    def pass_on(self) -> None:
        """To the next part."""
        self.parts.popleft()
        self.kind, self.left = self.parts[0] if self.parts else (None, 0.0)


@dataclass
class Lane:
    """Up to `movers` moves at once. One call is made and one's bytes go at a time."""

    number: int  # as the engine calls it
    movers: int
    next: Move | None = None  # taken, and may not begin yet
    moves: list[UnderWay] = field(default_factory=list)
    called: UnderWay | None = None  # the move whose call is made
    turn: UnderWay | None = None  # whose bytes go, or go next
    copied: UnderWay | None = None  # whose bytes go
    takes: bool = True  # another move
    refused: int = -1  # how much the engine had been told when it gave none; -1: it may give one

    def look(self) -> None:
        """A move has come to another part, begun or ended: the first of each kind gets on."""
        called = turn = None
        for one in reversed(self.moves):
            kind = one.kind
            if kind is COPY or kind is TURN:
                turn = one
            elif kind is CALL:
                called = one
        self.called, self.turn = called, turn
        self.takes = not called and len(self.moves) < self.movers
        self.send()

    def send(self) -> None:
        """The move whose turn it is has come to another part."""
        turn = self.turn
        self.copied = turn if turn and turn.kind is COPY else None


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
        self.copied = out if first and first.kind is ACCESS else None
        self.copies = len(out.parts) if out else 0
