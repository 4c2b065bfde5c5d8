"""The command line: `pump COMMAND ...`.

Each command is one small object, of a class of its own. A command's `run` returns plain data;
rendering it is a step of its own, so that the data can be used and tested without a terminal.
"""

import sys
from collections.abc import Sequence
from importlib import import_module

from pump.terminal.command import Command
from pump.terminal.program import Program
from pump.terminal.status import COMMON, STARTING

PLACES = {
    "run": "run.Run",
    "share": "share.Share",
    "suspend": "suspend.Suspend",
    "resume": "suspend.Resume",
    "checkpoint": "checkpoint.Checkpoint",
    "restart": "restart.Restart",
    "top": "top.Top",
    "metrics": "metrics.Metrics",
    "trace": "trace.Trace",
    "sim": "sim.Sim",
    "plan": "plan.Plan",
    "hooks": "hooks.Hooks",
    "doctor": "doctor.Doctor",
    "options": "options.Options",
    "lib": "lib.Lib",
    "cdi": "cdi.Cdi",
    "completion": "completion.of_pump",
}
"""Of commands, in the order of help: module and what makes one."""


def program(name: str = "") -> Program:
    """With that command alone, or, where there is none of the name, with all: what the others
    import takes longer than `pump run` itself.
    """
    commands = [command_at(PLACES[one]) for one in ([name] if name in PLACES else PLACES)]
    about = "Run CUDA programs that need more GPU memory than there is."
    return Program("pump", about, commands, statuses=(*COMMON, *STARTING))


def command_at(place: str) -> Command:
    """A new one."""
    module, _, kind = place.partition(".")
    command: Command = getattr(import_module(f"pump.cli.{module}"), kind)()
    return command


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command named in argv and returns its exit status, a Status or the program's own."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["trace"]:
        from pump.cli.trace import with_verb

        words = with_verb(words)
    return program(words[0] if words else "").main(words)
