"""What every command of the command line is."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class UsageError(Exception):
    """The command was called wrongly; the text says how in one line. Status.USAGE."""


@contextmanager
def reading() -> Iterator[None]:
    """A file that is asked for and cannot be read is wrong usage. Raises UsageError."""
    try:
        yield
    except OSError as error:
        told = error.strerror or str(error)
        raise UsageError(f"{error.filename}: {told}" if error.filename else told) from error


class Command(Protocol):
    """A command: its name, its arguments and what it does. The class's docstring is its help."""

    name: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""

    def main(self, args: argparse.Namespace) -> int:
        """Runs with parsed arguments, prints the result and returns the exit status."""
