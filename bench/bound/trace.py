"""A recorded sequence's last step as a period."""

from collections import Counter

from bench.bound.core import Period, Touch
from pump.sim.engine import READ
from pump.sim.sequence import Given, Sequence, pages_of

REPEATS = 2  # of the last step, after those that are recorded


def period_of(sequence: Sequence, page_bytes: int) -> Period:
    """The step that repeats; pages in order of address.

    A page dies when the last block on it is given back.
    """
    known = len(sequence.steps)
    steps = list(sequence.play(known + REPEATS))
    blocks: Counter[int] = Counter()
    for block in sequence.live:
        blocks.update(pages_of([block], page_bytes))
    touches: dict[tuple[int, int], Touch] = {}  # by operation and page
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
                written = pages_of([t for t in event.touches if t.mode != READ], page_bytes)
                for page in pages_of(event.touches, page_bytes):
                    touches.setdefault((len(durations), page), Touch(page, page in written))
                    latest[page] = len(durations)
            durations.append(event.duration_ns)
    numbers = {page: i for i, page in enumerate(sorted({page for _, page in touches}))}
    operations: list[list[Touch]] = [[] for _ in durations]
    for (k, page), touch in sorted(touches.items()):
        operations[k].append(touch._replace(page=numbers[page]))
    return Period(operations, durations)
