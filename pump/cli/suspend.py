"""`pump suspend` and `pump resume`."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from pump.cli import tenants
from pump.share import broker
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.status import Status

LOOK_S = 0.01
TOLD_S = 1.0
"""So often progress is told."""


class Suspend:
    """Put a program away that shares a GPU.

    Its memory leaves the GPU, and what it issues waits until `pump resume`.
    """

    name = "suspend"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whom, and for how long to wait."""
        who_is(parser)
        parser.add_argument(
            "--to",
            type=Path,
            metavar="DIR",
            help="its host memory goes to a file there, where its ULMS_FILE_DIR allows it",
        )
        parser.add_argument(
            "--timeout", type=float, default=60.0, metavar="S", help="seconds to wait (60)"
        )

    def main(self, args: argparse.Namespace) -> int:
        """Waits until all have left; a line a process."""
        try:
            before = {key(row): row for row in found(args.who)}
            folder = str(args.to.resolve()) if args.to else ""
            broker.suspend(broker.folder(), args.who, suspended=True, folder=folder)
            left = self.wait(args.who, args.timeout)
        except ShareError as error:
            raise UsageError(str(error)) from error
        for row in tenants.counted(left):
            if "away_ns" in row:
                print(gone(before.get(key(row), row), row))
                if args.to and not row["unfiled"]:
                    print(f"{name(row)}: {format_size(row['filed'])} are in a file in {args.to}")
        late = [row for row in left if not is_gone(row)]
        for row in late:
            print(
                f"pump: {name(row)} has not left after {args.timeout:g} s:"
                f" {format_size(row['reserved'])} are on the GPU. It stays suspended:"
                f" `pump resume {args.who}` undoes it",
                file=sys.stderr,
            )
        kept = [row for row in left if is_gone(row) and row["unfiled"]] if args.to else []
        for row in kept:
            print(
                f"pump: {name(row)} is suspended, but not all of its host memory is in a file in"
                f" {args.to}: {row['unfiled']}. {format_size(row['filed'])} are",
                file=sys.stderr,
            )
        return Status.FAILED if late or kept else Status.DONE

    def wait(self, who: str, seconds: float) -> list[dict[str, Any]]:
        """Their rows, once all have left or have ended, or so much later."""
        told = time.monotonic()
        end = told + seconds
        while True:
            rows = found(who)
            now = time.monotonic()
            stay = [row for row in rows if row["suspended"] and not is_gone(row)]
            if not stay or now > end:
                return [row for row in rows if row["suspended"]]
            if now > told + TOLD_S:
                told = now
                for row in stay:
                    goes = f"{format_size(row['reserved'])} to go"
                    if "away_ns" in row:
                        goes = f"{format_size(row['filed'])} went to the file"
                    print(f"{name(row)}: {goes}", file=sys.stderr)
            time.sleep(LOOK_S)


class Resume:
    """Let a program go on that was suspended.

    Its first operation runs as soon as its memory is back, which the rest follows.
    """

    name = "resume"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whom."""
        who_is(parser)

    def main(self, args: argparse.Namespace) -> int:
        """A line a process."""
        try:
            were = [row for row in found(args.who) if row["suspended"]]
            broker.suspend(broker.folder(), args.who, suspended=False)
        except ShareError as error:
            raise UsageError(str(error)) from error
        for row in were:
            print(f"{name(row)} goes on")
        return 0


def who_is(parser: argparse.ArgumentParser) -> None:
    """The argument of both."""
    parser.add_argument("who", metavar="NAME|PID", help="all of a share, or one process")


def found(who: str) -> list[dict[str, Any]]:
    """The tenants that the broker means by it."""
    rows = list(tenants.each(broker.status(broker.folder())))
    group = [row for row in rows if who in (row["group"], f"share:{row['group']}")]
    return group or [row for row in rows if who in (str(row["pid"]), f"pid:{row['pid']}")]


def is_gone(row: dict[str, Any]) -> bool:
    """From the GPU, and to the file if that was asked for."""
    return "away_ns" in row and not row["files"]


def key(row: dict[str, Any]) -> tuple[str, int]:
    """A process on a GPU."""
    return row["gpu"], row["tenant"]


def name(row: dict[str, Any]) -> str:
    """For people."""
    return f"{row['group']}, process {row['pid']} ({row['program']})"


def gone(before: dict[str, Any], row: dict[str, Any]) -> str:
    """What left, how long it took, and what did not."""
    left = max(0, before["resident"] - row["resident"])
    moved = row["evicted"] - before["evicted"]
    took = f"{row['away_ns'] / 1e9:.3f} s"
    stays = format_size(row["stays"])
    stays += (
        f" stay, with its context {format_size(row['nvml_used'])}"
        if "nvml_used" in row
        else " and its context stay"
    )
    return (
        f"{name(row)}: {format_size(left)} left the GPU in {took}, {format_size(moved)} of it"
        f" to the host; {stays}"
    )
