"""A recorded sequence of operations: what the simulator plays.

As text its first line is `pump-sequence 1`. Each other line is one of these, fields by blanks:

    trusted              every kernel is (docs/vmm.md)
    key K NAME           operations with key K are this kernel
    block B START BYTES  a range of device memory, hexadecimal
    live B...            blocks that live before the first step, full of content
    step                 a step begins; the program repeats the last one
    + B, - B             the framework gives a block out, takes it back
    o K NS TOUCH...      an operation: key, time alone, touches: a block and r (reads), w
                         (overwrites) or u (updates)

If a step leaves other blocks than it found, its repetition begins by putting that right.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path
from typing import NamedTuple

from pump.regular import open_regular
from pump.sim.engine import READ, UPDATE, WRITE, Touch

FIRST_LINE = "pump-sequence 1"
MODES = {"r": READ, "w": WRITE, "u": UPDATE}
UPLOAD = 1 << 32  # the key of operations that bring the first content of a block; no trace has it
UPLOAD_NS_PER_BYTE = 1 / 55
NEAR = 1.15
"""A step that takes no more than so many times its operations is bound by them."""


class Block(NamedTuple):
    """A range that the program uses as one thing."""

    start: int
    bytes: int


class Operation(NamedTuple):
    """A piece of device work, and how long it takes when its pages are there."""

    key: int
    duration_ns: int
    touches: tuple[Touch, ...]


class Given(NamedTuple):
    """The framework gives out a block, or takes it back."""

    block: Block
    live: bool


Event = Operation | Given


class SequenceError(ValueError):
    """The file is not a recorded sequence; the text says where."""


@dataclass(frozen=True)
class Sequence:
    """Blocks that live before, then steps; what follows the last step is the last step again."""

    live: tuple[Block, ...]
    steps: tuple[tuple[Event, ...], ...]
    names: Mapping[int, str] = field(default_factory=dict)  # of operations, by key
    trusted: bool = False  # no kernel uses memory unseen: `vmm` leaves unmapped what is away
    seen: int = 1  # how often the last step was seen
    notes: tuple[str, ...] = ()  # what is lost of the trace, and what its times are
    traced_ns: int = 0  # the shortest step from end to end, while it was traced; 0: not known
    device: str = ""  # the GPU that it was recorded on; "": not known
    library: frozenset[int] = frozenset()  # keys of what cuBLAS and cuDNN run
    untold_ns: int = 0  # of the last step: operations that only ran without all their pages

    def blocks(self) -> set[Block]:
        """Every block there ever is."""
        given = {event.block for step in self.steps for event in step if isinstance(event, Given)}
        return given | set(self.live)

    def uploads(self) -> Iterator[Operation]:
        """Operations that write what lives before the first step."""
        for start, size in self.live:
            touch = Touch(start, size, WRITE)
            yield Operation(UPLOAD, round(size * UPLOAD_NS_PER_BYTE), (touch,))

    def play(self, steps: int) -> Iterator[tuple[Event, ...]]:
        """Steps as a program of that many has them: what a step leaves behind that differs from
        what its repetition finds is put right in between."""
        live = set(self.live)
        before: list[set[Block]] = []
        for step in self.steps:
            before.append(set(live))
            for event in step:
                if isinstance(event, Given):
                    (live.add if event.live else live.discard)(event.block)
        again = [Given(block, False) for block in sorted(live - before[-1])]
        again += [Given(block, True) for block in sorted(before[-1] - live)]
        for number in range(steps):
            if number < len(self.steps):
                yield self.steps[number]
            else:
                yield (*again, *self.steps[-1])

    def footprint(self, page_bytes: int) -> int:
        """Bytes in pages that the operations of the last step touch."""
        touches = [
            t for event in self.steps[-1] if isinstance(event, Operation) for t in event.touches
        ]
        return page_bytes * len(pages_of(touches, page_bytes))

    def held(self) -> int:
        """Most bytes of blocks that live at a time."""
        most = now = sum(block.bytes for block in self.live)
        for step in self.steps:
            for event in step:
                if isinstance(event, Given):
                    now += event.block.bytes if event.live else -event.block.bytes
                    most = max(most, now)
        return most

    def operations(self) -> int:
        """Of the last step."""
        return sum(isinstance(event, Operation) for event in self.steps[-1])

    def native_ns(self) -> int:
        """Time of the last step's operations without any waiting."""
        return sum(event.duration_ns for event in self.steps[-1] if isinstance(event, Operation))

    def thread_ns(self, step_ns: float) -> float:
        """What the program's thread computes for each operation, if a step takes so long from end
        to end where everything fits. 0: its operations take about as long, and how much it is does
        not show.
        """
        if step_ns <= NEAR * self.native_ns():
            return 0.0
        return step_ns / self.operations()


def pages_of(ranges: Iterable[Block | Touch], page_bytes: int) -> set[int]:
    """The numbers of the pages that ranges overlap."""
    pages: set[int] = set()
    for each in ranges:
        pages.update(range(each.start // page_bytes, -(-(each.start + each.bytes) // page_bytes)))
    return pages


def page_runs(ranges: Iterable[Block | Touch], page_bytes: int) -> Iterator[tuple[int, int]]:
    """The pages that ranges overlap, in runs: the first one's number, how many."""
    first = count = 0
    for page in sorted(pages_of(ranges, page_bytes)):
        if count and page == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = page, 1
    if count:
        yield first, count


def read_sequence(path: Path) -> Sequence:
    """A recorded sequence. Raises SequenceError, OSError."""
    blocks: dict[str, Block] = {}
    live: list[Block] = []
    steps: list[list[Event]] = []
    names: dict[int, str] = {}
    trusted = False
    with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace") as lines:
        if lines.readline().rstrip() != FIRST_LINE:
            raise SequenceError(f"{path} does not begin with `{FIRST_LINE}`")
        for number, line in enumerate(lines, 2):
            word, *rest = line.split()
            try:
                if word == "block":
                    blocks[rest[0]] = Block(int(rest[1], 16), int(rest[2], 16))
                elif word == "live":
                    live += [blocks[name] for name in rest]
                elif word == "step":
                    steps.append([])
                elif word in "+-":
                    steps[-1].append(Given(blocks[rest[0]], word == "+"))
                elif word == "o":
                    touches = (Touch(*blocks[each[:-1]], MODES[each[-1]]) for each in rest[2:])
                    steps[-1].append(Operation(int(rest[0]), int(rest[1]), tuple(touches)))
                elif word == "key":
                    names[int(rest[0])] = " ".join(rest[1:])
                elif word == "trusted":
                    trusted = True
                else:
                    raise ValueError(word)
            except (KeyError, IndexError, ValueError) as error:
                raise SequenceError(f"{path}:{number}: {line.strip()[:60]}") from error
    if not any(isinstance(event, Operation) for step in steps[-1:] for event in step):
        raise SequenceError(f"{path} holds no operation")
    return Sequence(tuple(live), tuple(map(tuple, steps)), names, trusted, len(steps))
