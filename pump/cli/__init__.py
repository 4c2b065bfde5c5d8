"""The command line: `pump COMMAND ...`.

Each command is one small object in COMMANDS. A command's `run` returns plain data; rendering it is
a step of its own, so that the data can be used and tested without a terminal.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from pump import __version__
from pump.cli.command import Command, UsageError
from pump.cli.doctor import Doctor
from pump.cli.hooks import Hooks
from pump.cli.lib import Lib
from pump.cli.options import Options
from pump.cli.plan import Plan
from pump.cli.run import Run
from pump.cli.sim import Sim
from pump.cli.top import Top
from pump.cli.trace import Trace, with_verb
from pump.paths import NotBuiltError

INTERRUPTED, BROKEN_PIPE = 130, 141  # what a shell answers

COMMANDS: tuple[Command, ...] = (
    Run(),
    Top(),
    Trace(),
    Sim(),
    Plan(),
    Hooks(),
    Doctor(),
    Options(),
    Lib(),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="pump", description="Run CUDA programs that need more GPU memory than there is."
    )
    parser.add_argument("--version", action="version", version=f"pump {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        doc = type(command).__doc__ or ""
        sub = commands.add_parser(command.name, help=doc.splitlines()[0], description=doc)
        sub.set_defaults(command=command)
        command.arguments(sub)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command named in argv and returns its exit status: 2 for wrong usage."""
    words = list(sys.argv[1:] if argv is None else argv)
    args = build_parser().parse_args(with_verb(words))
    command: Command = args.command
    try:
        status = command.main(args)
        sys.stdout.flush()
    except UsageError as error:
        return complain(str(error), 2)
    except BrokenPipeError:
        # The reader has left. What is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        return complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), 1)
    except NotBuiltError as error:
        return complain(str(error), 1)
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def complain(line: str, status: int) -> int:
    """Says what went wrong and returns the exit status."""
    print(f"pump: {line}", file=sys.stderr)
    return status
