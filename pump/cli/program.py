"""A program of several commands: what `pump` and `pump-bench` share."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from pump import __version__
from pump.cli.command import Command, UsageError
from pump.paths import NotBuiltError

INTERRUPTED, BROKEN_PIPE = 130, 141  # what a shell answers


@dataclass(frozen=True)
class Program:
    """Its name, what it is for, and its commands. `refuses`: errors that say what is wrong with
    what the user gave.
    """

    name: str
    description: str
    commands: Sequence[Command]
    refuses: tuple[type[Exception], ...] = (UsageError,)

    def parser(self) -> argparse.ArgumentParser:
        """The parser of all commands."""
        parser = argparse.ArgumentParser(prog=self.name, description=self.description)
        parser.add_argument("--version", action="version", version=f"{self.name} {__version__}")
        commands = parser.add_subparsers(metavar="COMMAND", required=True)
        for command in self.commands:
            doc = type(command).__doc__ or ""
            sub = commands.add_parser(command.name, help=doc.splitlines()[0], description=doc)
            sub.set_defaults(command=command)
            command.arguments(sub)
        return parser

    def main(self, words: Sequence[str]) -> int:
        """Runs the command named in words and returns its exit status: 2 for wrong usage."""
        args = self.parser().parse_args(words)
        command: Command = args.command
        try:
            status = command.main(args)
            sys.stdout.flush()
        except self.refuses as error:
            return self.complain(str(error), 2)
        except BrokenPipeError:
            # The reader has left. What is still buffered must not fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            told = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            return self.complain(told, 1)
        except NotBuiltError as error:
            return self.complain(str(error), 1)
        except KeyboardInterrupt:
            return INTERRUPTED
        return status

    def complain(self, line: str, status: int) -> int:
        """Says what went wrong and returns the exit status."""
        print(f"{self.name}: {line}", file=sys.stderr)
        return status
