"""Exit statuses: what commands return, and how their help tells of it."""

import shutil
import textwrap
from collections.abc import Iterable
from enum import IntEnum

WIDTH_LEAST = 11
"""Columns of help, however narrow the terminal is; argparse has the same."""


class Status(IntEnum):
    """What a shell sees. Above 128 it is what shells say of a signal."""

    DONE = 0
    FAILED = 1
    USAGE = 2  # as argparse has it
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    INTERRUPTED = 130
    BROKEN_PIPE = 141


Meaning = tuple[Status | str, str]
"""A status, and what it says."""
COMMON: tuple[Meaning, ...] = (
    (Status.DONE, "done"),
    (Status.FAILED, "it failed, or what was looked at has a problem: the output says which"),
    (
        Status.USAGE,
        "it cannot be done as asked: a wrong option, a file or a name that is not there",
    ),
    (Status.INTERRUPTED, "interrupted"),
    (Status.BROKEN_PIPE, "nobody reads the output any more"),
)
"""Of every program."""
STARTING: tuple[Meaning, ...] = (
    (Status.NOT_EXECUTABLE, "the program to run cannot be executed"),
    (Status.NOT_FOUND, "there is no program of that name"),
    ("other", "`pump run` and `pump trace run` end as the program does, by a signal as well"),
)
"""Of one that starts programs."""


def order(meaning: Meaning) -> int:
    """Numbers come first, the smallest before all."""
    return meaning[0] if isinstance(meaning[0], Status) else 256


def help_width() -> int:
    """Columns of help on this terminal. Python 3.10 says 0 where the terminal does not know."""
    return max(WIDTH_LEAST, shutil.get_terminal_size().columns - 2)


def page(meanings: Iterable[Meaning]) -> str:
    """The end of a program's help."""
    width = help_width()
    lines = ["exit status:"]
    for status, meaning in sorted(meanings, key=order):
        name = status if isinstance(status, str) else str(status.value)
        lines += textwrap.wrap(f"  {name:<7}{meaning}", width, subsequent_indent=" " * 9)
    return "\n".join(lines)
