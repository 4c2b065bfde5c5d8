"""A recorded sequence's last step as a period: operations on pages that repeat for ever."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pump.sim.link import Link
from pump.sim.sequence import Given, pages_of
from pump.sim.sequence import Sequence as Recorded

REPEATS = 2  # of the last step, after those that are recorded


class PageTouch(NamedTuple):
    """What an operation does to a page; pages are numbered from 0, without holes."""

    page: int
    writes: bool = False
    dies: bool = False  # nobody reads it until its next touch


@dataclass(frozen=True)
class Period:
    """Operations that repeat."""

    operations: Sequence[Sequence[PageTouch]]
    durations: Sequence[int]  # ns, of each operation

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return 1 + max(touch.page for op in self.operations for touch in op)

    @property
    def largest(self) -> int:
        """Pages of the operation that touches most."""
        return max(map(len, self.operations))


class PageTimes(NamedTuple):
    """Nanoseconds a page takes: alone, and while another goes the other way."""

    in_ns: float
    out_ns: float
    in_both_ns: float
    out_both_ns: float


def page_times(link: Link) -> PageTimes:
    """The time of a page over a link; a move costs nothing else here."""
    alone, both = link.rates(both=False), link.rates(both=True)
    return PageTimes(*(link.page_bytes / rate for rate in (*alone, *both)))


def period_of(sequence: Recorded, page_bytes: int) -> Period:
    """The step that repeats; pages in order of address.

    A page dies when the last block on it is given back.
    """
    known = len(sequence.steps)
    steps = list(sequence.play(known + REPEATS))
    blocks: Counter[int] = Counter()
    for block in sequence.live:
        blocks.update(pages_of([block], page_bytes))
    touches: dict[tuple[int, int], PageTouch] = {}  # by operation and page
    latest: dict[int, int] = {}  # page: the operation that touched it last
    durations: list[int] = []
    for step, events in enumerate(steps):
        durations = []
        for event in events:
            if isinstance(event, Given):
                pages = pages_of([event.block], page_bytes)
                (blocks.update if event.live else blocks.subtract)(pages)
                for page in pages:
                    at = (latest.get(page, -1), page)
                    if not blocks[page] and at in touches:
                        touches[at] = touches[at]._replace(dies=True)
                continue
            if step >= known:
                written = pages_of([t for t in event.touches if t.writes], page_bytes)
                for page in pages_of([t for t in event.touches if not t.sparse], page_bytes):
                    touches.setdefault((len(durations), page), PageTouch(page, page in written))
                    latest[page] = len(durations)
            durations.append(event.duration_ns)
    numbers = {page: i for i, page in enumerate(sorted({page for _, page in touches}))}
    operations: list[list[PageTouch]] = [[] for _ in durations]
    for (k, page), touch in sorted(touches.items()):
        operations[k].append(touch._replace(page=numbers[page]))
    return Period(operations, durations)
