"""`pump share`."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Group

from pump.cli import tenants
from pump.share import broker
from pump.share.broker import ShareError
from pump.terminal.command import UsageError
from pump.terminal.render import console
from pump.terminal.status import Status


class Share:
    """Share a GPU among several programs.

    `pump run --share NAME -- CMD ...` starts a program that shares, and the broker.
    """

    name = "share"

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """One verb each."""
        verbs = parser.add_subparsers(metavar="VERB")
        parser.set_defaults(action=self.help, parser=parser)

        def verb(name: str, action: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
            made = verbs.add_parser(name, help=action.__doc__, description=action.__doc__)
            made.set_defaults(action=action, parser=made)
            return made

        start = verb("start", self.start)
        start.add_argument(
            "--config", type=Path, metavar="FILE", help="settings of groups, read when it changes"
        )
        status = verb("status", self.status)
        status.add_argument("--json", action="store_true", help="print all that is known as JSON")
        change = verb("set", self.set)
        change.add_argument("group", metavar="NAME")
        change.add_argument(
            "settings",
            nargs="+",
            metavar="KEY=VALUE",
            help="request=0.3, limit=0.6, hard=true, memory=8GiB, priority=1, pin=true, idle=30s;"
            " none takes one away",
        )
        verb("stop", self.stop)

    def main(self, args: argparse.Namespace) -> int:
        """Does what the verb says."""
        try:
            status: int = args.action(args)
        except ShareError as error:
            raise UsageError(str(error)) from error
        return status

    def help(self, args: argparse.Namespace) -> int:
        """Without a verb, as `pump` without a command."""
        args.parser.print_help(sys.stderr)
        return Status.USAGE

    def start(self, args: argparse.Namespace) -> int:
        """Start the broker, which stays until it is stopped."""
        at = broker.folder()
        made = broker.start(at, config=args.config)
        if not made and args.config:
            raise ShareError(f"a broker serves {at} already: `pump share stop` ends it")
        if not made:
            broker.stay(at)
        print(f"{'a broker serves' if made else 'one serves already, and stays:'} {at}")
        return 0

    def status(self, args: argparse.Namespace) -> int:
        """Say who shares which GPU, and what each has."""
        now = broker.status(broker.folder())
        if args.json:
            print(json.dumps(now, indent=1))
        else:
            console().print(Group(*(tenants.page(now) or ["nobody shares a GPU"])))
        return 0

    def set(self, args: argparse.Namespace) -> int:
        """Change a group, until the configuration file changes."""
        at = broker.folder()
        broker.configure(at, ",".join([args.group, *args.settings]))
        if all(tenant["group"] != args.group for tenant in tenants.each(broker.status(at))):
            told = "the next one of that name gets these settings"
            print(f"no program shares as {args.group}: {told}")
        return 0

    def stop(self, args: argparse.Namespace) -> int:
        """Stop the broker; programs run on with the memory that they have."""
        del args
        broker.stop(broker.folder())
        return 0
