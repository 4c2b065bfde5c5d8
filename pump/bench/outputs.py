"""What `pump-bench` writes: the options, rows as they come, and what an interrupt leaves."""

import argparse
from collections.abc import Callable
from pathlib import Path

from pump.bench.row import Row, write_results
from pump.whole import written_at


def add_outputs(to: argparse.ArgumentParser) -> None:
    """The options that say what to write."""
    to.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    to.add_argument("--plots", type=Path, metavar="FOLDER", help="write pictures there")
    to.add_argument("--svg", action="store_true", help="as SVG, not PNG")


def try_outputs(args: argparse.Namespace) -> None:
    """Before anything takes time: what cannot be written raises OSError. Makes the folder."""
    if args.json:
        try_results(args.json)
    if args.plots:
        args.plots.mkdir(parents=True, exist_ok=True)
        try_file(args.plots / ".pump-bench")


def try_results(path: Path) -> None:
    """Leaves all as it was. Raises OSError: its text says what cannot be written."""
    path = path.resolve()
    beside = written_at(path)
    try:
        try_file(path)
        if beside != path:
            try_file(beside)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise OSError(error.errno, f"there is no folder {path.parent}", str(path)) from error
    except OSError as error:
        if path == beside or error.filename != str(beside):
            raise
        told = f"{beside.name} cannot be written beside it: {error.strerror}"
        raise OSError(error.errno, told, str(path)) from error


def try_file(path: Path) -> None:
    """Leaves it as it was. Raises OSError."""
    new = not path.exists()
    path.open("a").close()
    if new:
        path.unlink()


class Kept:
    """Rows as they come, in a file if one was asked for."""

    def __init__(self, path: Path | None, machine: Callable[[], dict[str, str]]) -> None:
        self.path = path
        self.machine = machine
        self.rows: list[Row] = []

    def keep(self, rows: list[Row]) -> None:
        """All there are. Raises OSError."""
        if self.path:
            write_results(self.path, self.machine(), rows)
        self.rows = list(rows)

    def interrupted(self, runs: int) -> str:
        """A line on what is left of so many runs."""
        there = f"interrupted: {len(self.rows)} of {runs} runs"
        if not self.path:
            return f"{there} were done, and none was to be kept (--json FILE)"
        return f"{there} are in {self.path}" if self.rows else f"{there} were done"
