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
    left: float = field(init=False)

    def __post_init__(self) -> None:
        self.left = self.parts[0].amount

    @property
    def kind(self) -> Kind | None:
        """Of the part it is at; None: it is done."""
        return self.parts[0].kind if self.parts else None

    @property
    def maps(self) -> bool:
        """It needs the driver's lock."""
        return self.kind in (Kind.UNMAP, Kind.ACCESS)

    def pass_on(self) -> None:
        """To the next part."""
        self.parts.popleft()
        self.left = self.parts[0].amount if self.parts else 0.0


@dataclass
class Lane:
    """Up to `movers` moves at once. One call is made and one's bytes go at a time."""

    movers: int
    next: Move | None = None  # taken, and may not begin yet
    moves: list[UnderWay] = field(default_factory=list)

    def at(self, *kinds: Kind) -> UnderWay | None:
        """The first move that is at such a part."""
        return next((one for one in self.moves if one.kind in kinds), None)

    def turn(self) -> UnderWay | None:
        """The move whose bytes go, or go next."""
        return self.at(Kind.TURN, Kind.COPY)

    def copied(self) -> UnderWay | None:
        """The move whose bytes go."""
        turn = self.turn()
        return turn if turn and turn.kind is Kind.COPY else None

    def may_take(self) -> bool:
        return not self.next and len(self.moves) < self.movers and not self.at(Kind.CALL)


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
