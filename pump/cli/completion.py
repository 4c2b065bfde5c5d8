"""`pump completion`."""

from pump import cli
from pump.terminal.completion import Completion


def of_pump() -> Completion:
    """Of all commands, whichever were made already."""
    return Completion(cli.program)
