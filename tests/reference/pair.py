"""The compiled engine beside the one in plain Python, both told the same."""

from dataclasses import asdict, dataclass, field
from typing import Any

from pump.sim.engine import HOLD, LANE_IN, LANE_OUT, CompiledEngine, Settings, Stats, Touch
from tests.reference.policies import reference

PAGE = 64
PAGES = 24  # addresses used: pages 1 to 24
STRIDES = (0, 1, 3, 7)  # of Pair
COUNTED = 16
"""Counts are compared after so many events, and after every action."""
Action = tuple[Any, ...]
Step = tuple[int, tuple[Touch, ...]]  # key, touches


class MismatchError(AssertionError):
    """The engines answered differently; the text lists the events."""


@dataclass
class Pair:
    """Both engines, told the same."""

    settings: Settings
    loop: list[Step]
    stride: int  # says who has the frames that pages have claims on; 0: frames are alike
    events: list[tuple[Any, ...]] = field(default_factory=list)  # name, arguments, answer
    at: int = 0  # in the loop
    clock: int = 0
    open: list[int] = field(default_factory=list)  # issued, not retired
    moves: list[int] = field(default_factory=list)  # given out, not done

    def __post_init__(self) -> None:
        self.plain = reference(self.settings)
        self.compiled = CompiledEngine(self.settings)
        if self.stride:
            self.plain.holder(self.holder)
            self.compiled.holder(self.holder)

    def holder(self, start: int) -> int:
        """Any page, or none."""
        return start // PAGE * self.stride % (PAGES + 1) * PAGE

    def tell(self, name: str, *args: Any) -> Any:
        """One event. Raises MismatchError unless both give the same answer."""
        expected, answer = getattr(self.plain, name)(*args), getattr(self.compiled, name)(*args)
        self.events.append((name, args, expected))
        if expected != answer:
            raise self.mismatch(f"compiled: {answer}")
        if len(self.events) % COUNTED == 0:
            self.compare_counts()
        return answer

    def compare_counts(self) -> None:
        """Sums differ from the event on that was counted otherwise. Raises MismatchError."""
        counts, others = self.plain.stats(), self.compiled.stats()
        if counts != others:
            both = asdict(counts).items() ^ asdict(others).items()
            raise self.mismatch(f"differing counts {sorted({name for name, _ in both})}")

    def mismatch(self, what: str) -> MismatchError:
        told = [f"{name}{args} -> {answer}" for name, args, answer in self.events]
        return MismatchError("\n".join([str(self.settings), *told, what]))

    # --- what a program, a device and a link do ---

    def issue(self, skip: int, key: int | None, more: tuple[Touch, ...]) -> None:
        """The next operation of the loop, or one that varies from it."""
        self.at += skip
        own, touches = self.loop[self.at % len(self.loop)]
        self.at += 1
        self.send(own if key is None else key, [*touches, *more])

    def send(self, key: int, touches: list[Touch]) -> None:
        serial = self.tell("issued", key, touches)
        if serial:
            self.open.append(serial)

    def admit(self, which: int, at_once: bool) -> None:
        if self.open:
            self.tell("admit", self.open[which % len(self.open)], at_once)

    def replace(self, touch: Touch) -> None:
        """The loop's next operation on another page."""
        self.send(self.loop[self.at % len(self.loop)][0], [touch])
        self.at += 1

    def retire(self, which: int) -> None:
        if self.open:
            self.clock += len(self.events) * 7919 % 13
            now = self.clock if self.clock % 64 else 0
            self.tell("retired", self.open.pop(which % len(self.open)), now)

    def take(self, lane: int) -> bool:
        move = self.tell("next", lane)
        if move:
            self.moves.append(move.id)
        return move is not None

    def finish(self, which: int, ok: bool) -> None:
        if self.moves:
            self.tell("moved", self.moves.pop(which % len(self.moves)), ok)

    def work(self, operations: int, most: int) -> None:
        """That many operations of the loop, held until their pages are here; `most` run."""
        for _ in range(operations):
            self.issue(0, None, ())
            while len(self.open) > most:
                self.retire(0)
            for _ in range(20):
                if all(self.tell("admit", serial)[0] != HOLD for serial in self.open[-4:]):
                    break
                if not (self.take(LANE_OUT) | self.take(LANE_IN) or self.moves) and self.open[1:]:
                    self.retire(0)
                self.finish(0, True)

    def settle(self, moves: int) -> None:
        """So many moves are done, or all that there are."""
        while moves > 0 and (self.take(LANE_OUT) | self.take(LANE_IN) or self.moves):
            self.finish(0, True)
            moves -= 1

    def stroll(self, operations: int, moves: int) -> None:
        """That many operations of the loop, each once so many moves are done for it."""
        for _ in range(operations):
            self.settle(moves)
            self.work(1, 1)

    def insert(self, operations: int) -> None:
        """That many operations that are not in the loop, nor like one in it."""
        for _ in range(operations):
            self.issue(-1, 5, ())
            self.retire(-1)

    def act(self, action: Action) -> None:
        name, *args = action
        method = getattr(self, name, None)
        method(*args) if method else self.tell(name, *args)
        self.compare_counts()


def play(engine: Settings, loop: list[Step], script: list[Action], stride: int = 0) -> Stats:
    """A program through both engines; what they counted."""
    pair = Pair(engine, loop, stride)
    pair.tell("allocated", PAGE, PAGES * PAGE)
    for action in script:
        pair.act(action)
    return pair.compiled.stats()
