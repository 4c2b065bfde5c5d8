"""What a step's operations take on another GPU: the least and the most, by data sheets.

Of an operation only its time and the bytes that it touches are known. On the other GPU its bytes
take longer by the ratio of the memories' rates, its arithmetic by that of the peaks, and the start
of a kernel as long as before. What cannot be told apart makes the range.
"""

from dataclasses import replace
from typing import NamedTuple

from pump.sim.hardware import GPUS, REFERENCE, Gpu, recorded_on
from pump.sim.sequence import Event, Operation, Sequence, SequenceError

NEAR = 0.7
"""Share of the memory's rate from which an operation is bound by it."""
FAR = 0.3
"""Share below which a library's operation is not: such kernels load little twice."""
START_NS = 10_000
"""An operation that takes no longer is bound by its start: events around a kernel take half."""


class Span(NamedTuple):
    """The least and the most."""

    least: float
    most: float


class Ends(NamedTuple):
    """A sequence whose operations take the least, and the most."""

    fast: Sequence
    slow: Sequence


def recorder(sequence: Sequence) -> Gpu | None:
    """What a step was recorded on, as far as it is told; None: no data sheet of it is known."""
    return recorded_on(sequence.device) if sequence.device else REFERENCE


def ends(sequence: Sequence, gpu: Gpu | None) -> Ends:
    """The step on a GPU; None: where it was recorded. Raises SequenceError if no data sheet of that
    one is known.
    """
    if not gpu:
        return Ends(sequence, sequence)
    source = recorder(sequence)
    if not source:
        raise SequenceError(
            f"it was recorded on {sequence.device}, whose data sheet is not known: --gpu needs a"
            f" trace from one of {', '.join(GPUS)}"
        )
    if gpu is source:
        return Ends(sequence, sequence)
    known: dict[Operation, Span] = {}

    def timed(event: Event, end: int) -> Event:
        if not isinstance(event, Operation):
            return event
        if event not in known:
            known[event] = span_of(event, event.key in sequence.library, source, gpu)
        return event._replace(duration_ns=round(known[event][end]))

    fast, slow = (
        tuple(tuple(timed(event, end) for event in step) for step in sequence.steps)
        for end in (0, 1)
    )
    return Ends(replace(sequence, steps=fast), replace(sequence, steps=slow))


def span_of(operation: Operation, library: bool, source: Gpu, gpu: Gpu) -> Span:
    """Nanoseconds that an operation takes on a GPU, by what it takes on the source."""
    ns = operation.duration_ns
    bytes_ns = min(ns, bytes_of(operation) / source.bandwidth)
    slower = source.bandwidth / gpu.bandwidth
    loading, computing = slower * bytes_ns, [ns * a / b for a, b in peaks(source, gpu)]
    if bytes_ns >= NEAR * ns:  # slower memory may be used to a larger share
        return Span(max(loading, min(1, slower) * ns), max(loading, slower * ns))
    every = [ns - bytes_ns + loading, max(ns, loading)]  # its start takes the rest, or all
    if ns > START_NS:
        every += [max(one, loading) for one in computing]
        if not library or bytes_ns >= FAR * ns:
            every.append(slower * ns)
    return Span(min(every), max(every))


def peaks(source: Gpu, gpu: Gpu) -> list[tuple[float, float]]:
    """Of both, what an operation's arithmetic may be bound by."""
    return [(source.tensor, gpu.tensor), (source.fp32, gpu.fp32)]


def bytes_of(operation: Operation) -> int:
    """How many bytes it touches, each once. What little is read of is left out."""
    total = end = 0
    for touch in sorted(touch for touch in operation.touches if not touch.sparse):
        stop = touch.start + touch.bytes
        total += max(0, stop - max(end, touch.start))
        end = max(end, stop)
    return total


def bytes_ms(sequence: Sequence, gpu: Gpu) -> float:
    """Milliseconds that a step's bytes alone take at the rate of a GPU's memory: as many bytes as
    its operations can have moved where they were recorded.
    """
    source = recorder(sequence) or gpu
    operations = [one for one in sequence.steps[-1] if isinstance(one, Operation)]
    most = [one.duration_ns * source.bandwidth for one in operations]
    moved = sum(map(min, map(bytes_of, operations), most))
    return moved / gpu.bandwidth / 1e6
