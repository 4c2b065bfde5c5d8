"""`pump suspend` and `pump resume`."""

import argparse
import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from pump import checkpoint
from pump.cli import tenants
from pump.nvml import NoNvmlError
from pump.share import broker
from pump.share.broker import ShareError
from pump.sizes import format_size
from pump.terminal.command import UsageError
from pump.terminal.number import number
from pump.terminal.status import Status

LOOK_S = 0.01
TOLD_S = 1.0
"""So often progress is told."""
AGAIN_S = 0.1
"""A checkpoint takes longer."""
ELSEWHERE = "the broker is in another container, so processes have other numbers here"
CONTEXT, CONTEXT_PART = 1 << 30, 16
"""Bytes that a context takes at most, and a part of the device."""


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
            "--with-context",
            action="store_true",
            help="its context, modules and graphs leave the GPU, too (vmm; driver 570 or newer)",
        )
        waits(parser, "seconds to wait")

    def main(self, args: argparse.Namespace) -> int:
        """Waits until all have left; a line a process."""
        try:
            before = {key(row): row for row in found(args.who)}
            folder = str(args.to.resolve()) if args.to else ""
            context = args.with_context
            if context and not broker.numbers_processes_alike(broker.folder()):
                raise UsageError(ELSEWHERE)
            asks = "LEAVES" if context else "STAYS"
            broker.suspend(broker.folder(), args.who, suspended=True, folder=folder, context=asks)
            left = self.wait(args.who, args.timeout, context=context)
            released = {row["pid"] for row in before.values() if row["released"]}
            contexts = self.take_contexts(left, args.timeout, released) if context else {}
        except ShareError as error:
            raise UsageError(str(error)) from error
        except KeyboardInterrupt:
            print(f"pump: interrupted: `pump resume {args.who}` undoes it", file=sys.stderr)
            raise
        for row in tenants.counted(left):
            if "away_ns" in row:
                print(gone(before.get(key(row), row), row, contexts.get(row["pid"])))
                if args.to and not row["unfiled"]:
                    print(f"{name(row)}: {format_size(row['filed'])} are in a file in {args.to}")
        late = [row for row in left if not is_gone(row)]
        for row in late:
            print(
                f"pump: {name(row)} has not left after {args.timeout:g} s:"
                f" {format_size(there(row))} are on the GPU. It stays suspended:"
                f" `pump resume {args.who}` undoes it",
                file=sys.stderr,
            )
        stay = [row for row in left if is_gone(row) and contexts.get(row["pid"], ("", 0))[0]]
        for row in stay:
            print(
                f"pump: {name(row)} is suspended, but its context stays on the GPU:"
                f" {contexts[row['pid']][0]}",
                file=sys.stderr,
            )
        kept = [row for row in left if is_gone(row) and row["unfiled"]] if args.to else []
        for row in kept:
            print(
                f"pump: {name(row)} is suspended, but not all of its host memory is in a file in"
                f" {args.to}: {row['unfiled']}. {format_size(row['filed'])} are",
                file=sys.stderr,
            )
        return Status.FAILED if late or stay or kept else Status.DONE

    def take_contexts(
        self, rows: list[dict[str, Any]], seconds: float, released: set[int]
    ) -> dict[int, tuple[str, float]]:
        """Of each process, by its number: why its context stays ("": it does not), and how long
        that took. `released`: those that had let go before.
        """
        contexts = {}
        for pid in {row["pid"] for row in rows}:
            mine = [row for row in rows if row["pid"] == pid]
            kept = [row["unfiled"] or "not all has left" for row in mine if not row["released"]]
            began = time.monotonic()
            outcome = checkpoint.Outcome(kept[0], asked=False) if kept else take(pid, seconds)
            contexts[pid] = outcome.error, time.monotonic() - began
            has_it = not outcome.asked and pid not in released
            if outcome.error and (has_it or not checkpoint.bring(pid).error):
                say_is_back(pid)
        return contexts

    def wait(self, who: str, seconds: float, *, context: bool) -> list[dict[str, Any]]:
        """Their rows, once all have left or have ended, or so much later. `context`: and let go."""
        told = time.monotonic()
        end = told + seconds
        while True:
            rows = found(who)
            now = time.monotonic()
            away = [row for row in rows if is_gone(row) and (is_ready(row) or not context)]
            stay = [row for row in rows if row["suspended"] and row not in away]
            if not stay or now > end:
                return [row for row in rows if row["suspended"]]
            if now > told + TOLD_S:
                told = now
                for row in stay:
                    goes = f"{format_size(there(row))} to go"
                    if "away_ns" in row:
                        goes = f"{format_size(row['filed'])} went to the file"
                    print(f"{name(row)}: {goes}", file=sys.stderr)
            time.sleep(LOOK_S)


class Resume:
    """Let a program go on that was suspended.

    Where its context left, too, the driver brings that back first.

    Its first operation runs as soon as its memory is back, which the rest follows.
    """

    name = "resume"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Whom."""
        who_is(parser)

    def main(self, args: argparse.Namespace) -> int:
        """A line a process."""
        try:
            were = [row for row in found(args.who) if row["suspended"] or row["released"]]
            contexts = bring_contexts(were)
            stay = {pid for pid, why in contexts.items() if why}
            goes_on = {f"pid:{row['pid']}" for row in were if row["pid"] not in stay}
            for who in sorted(goes_on) if stay else [args.who]:
                broker.suspend(broker.folder(), who, suspended=False)
        except ShareError as error:
            raise UsageError(str(error)) from error
        for row in were:
            if row["pid"] not in stay:
                print(f"{name(row)} goes on")
            else:
                why = contexts[row["pid"]]
                print(f"pump: {name(row)} stays as it is: {why}", file=sys.stderr)
        return Status.FAILED if stay else Status.DONE


def take(pid: int, seconds: float) -> checkpoint.Outcome:
    """As checkpoint.take does; what was resumed meanwhile is the other command's."""
    return checkpoint.take(pid, seconds, partial(lets_go, pid))


def bring_contexts(rows: list[dict[str, Any]]) -> dict[int, str]:
    """Of each process whose context left, by its number: why it did not come back; "": it did, and
    the broker knows.
    """
    away: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["released"]:
            away.setdefault(row["pid"], []).append(row)
    alike = not away or broker.numbers_processes_alike(broker.folder())
    return {pid: bring(pid, mine) if alike else ELSEWHERE for pid, mine in away.items()}


def bring(pid: int, rows: list[dict[str, Any]]) -> str:
    """One of them. Room is looked at right before: one that came back before took some."""
    lacks = [why for row in rows if (why := no_room(row))]
    if why := lacks[0] if lacks else checkpoint.bring(pid).error:
        return why
    began = time.monotonic()
    say_is_back(pid)
    # who took it again in so long saw that it still let go
    return checkpoint.bring(pid).error if time.monotonic() - began > AGAIN_S else ""


def say_is_back(pid: int) -> None:
    """To the broker, of a process whose context was just seen on the GPU. It stays suspended, if
    nobody resumed it.
    """
    suspended = any(row["suspended"] for row in found(f"pid:{pid}"))
    broker.suspend(broker.folder(), f"pid:{pid}", suspended=suspended, context="IS_BACK")


def no_room(row: dict[str, Any]) -> str:
    """Why not to ask the driver; "": it has room. It loses a process that it has none for."""
    try:
        free, whole = tenants.nvml(row["gpu"]).free()
    except NoNvmlError:
        return ""
    need = row["resident"] + min(CONTEXT, whole // CONTEXT_PART)
    return (
        f"its context may need {format_size(need)} of the GPU, and {format_size(free)} are free"
        if free < need
        else ""
    )


def there(row: dict[str, Any]) -> int:
    """Bytes that are still on the GPU. It may use less than it has reserved."""
    return int(min(row["reserved"], row["resident"]))


def waits(parser: argparse.ArgumentParser, what: str) -> None:
    """The argument that says how long."""
    parser.add_argument(
        "--timeout",
        type=number(0, math.inf),
        default=60.0,
        metavar="S",
        help=f"{what} (60)",
    )


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


def lets_go(pid: int) -> bool:
    """On all its GPUs."""
    rows = found(f"pid:{pid}")
    return bool(rows) and all(row["released"] for row in rows)


def is_ready(row: dict[str, Any]) -> bool:
    """It lets go of the device, or says why not."""
    return bool(row["released"] or row["unfiled"])


def key(row: dict[str, Any]) -> tuple[str, int]:
    """A process on a GPU."""
    return row["gpu"], row["tenant"]


def name(row: dict[str, Any]) -> str:
    """For people."""
    return f"{row['group']}, process {row['pid']} ({row['program']})"


def gone(
    before: dict[str, Any], row: dict[str, Any], context: tuple[str, float] | None = None
) -> str:
    """What left, how long it took, and what did not. `context`: as take_contexts tells it."""
    moved = row["evicted"] - before["evicted"]
    left = max(moved, before["resident"] - row["resident"])  # pages came after that look, too
    took = f"{row['away_ns'] / 1e9:.3f} s"
    stays = format_size(row["stays"])
    stays += (
        f" stay, with its context {format_size(row['nvml_used'])}"
        if "nvml_used" in row
        else " and its context stay"
    )
    if context and not context[0]:
        stays = f"its context followed in {context[1]:.3f} s"
    return (
        f"{name(row)}: {format_size(left)} left the GPU in {took}, {format_size(moved)} of it"
        f" to the host; {stays}"
    )
