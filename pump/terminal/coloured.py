"""Help in colours. The library takes as long to import as `pump run` needs: only for terminals."""

import argparse
from functools import partial
from typing import TextIO

from rich.console import Console
from rich_argparse import RawDescriptionRichHelpFormatter, RichHelpFormatter


class Coloured(RichHelpFormatter):
    """The words are argparse's; a bracket in them is one."""

    group_name_formatter = str
    help_markup = text_markup = False


class RawColoured(RawDescriptionRichHelpFormatter):
    """The same, of a text that has its lines already."""

    group_name_formatter = str
    help_markup = text_markup = False


def help_of(parser: argparse.ArgumentParser, file: TextIO) -> str:
    """What a terminal is shown."""
    plain = parser.formatter_class
    is_raw = plain is argparse.RawDescriptionHelpFormatter
    kind = RawColoured if is_raw else Coloured
    parser.formatter_class = partial(kind, console=Console(file=file))
    try:
        return parser.format_help()
    finally:
        parser.formatter_class = plain
