"""Numbers that people write: finite, and within what can be meant."""

import argparse
from collections.abc import Callable

DIGITS = 20
MOST = 1e9
"""Of seconds: what waits longer overflows a clock."""


def number(least: float, most: float = MOST) -> Callable[[str], float]:
    """A parser of an argument: from least to most. It raises ArgumentTypeError."""

    def parse(text: str) -> float:
        try:
            found = float(text)
        except ValueError:
            found = least - 1
        if not least <= found <= most:  # nor is nan
            told = f"'{text}': a number from {least:g} to {most:.10g} is accepted"
            raise argparse.ArgumentTypeError(told)
        return found

    return parse


def whole(least: int, most: int) -> Callable[[str], int]:
    """The same of a whole number, in decimal digits."""

    def parse(text: str) -> int:
        found = (
            int(text) if text.isascii() and text.isdecimal() and len(text) < DIGITS else least - 1
        )
        if not least <= found <= most:
            told = f"'{text}': a whole number from {least} to {most} is accepted"
            raise argparse.ArgumentTypeError(told)
        return found

    return parse
