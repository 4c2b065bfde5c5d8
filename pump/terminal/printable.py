"""Text that a terminal may be shown: programs choose the names of kernels, and their own."""

import re
from typing import Any, TextIO

_STEERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab and line feed; what turns the direction of text; half characters."""


def printable(text: str) -> str:
    """The text with a `?` in place of each character that steers a terminal."""
    return _STEERS.sub("?", text)


class PrintableStream:
    """A text stream that writes what is printable, and is its base otherwise."""

    def __init__(self, base: TextIO) -> None:
        self.base = base

    def write(self, text: str) -> int:
        """Writes, as its base does."""
        return self.base.write(printable(text))

    def writelines(self, lines: Any) -> None:
        """Writes each, as its base does."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)
