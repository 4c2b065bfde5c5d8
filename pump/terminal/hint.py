"""A parser that says what a word may stand for that is not known."""

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from pump.terminal.printable import PrintableStream


def hint(word: str, known: Iterable[str]) -> str:
    """The end of a line that refuses a word; "" where none of those known is like it."""
    from difflib import get_close_matches  # only errors need it

    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


class Parser(argparse.ArgumentParser):
    """Says what a word may stand for that is none of an argument's choices. Help has colours on a
    terminal; errors have none, as they hold words of the user.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.color = False  # from Python 3.14 on, argparse colours its help by itself

    def print_help(self, file: Any = None) -> None:
        """As its base does."""
        out = file or sys.stdout
        help_of = coloured_help() if out.isatty() else None
        if not help_of:
            super().print_help(file)
            return
        terminal: TextIO = out.base if isinstance(out, PrintableStream) else out
        terminal.write(help_of(self, terminal))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += hint(str(value), map(str, action.choices or ()))
            raise


def coloured_help() -> Callable[[argparse.ArgumentParser, TextIO], str] | None:
    """What makes it; None where its library is missing, as after pip with --no-deps."""
    try:
        from pump.terminal.coloured import help_of
    except ImportError:
        return None
    return help_of
