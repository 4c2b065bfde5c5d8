"""One direction of the link: moves are set up one by one, their bytes go one after the other."""

from collections import deque
from dataclasses import dataclass, field

from pump.sim.engine import FILL, Move

LEAST_NS = 1e-3  # shorter than anything here takes


@dataclass
class UnderWay:
    """A move that has begun: what is left of it."""

    move: Move
    setup_ns: float
    bytes: float

    def is_done(self) -> bool:
        return self.setup_ns < LEAST_NS and self.bytes < LEAST_NS


@dataclass
class Lane:
    """Up to `movers` moves at once: while one's bytes go, another is set up."""

    movers: int
    next: Move | None = None  # taken, and may not begin yet
    moves: deque[UnderWay] = field(default_factory=deque)

    def setting_up(self) -> UnderWay | None:
        return next((move for move in self.moves if move.setup_ns >= LEAST_NS), None)

    def moving(self) -> UnderWay | None:
        """Whose bytes go."""
        first = self.moves[0] if self.moves else None
        return first if first and first.setup_ns < LEAST_NS and first.bytes > 0 else None

    def may_take(self) -> bool:
        return not self.next and len(self.moves) < self.movers and not self.setting_up()

    def goes_in(self) -> bool:
        return bool(self.moves) and self.moves[0].move.kind == FILL

    def moment(self, rate: float) -> float | None:
        """How long nothing here ends, ns; None: nothing is under way. Rate 0: bytes stand still."""
        moving, setting_up = self.moving(), self.setting_up()
        moments = [setting_up.setup_ns] if setting_up else []
        if moving and rate > 0:
            moments.append(moving.bytes / rate)
        if self.moves and self.moves[0].is_done():
            moments.append(0.0)
        return min(moments, default=None)

    def advance(self, step_ns: float, rate: float) -> list[Move]:
        """So much time goes by; the moves that are done."""
        moving, setting_up = self.moving(), self.setting_up()
        if setting_up:
            setting_up.setup_ns = max(0.0, setting_up.setup_ns - step_ns)
        if moving:
            moving.bytes = max(0.0, moving.bytes - rate * step_ns)
        done = []
        while self.moves and self.moves[0].is_done():
            done.append(self.moves.popleft().move)
        return done
