"""The command line: `pump COMMAND ...`.

Each command is one small object in COMMANDS. A command's `run` returns plain data; rendering it is
a step of its own, so that the data can be used and tested without a terminal.
"""

import sys
from collections.abc import Sequence

from pump.cli.doctor import Doctor
from pump.cli.hooks import Hooks
from pump.cli.lib import Lib
from pump.cli.options import Options
from pump.cli.plan import Plan
from pump.cli.run import Run
from pump.cli.share import Share
from pump.cli.sim import Sim
from pump.cli.suspend import Resume, Suspend
from pump.cli.top import Top
from pump.cli.trace import Trace, with_verb
from pump.terminal.command import Command
from pump.terminal.program import Program

COMMANDS: tuple[Command, ...] = (
    Run(),
    Share(),
    Suspend(),
    Resume(),
    Top(),
    Trace(),
    Sim(),
    Plan(),
    Hooks(),
    Doctor(),
    Options(),
    Lib(),
)


PROGRAM = Program("pump", "Run CUDA programs that need more GPU memory than there is.", COMMANDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command named in argv and returns its exit status: 2 for wrong usage."""
    return PROGRAM.main(with_verb(list(sys.argv[1:] if argv is None else argv)))
