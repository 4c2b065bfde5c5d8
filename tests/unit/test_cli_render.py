"""Tables for people, on terminals of any width."""

import io

import pytest

from pump.cli.render import console, table

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_numbers_and_the_first_column_are_never_cut(width: int) -> None:
    """Words of other columns are folded, and whole."""
    first, number, words = "A_LONG_NAME_THAT_SAYS_MUCH", "123,456,789.0", "what it is for " * 9
    out = io.StringIO()
    page = console(out)
    page.width = width
    page.print(table(("name", ">value", "what", ">more"), [(first, number, words, number)] * 2))
    told = out.getvalue()
    assert told.count(first) == 2
    assert told.count(number) == 4
    assert told.split().count("for") == 18
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    needed = len(first) + 2 * len(number) + 30
    assert max(len(line.rstrip()) for line in told.splitlines()) <= max(width, needed)
