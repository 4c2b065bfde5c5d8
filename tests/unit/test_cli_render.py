"""Tables for people, on terminals of any width."""

import io
import time

import pytest

from pump.symbol import readable
from pump.terminal.render import NAME_LEAST, PADDING, Name, console
from pump.terminal.tables import BETWEEN, FOLDED_LEAST, table

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
    needed = len(first) + 2 * len(number) + FOLDED_LEAST + 4 * BETWEEN
    assert max(len(line.rstrip()) for line in told.splitlines()) <= max(width, needed)


KERNEL = (
    "_ZN2at6native29vectorized_elementwise_kernelILi4EZZZNS0_23direct_copy_kernel_cudaE"
    "RNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_"
)


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
def test_off_a_terminal_columns_are_those_told(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of kernels are shortened to them, words are folded, numbers are not cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for told in (drawn(Name(KERNEL), "7"), drawn("7", "what it is for " * 30)):
        assert max(len(line.rstrip()) for line in told.splitlines()) <= max(
            columns, NAME_LEAST + 30
        )
    told = drawn(Name(KERNEL), "7")
    assert "vecto" in told
    assert (readable(KERNEL) in told) == (len(readable(KERNEL)) + 20 <= columns)
    assert "123,456,789.0" in told


def test_a_line_of_spaces_takes_no_time() -> None:
    """Its end alone is cut off. A quadratic search takes a minute."""
    line = "a" + " " * 100_000 + "b"
    begun = time.process_time()
    assert PADDING.sub("", f"{line}  \n   \n{line}") == f"{line}\n\n{line}"
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("columns", ["", "0", "wide"])
def test_without_columns_nothing_is_shortened(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert readable(KERNEL) in drawn(Name(KERNEL), "7")
    assert "what it is for " * 29 in drawn("7", "what it is for " * 30)


def drawn(*row: object) -> str:
    """A table of one row, and a number."""
    out = io.StringIO()
    console(out).print(table(("kernel", "what", ">much"), [(*row, "123,456,789.0")]))
    return out.getvalue()
