"""What can be wrong with a trace file."""

from dataclasses import dataclass
from os import PathLike, fspath


class TraceError(Exception):
    """A file that is no readable trace. One line: the file, the offset in bytes, and why."""

    def __init__(self, path: str | PathLike[str], offset: int, reason: str) -> None:
        super().__init__(f"{fspath(path)}: byte {offset}: {reason}")
        self.offset = offset


@dataclass(frozen=True)
class Loss:
    """A part of a trace file that could not be read; the rest could."""

    offset: int
    """Where it begins, in bytes; of a compressed file: in what it holds."""
    bytes: int
    reason: str

    def __str__(self) -> str:
        return f"{self.bytes} bytes from byte {self.offset} on: {self.reason}"


class Losses(list[Loss]):
    """Losses, of which so many are kept one by one: a file may have one for every few bytes."""

    MOST = 1000

    def append(self, loss: Loss) -> None:
        """Keeps the loss, or adds it to the last one, which then stands for all further ones."""
        if len(self) <= self.MOST:
            super().append(loss)
            return
        last = self[-1]
        first = min(last.offset, loss.offset)
        self[-1] = Loss(first, last.bytes + loss.bytes, "this and all further losses")
