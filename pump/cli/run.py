"""`pump run`."""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from pump import frameworks
from pump.preload import Preloaded, preload
from pump.sizes import parse_memory
from pump.terminal.command import UsageError
from pump.terminal.status import Status

LOG_LEVELS = ("ERROR", "WARN", "INFO", "DEBUG")
BACKENDS = ("auto", "um", "vmm", "observe", "off")


class Run:
    """Run a program under ulms.so.

    The options set the variables of the same meaning; what is not given stays as the environment
    has it. The program replaces this one: its exit status is its own.
    """

    name = "run"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Options, then the command."""
        option_arguments(parser)
        parser.add_argument("--trace", metavar="FILE", help="trace into FILE (`%%p`: process id)")
        parser.add_argument(
            "--share",
            metavar="NAME[,...]",
            help="share the GPU with other programs, as one of the group NAME; what may follow:"
            " request=0.3, limit=0.6, hard, memory=8GiB, priority=1, pin, idle=30s",
        )
        parser.add_argument(
            "--frameworks",
            choices=("auto", "always", "never"),
            default="auto",
            help="whether to set what makes JAX, TensorFlow and CuPy allocate each array by itself;"
            " auto, the default: where --memory, --factor or --share makes memory short",
        )
        command_arguments(parser)

    def run(self, args: argparse.Namespace) -> Preloaded:
        """The command and its environment. Raises UsageError."""
        options = options_of(args)
        if args.trace is not None:
            options["ULMS_TRACE"] = str(Path(args.trace).absolute())
        if args.share is not None:
            from pump.share import broker

            options |= {"ULMS_SHARE": args.share, "ULMS_SHARE_DIR": str(broker.folder())}
        refuse_unless_shared(args.share, {**os.environ, **options})
        program = prepared(args, options)
        short = args.frameworks == "auto" and frameworks.is_short(options, os.environ)
        if short or args.frameworks == "always":
            chosen = frameworks.chosen(program.command, options, os.environ)
            program = program._replace(variables=chosen | program.variables)
        return program

    def main(self, args: argparse.Namespace) -> int:
        """Becomes the program, or prints how it would be started."""
        program = self.run(args)
        if args.share is not None and not args.print:
            start_broker()
        return become(program, args.print)


def refuse_unless_shared(asked: str | None, variables: Mapping[str, str]) -> None:
    """A program whose settings ulms.so does not accept, or that moves nothing, would run without
    sharing. asked: with --share. Raises UsageError.
    """
    words = variables.get("ULMS_SHARE", "") if asked is None else asked
    if asked is None and not words:
        return
    from pump import binding

    if accepts := binding.share_accepts(words):
        name = "ULMS_SHARE=" if asked is None else "--share "
        raise UsageError(f"{name}{words}: {accepts} is accepted")
    if asked is not None and not frameworks.moves(variables):
        backend = variables["ULMS_BACKEND"]
        raise UsageError(f"--share {words}: nothing is shared with the backend {backend}")


def start_broker() -> None:
    """Unless one serves; it stays for the program. Raises UsageError."""
    from pump.share import broker

    try:
        broker.start_for_program(broker.folder())
    except broker.ShareError as error:
        raise UsageError(str(error)) from error


def option_arguments(parser: argparse.ArgumentParser, backend_note: str = "") -> None:
    """The arguments that stand for options of ulms.so."""
    parser.add_argument(
        "--factor", metavar="N", help="per cent of the memory that may be occupied, 0-100"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", help="device memory the program may see and use, like 8GiB"
    )
    parser.add_argument(
        "--backend", type=str.lower, choices=BACKENDS, help=f"how memory is provided{backend_note}"
    )
    parser.add_argument("--stats", action="store_true", help="show live counters to `pump top`")
    parser.add_argument(
        "--log", metavar="LEVEL", type=str.upper, choices=LOG_LEVELS, help=", ".join(LOG_LEVELS)
    )


def command_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what to start, and where."""
    parser.add_argument("--emulator", action="store_true", help="on the emulated device")
    parser.add_argument("--print", action="store_true", help="print the command, do not run it")
    parser.add_argument("command_line", nargs=argparse.REMAINDER, metavar="-- CMD ...")


def options_of(args: argparse.Namespace) -> dict[str, str]:
    """The variables that the option arguments stand for. Raises UsageError for a bad value."""
    options: dict[str, str] = {}
    if args.factor is not None:
        if not re.fullmatch("[0-9]{1,3}", args.factor) or int(args.factor) > 100:
            raise UsageError(f"--factor {args.factor}: a number from 0 to 100 is accepted")
        options["ULMS_GPU_MEMORY_FACTOR"] = args.factor
    if args.memory is not None:
        try:
            parse_memory(args.memory)
        except ValueError as error:
            raise UsageError(f"--memory: {error}") from error
        options["ULMS_GPU_MEMORY"] = args.memory
    if args.backend is not None:
        options["ULMS_BACKEND"] = args.backend
    if args.stats:
        options["ULMS_STATS"] = "on"
    if args.log is not None:
        options["ULMS_LOG_LEVEL"] = args.log
    return options


def prepared(args: argparse.Namespace, options: dict[str, str]) -> Preloaded:
    """The command of the arguments under ulms.so with options. Raises UsageError without one."""
    command = args.command_line[1:] if args.command_line[:1] == ["--"] else args.command_line
    if not command:
        raise UsageError("no command: say `-- CMD ...` after the options")
    try:
        return preload(command, options, emulator=args.emulator)
    except ValueError as error:
        raise UsageError(f"{error}: install PUMP in another folder") from error


def become(program: Preloaded, print_only: bool) -> int:
    """Replaces this process by the program, or prints it. Returns only then, or when it cannot."""
    if print_only:
        print(program.shell())
        return 0
    name = program.command[0]
    try:
        os.execvpe(name, program.command, program.environment(os.environ))
    except OSError as error:
        return cannot_start(name, error)


def cannot_start(name: str, error: OSError) -> int:
    """Says so, and returns what a shell answers."""
    told = f"{name}: {error.strerror}"
    if Path(name).is_file() and not ("/" in name and os.access(name, os.X_OK)):
        told += f"; it is a file: name what runs it, as in `-- python {name}`"
    print(f"pump: {told}", file=sys.stderr)
    missing = isinstance(error, FileNotFoundError)
    return Status.NOT_FOUND if missing else Status.NOT_EXECUTABLE
