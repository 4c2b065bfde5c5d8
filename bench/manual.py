"""Prints the manual page of `pump`, from its parser: `python -m bench.manual >docs/pump.1`."""

import argparse
from functools import partial

from argparse_manpage.manpage import Manpage

from pump.cli import program
from pump.terminal.completion import parsers
from pump.terminal.status import Status, order

WIDE = 10_000
"""Columns: `man` folds lines itself."""
SEE_ALSO = (
    "`pump options --man | man -l -` tells of the variables that a program reads under ulms.so."
)


def page() -> str:
    """The page, in man macros."""
    made = program()
    parser = made.parser()
    for each in parsers(parser):
        each.formatter_class = partial(argparse.HelpFormatter, width=WIDE)
        each.description = described(each)
    parser.description, parser.epilog = made.description, None
    parser._positionals.title = "commands"
    manual = Manpage(parser, format="single-commands-section")
    manual.description = made.description.rstrip(".")
    manual.date, manual.manual = "", "PUMP"
    items = [
        f".TP\n.B {status.value if isinstance(status, Status) else status}\n{meaning}"
        for status, meaning in sorted(made.statuses, key=order)
    ]
    manual.add_section("exit status", ">", "\n".join(items))
    manual.add_section("see also", ">", SEE_ALSO.replace("-", "\\-"))
    return str(manual)


def described(parser: argparse.ArgumentParser) -> str:
    """In one line, with the command's name; without the first one, which is the command's help."""
    text = (parser.description or "").partition("\n")[2]
    if "%(prog)" in text:
        text %= {"prog": parser.prog}
    return " ".join(text.split())


if __name__ == "__main__":
    print(page(), end="")
