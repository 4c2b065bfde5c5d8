"""A program of several commands: what `pump` and `pump-bench` share."""

import argparse
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

from pump.paths import NotBuiltError
from pump.terminal.command import Command, UsageError
from pump.terminal.hint import Parser, hint
from pump.terminal.printable import PrintableStream
from pump.terminal.status import COMMON, Meaning, Status, help_width, page


class Version(argparse.Action):
    """Asked for by few, and slow to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from pump import __version__

        print(parser.prog, __version__)
        parser.exit()


class Program(NamedTuple):
    """Its name, what it is for, and its commands. `refuses`: errors that say what is wrong with
    what the user gave. `statuses`: how it ends, for its help.
    """

    name: str
    description: str
    commands: Sequence[Command]
    refuses: tuple[type[Exception], ...] = (UsageError,)
    statuses: Sequence[Meaning] = COMMON

    def parser(self) -> argparse.ArgumentParser:
        """The parser of all commands."""
        parser = Parser(
            prog=self.name,
            description=textwrap.fill(self.description, help_width()),
            epilog=page(self.statuses),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "-V", "--version", action=Version, nargs=0, help="show the version and exit"
        )
        commands = parser.add_subparsers(metavar="COMMAND", required=True)
        for command in self.commands:
            doc = type(command).__doc__ or ""
            sub = commands.add_parser(command.name, help=doc.splitlines()[0], description=doc)
            sub.set_defaults(command=command, parser=sub)
            command.arguments(sub)
        return parser

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments. What is not known is the command's to refuse: its usage helps. Without
        any, all help is given.
        """
        if not words:
            self.parser().print_help(sys.stderr)
            sys.exit(Status.USAGE)
        args, unknown = self.parser().parse_known_args(words)
        if unknown and words[0] == unknown[0]:
            self.parser().parse_args(words)  # ends here: it stands before the command
        if unknown:
            parser: argparse.ArgumentParser = args.parser
            named = [name for action in parser._actions for name in action.option_strings]
            meant = hint(unknown[0].partition("=")[0], named)
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
        return args

    def run(self, words: Sequence[str]) -> int:
        """As main, but errors are raised. SystemExit: help was printed, or words are wrong."""
        try:
            args = self.parse(words)
        except SystemExit:
            sys.stdout.flush()
            raise
        command: Command = args.command
        return command.main(args)

    def main(self, words: Sequence[str]) -> int:
        """Runs the command named in words and returns its exit status: 2 for wrong usage. Names
        that it prints, of programs, kernels or files, do not steer the terminal.
        """
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = map(PrintableStream, streams)
        try:
            return self._main(words)
        finally:
            sys.stdout, sys.stderr = streams

    def _main(self, words: Sequence[str]) -> int:
        try:
            status = self.run(words)
            sys.stdout.flush()
        except self.refuses as error:
            return self.complain(str(error), Status.USAGE)
        except BrokenPipeError:
            drop_output()  # the reader has left
            return Status.BROKEN_PIPE
        except OSError as error:
            told = error.strerror or str(error)
            line = f"{error.filename}: {told}" if error.filename else told
            status = self.complain(line, Status.FAILED)
            drop_output()
            return status
        except NotBuiltError as error:
            return self.complain(str(error), Status.FAILED)
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        return status

    def complain(self, line: str, status: Status) -> int:
        """Says what went wrong and returns the exit status."""
        print(f"{self.name}: {line}", file=sys.stderr)
        return status


def drop_output() -> None:
    """What is still buffered, if it cannot be written: it would fail again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
