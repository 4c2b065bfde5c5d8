"""What every command of the command line is."""

import argparse
from typing import Protocol


class UsageError(Exception):
    """The command was called wrongly; the text says how in one line. Exit status 2."""


class Command(Protocol):
    """A command: its name, its arguments and what it does. The class's docstring is its help."""

    name: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""

    def main(self, args: argparse.Namespace) -> int:
        """Runs with parsed arguments, prints the result and returns the exit status."""
