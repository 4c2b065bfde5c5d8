"""What a word may stand for that is not known."""

import argparse
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


def hint(word: str, known: Iterable[str]) -> str:
    """The end of a line that refuses a word; "" where none of those known is like it."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


class Parser(argparse.ArgumentParser):
    """Says what a word may stand for that is none of an argument's choices."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += hint(str(value), map(str, action.choices or ()))
            raise
