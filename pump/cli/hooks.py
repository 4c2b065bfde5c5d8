"""`pump hooks`."""

import argparse
import json
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from pump import binding, coverage, installed
from pump.binding import Kernel
from pump.cli.recording import open_trace
from pump.coverage import STATUSES, Function
from pump.terminal.command import UsageError
from pump.terminal.number import whole
from pump.terminal.render import Name, console
from pump.terminal.tables import table

EVERY_WORD = 512
"""Words that the parameters of a kernel may have."""
ARCHITECTURE_MOST = 9999


@dataclass(frozen=True)
class Page:
    """The functions asked for and, with a trace, the symbols that the traced program called."""

    functions: list[Function]
    seen: Collection[str] | None


class Hooks:
    """Show every CUDA function known, and what ulms.so makes of each.

    Without names: how many of each library by status, and what the libraries on this machine export
    that is not known. With names: the functions that contain one. With --kernels: what the machine
    code in files says of each kernel.
    """

    name = "hooks"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Which functions, and how to show them."""
        parser.add_argument("names", nargs="*", metavar="NAME", help="part of a function's name")
        parser.add_argument("--all", action="store_true", help="list every function")
        parser.add_argument("--json", action="store_true", help="print the functions as JSON")
        parser.add_argument(
            "--seen", metavar="TRACE", help="mark what a traced program gave the device to do"
        )
        parser.add_argument(
            "--kernels", nargs="+", metavar="FILE", help="show the kernels of cubins and libraries"
        )
        parser.add_argument(
            "--architecture",
            type=whole(0, ARCHITECTURE_MOST),
            default=0,
            metavar="N",
            help="only kernels for it: 90 is sm_90",
        )

    def run(self, args: argparse.Namespace) -> Page:
        """The functions asked for. Raises UsageError when a name matches none."""
        functions = coverage.matching(coverage.load(), args.names)
        if not functions:
            raise UsageError(f"no function known is named like {' or '.join(args.names)}")
        return Page(functions, called_symbols(Path(args.seen)) if args.seen else None)

    def main(self, args: argparse.Namespace) -> int:
        """Prints the page."""
        if args.kernels:
            kernels = kernels_of(map(Path, args.kernels), args.architecture)
            if args.json:
                print(json.dumps([asdict(kernel) for kernel in kernels], indent=1))
            else:
                console().print(kernel_table(kernels))
            return 0
        page = self.run(args)
        if args.json:
            rows = [
                asdict(function)
                | ({} if page.seen is None else {"seen": function.symbol in page.seen})
                for function in page.functions
            ]
            print(json.dumps(rows, indent=1))
            return 0
        out = console()
        if args.all or args.names or page.seen is not None:
            out.print(function_table(page, everything=args.all or bool(args.names)))
        if not args.names:
            out.print(total_table(page.functions))
            out.print("\n".join(f"{name}: {meaning}" for name, meaning in STATUSES.items()))
            found = installed.find(page.functions, installed.folders(os.environ))
            out.print(
                installed_table(found)
                if found
                else "No driver, cuBLAS or cuDNN was found on this machine."
            )
        return 0


def kernels_of(paths: Iterable[Path], architecture: int) -> list[Kernel]:
    """All that the files hold. Raises UsageError for what cannot be read, or holds none."""
    found = list[Kernel]()
    for path in paths:
        try:
            kernels = binding.kernels(path, architecture)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        if not kernels:
            raise UsageError(f"{path} holds no kernel that can be read")
        found += kernels
    return found


def kernel_table(kernels: Iterable[Kernel]) -> Table:
    """One row a kernel; parameters by their words of 8 bytes."""
    rows = [
        (Name(k.name), k.architecture, k.verdict, places(k.reads), places(k.writes), k.reason)
        for k in kernels
    ]
    columns = ["kernel", ">sm", "verdict", "reads at", "writes at", "why"]
    return table(columns, rows, leaves=("reads at", "writes at", "why"))


def places(words: Sequence[int]) -> str:
    """Words of the parameters; all of them if nothing is known."""
    return "any" if len(words) == EVERY_WORD else ", ".join(map(str, words))


def called_symbols(path: Path) -> set[str]:
    """Every function whose calls a trace holds. Raises UsageError for what is no trace."""
    trace = open_trace(path)
    return {trace.api_name(api) for api in set(trace.operations["api"].tolist())}


def function_table(page: Page, *, everything: bool) -> Table:
    """One row a function; only those seen unless everything is asked for."""
    columns = ["library", "function", ">since", "status", "touches, or why not"]
    if page.seen is not None:
        columns.insert(0, "seen")
    rows = []
    for function in page.functions:
        seen = page.seen is not None and function.symbol in page.seen
        if not (seen or everything):
            continue
        cells = [
            function.library,
            function.symbol,
            f"{function.since // 1000}.{function.since % 1000 // 10}" if function.since else "",
            function.status,
            "; ".join(function.touches) or function.why,
        ]
        rows.append(["*" if seen else "", *cells] if page.seen is not None else cells)
    return table(columns, rows, leaves=("since", "library", "status"))


def total_table(functions: Iterable[Function]) -> Table:
    """One row a library: functions by status."""
    rows = [
        (library, *(counts[status] for status in STATUSES), counts.total())
        for library, counts in coverage.totals(functions).items()
    ]
    return table(["library", *(f">{status}" for status in STATUSES), ">all"], rows)


def installed_table(found: Iterable[installed.Installed]) -> Table:
    """One row a library that lies on this machine: what it exports that no table names."""
    rows = [(one.library, str(one.path), one.exported, few(one.unknown) or "none") for one in found]
    return table(["library", "on this machine", ">exports", "not known"], rows)


def few(names: Sequence[str], most: int = 8) -> str:
    """The names, or the first of them and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
