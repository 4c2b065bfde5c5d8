"""What is read of a recording, and told of it: what is lost, and which step was found."""

import sys
from collections.abc import Iterable
from pathlib import Path

from pump.sim.link import PAGE_BYTES
from pump.sim.recorded import is_sequence, open_sequence
from pump.sim.sequence import Sequence, SequenceError
from pump.sizes import format_size
from pump.terminal.command import UsageError, reading
from pump.trace import Trace, TraceError, read

SMALL = 0.5
"""A step that touches less than this of what is held at a time may be none."""


def read_trace(path: Path) -> Trace:
    """A trace. Raises UsageError."""
    try:
        with reading():
            return read(path)
    except TraceError as error:
        if is_sequence(path):
            told = f"{path}: a recorded sequence, no trace: `pump plan` and `pump sim` read it"
            raise UsageError(told) from error
        raise UsageError(str(error)) from error


def open_trace(path: Path) -> Trace:
    """The same; what is lost of it is told on standard error."""
    trace = read_trace(path)
    tell(path, trace.notes)
    return trace


def open_step(path: Path, every: bool = False) -> Sequence:
    """Steps of a sequence or a trace, likewise. every: all of a trace, else the last."""
    try:
        with reading():
            sequence = open_sequence(path, every)
    except SequenceError as error:
        raise UsageError(str(error)) from error
    tell(path, [*sequence.notes, *doubts(sequence)])
    return sequence


def tell(path: Path, notes: Iterable[str]) -> None:
    """On standard error, a line each."""
    for note in notes:
        print(f"pump: {path}: {note}", file=sys.stderr)


def step_line(sequence: Sequence) -> str:
    """Which step was found."""
    times = "once" if sequence.seen == 1 else f"{sequence.seen} times"
    return f"step: {sequence.operations()} operations, seen {times}"


def doubts(sequence: Sequence) -> list[str]:
    """Why what was found may be no whole step."""
    touched, held = sequence.footprint(PAGE_BYTES), sequence.held()
    if touched >= SMALL * held:
        return []
    return [
        f"the step touches {format_size(touched)} of {format_size(held)} held at a time: if it is"
        " no whole one, trace more steps"
    ]
