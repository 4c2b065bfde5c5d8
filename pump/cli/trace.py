"""`pump trace`."""

import argparse
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from pump.cli import run
from pump.cli.child import end_like, run_child
from pump.cli.recording import open_trace, read_trace
from pump.cli.summary import FUNCTIONS_SHOWN, summary_page
from pump.doctor import Level, environment
from pump.preload import Preloaded
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.hint import hint
from pump.terminal.render import console
from pump.terminal.status import Status
from pump.trace import Summary, TraceError, compress, export_chrome, export_tables, summarize
from pump.trace.tables import SUFFIX

VERBS = ("run", "show", "export", "compress")
DEFAULT_FILE = "trace.%p.ulms"
SHORT = (
    "if it ran out of the GPU's memory, trace it with `--backend um`: observe, the default here,"
    " moves nothing"
)
NO_PARQUET = "Parquet needs pyarrow: `pip install pyarrow`"


class Trace:
    """Record what a program does, and read what was recorded.

    `pump trace -o FILE -- CMD ...` is short for `pump trace run -o FILE -- CMD ...`.
    """

    name = "trace"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """One verb each."""
        verbs = parser.add_subparsers(metavar="VERB")
        parser.set_defaults(action=self.help)

        def verb(name: str, action: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
            made = verbs.add_parser(name, help=action.__doc__, description=action.__doc__)
            made.set_defaults(action=action, parser=made)
            return made

        record = verb("run", self.record)
        record.add_argument(
            "-o",
            dest="trace",
            default=DEFAULT_FILE,
            metavar="FILE",
            help=f"trace into FILE (`%%p`: process id; default {DEFAULT_FILE.replace('%', '%%')})",
        )
        record.add_argument("-f", dest="force", action="store_true", help="overwrite FILE")
        run.option_arguments(
            record, " (default here: observe, which moves nothing and refuses what does not fit)"
        )
        run.command_arguments(record)
        show = verb("show", self.show)
        show.add_argument("file", type=Path)
        show.add_argument("--all", action="store_true", help="every kernel, however small")
        show.add_argument("--json", action="store_true", help="print the summary as JSON")
        export = verb("export", self.export)
        export.add_argument("file", type=Path)
        export.add_argument(
            "output",
            type=Path,
            help="JSON for ui.perfetto.dev, chrome://tracing; with a name in `.parquet` a folder of"
            " tables",
        )
        pack = verb("compress", self.compress)
        pack.add_argument("file", type=Path)
        pack.add_argument("output", type=Path, help="the same trace, gzip; readable like any other")

    def run(self, args: argparse.Namespace) -> Preloaded:
        """The command to be traced and its environment. Raises UsageError."""
        options = {"ULMS_TRACE": str(Path(args.trace).absolute())} | run.options_of(args)
        if "ULMS_BACKEND" not in os.environ:
            options = {"ULMS_BACKEND": "observe"} | options
        return run.prepared(args, options)

    def main(self, args: argparse.Namespace) -> int:
        """Does what the verb says."""
        try:
            status: int = args.action(args)
        except TraceError as error:
            raise UsageError(str(error)) from error
        return status

    def help(self, args: argparse.Namespace) -> int:
        """Without a verb, as `pump` without a command."""
        args.parser.print_help(sys.stderr)
        return Status.USAGE

    def record(self, args: argparse.Namespace) -> int:
        """Run a program and record it."""
        program = self.run(args)
        if args.command_line[0] != "--":
            refuse_unless_program(program.command[0])
        if args.print:
            return run.become(program, True)
        make_room(args.trace, args.force)
        return recorded(program)

    def show(self, args: argparse.Namespace) -> int:
        """Say what a trace holds: kernels by function, bytes, what could not be matched."""
        summary = summarize(read_trace(args.file))
        if args.json:
            print(json.dumps(as_json(summary), indent=1))
        else:
            limit = None if args.all else FUNCTIONS_SHOWN
            console().print(summary_page(summary, limit))
        return 0

    def export(self, args: argparse.Namespace) -> int:
        """Write a trace as a timeline for Perfetto or Chrome, or as tables in Parquet."""
        trace = open_trace(args.file)
        if args.output.suffix.lower() == SUFFIX:
            try:
                print(f"{export_tables(trace, args.output):,} rows in {args.output}")
            except ImportError as error:
                raise UsageError(NO_PARQUET) from error
            except FileExistsError as error:
                raise UsageError(f"{args.output} is a file: tables go into a folder") from error
        else:
            print(f"{export_chrome(trace, args.output):,} events in {args.output}")
        return 0

    def compress(self, args: argparse.Namespace) -> int:
        """Write a trace smaller."""
        open_trace(args.file)
        before, after = compress(args.file, args.output)
        print(f"{args.output}: {format_size(after)}, was {format_size(before)}")
        return 0


def make_room(file: str, force: bool) -> None:
    """Sees to it that a trace can be written there. Raises UsageError."""
    found = environment.trace_finding(file)
    if found.level is Level.PROBLEM:
        raise UsageError(f"{found.text}: name another file")
    if found.level is Level.NOTE and not force:
        raise UsageError(f"{file} exists already: -f overwrites it")
    if found.level is Level.NOTE:
        Path(file).unlink()


def recorded(program: Preloaded) -> int:
    """Runs the program and ends as it does; says what was recorded, and what to do with it."""
    command, pattern = program.command[0], program.variables["ULMS_TRACE"]
    before = written(pattern)
    try:
        status = run_child(program.command, program.environment(os.environ))
    except OSError as error:
        return run.cannot_start(command, error)
    folder, here = Path(pattern).parent, Path.cwd()
    if folder.is_relative_to(here):
        folder = folder.relative_to(here)
    made = [folder / name for name in sorted(name for name, _ in written(pattern) - before)]
    for file in made:
        print(f"pump: traced into {file}", file=sys.stderr)
    if made:
        name = shlex.quote(str(max(made, key=lambda file: file.stat().st_size)))
        print(
            f"pump: `pump plan {name} --memory SIZE` predicts its step with less memory,"
            f" `pump trace show {name}` says what it holds",
            file=sys.stderr,
        )
        failed = os.WIFEXITED(status) and os.WEXITSTATUS(status)
        if failed and program.variables.get("ULMS_BACKEND") == "observe":
            print(f"pump: {SHORT}", file=sys.stderr)
    else:
        print(
            f"pump: no trace was written to {pattern}: {command} used no CUDA, nor did what it"
            f" started (or ulms.so did not reach them: `pump doctor {command}` looks)",
            file=sys.stderr,
        )
    return end_like(status)


def matches(pattern: str, name: str, more: str = "") -> bool:
    """Whether a file may be meant by a name in which %p stands for any process id."""
    like = re.escape(Path(pattern).name).replace("%p", "[0-9]+")
    return re.fullmatch(like + more, name) is not None


def written(pattern: str) -> set[tuple[str, int]]:
    """The files of a name, with numbers behind it where there was one before, and when they
    changed.
    """
    folder = Path(pattern).parent
    found = set()
    with suppress(FileNotFoundError):  # the folder; or a file goes meanwhile
        for file in os.scandir(folder):
            if matches(pattern, file.name, r"(\.[0-9]+)*"):
                found.add((file.name, file.stat().st_mtime_ns))
    return found


def refuse_unless_program(name: str) -> None:
    """A word that stands where a verb may. Raises UsageError."""
    if shutil.which(name):
        return
    if Path(name).is_file():
        raise UsageError(
            f"{name} is no program; `pump trace show {name}` reads it, if it is a trace"
        )
    raise UsageError(f"no verb `{name}`, and no program of that name{hint(name, VERBS)}")


def as_json(summary: Summary) -> dict[str, object]:
    """The summary with names for keys."""
    fields = asdict(summary)
    for name in ("operations", "touches"):
        fields[name] = {key.name.lower(): count for key, count in fields[name].items()}
    return fields


def with_verb(words: list[str]) -> list[str]:
    """The words of a command line, `pump trace` with the verb that it leaves out."""
    explicit = {*VERBS, "-h", "--help"}
    if words[:1] == [Trace.name] and len(words) > 1 and words[1] not in explicit:
        return [Trace.name, "run", *words[1:]]
    return words
