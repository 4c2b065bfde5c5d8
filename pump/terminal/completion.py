"""`pump completion`."""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from pump.terminal.command import UsageError
from pump.terminal.program import Program

SHELLS = ("bash", "zsh")
FILES = ("FILE", "TRACE")
"""Metavars of files that are given as words."""


class Completion:
    """Print what lets a shell complete commands, options and files.

    In ~/.bashrc: `source <(%(prog)s bash)`. For zsh: `%(prog)s zsh >FOLDER/_pump`, with a FOLDER of
    $fpath.
    """

    name = "completion"

    def __init__(self, program: Callable[[], Program]) -> None:
        self.program = program

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """For whom."""
        parser.add_argument("shell", choices=SHELLS)

    def run(self, shell: str) -> str:
        """The script."""
        try:
            import shtab
        except ImportError as error:
            raise UsageError("shtab is not installed: `pip install shtab`") from error
        parser = self.program().parser()
        for each in parsers(parser):
            each.description = (each.description or "").partition("\n")[0]  # zsh shows it in a line
            for action in each._actions:
                if action.metavar == "DIR":
                    action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
                elif action.type is Path or action.metavar in FILES:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        return shtab.complete(parser, shell)

    def main(self, args: argparse.Namespace) -> int:
        """Prints it."""
        print(self.run(args.shell))
        return 0


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Of all commands and verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from parsers(sub)
