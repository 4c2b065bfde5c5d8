"""Tables that fit: which columns leave, and that what stays is whole."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pump.bench import cli as bench
from pump.bench.report import run_table
from pump.cli import main as pump
from pump.predict.systems import BY_NAME
from pump.terminal.render import console
from pump.terminal.tables import BETWEEN, Size, table, widths
from tests.unit.bench_row import row

pytestmark = pytest.mark.unit

HEADINGS = ("name", ">needs", "what", ">step ms", "why not")
LEAVES = ("why not", "needs", "what")
WORD = st.text("abcdefg", min_size=1, max_size=12)
PROSE = st.lists(WORD, max_size=20).map(" ".join)
NUMBER = st.integers(0, 10**12).map(lambda number: f"{number:,}")
ROWS = st.lists(st.tuples(WORD, NUMBER, PROSE, NUMBER, PROSE), min_size=1, max_size=4)


def drawn(rows: list[tuple[str, ...]], width: int) -> tuple[list[str], list[str]]:
    """The lines of a table, and the headings that it says have no room."""
    out = io.StringIO()
    page = console(out)
    page.width = width
    page.print(table(HEADINGS, rows, leaves=LEAVES))
    lines = out.getvalue().splitlines()
    left = lines[-1].removeprefix("no room for: ")
    return lines, [] if left == lines[-1] else left.split(", ")


@given(rows=ROWS, width=st.integers(60, 200))
def test_a_table_fits_and_what_stays_is_whole(rows: list[tuple[str, ...]], width: int) -> None:
    lines, left = drawn(rows, width)
    assert max(map(len, lines)) <= width
    assert left == list(LEAVES[: len(left)])
    words = " ".join(lines).split()
    for cells in rows:
        for heading, cell in zip(HEADINGS, cells, strict=True):
            assert heading.removeprefix(">") in left or set(cell.split()) <= {*words}


@given(rows=ROWS, width=st.integers(30, 200))
def test_no_column_leaves_for_which_there_is_room(rows: list[tuple[str, ...]], width: int) -> None:
    """The last one that left does not fit beside those that stay."""
    made = table(HEADINGS, rows, leaves=LEAVES)
    kept, left = made.kept(width)
    headings = [heading.removeprefix(">") for heading in HEADINGS]
    assert [headings[at] for at in kept] == [one for one in headings if one not in left]
    if left:
        back = [*kept, headings.index(left[-1])]
        assert sum(made.sizes[at].least for at in back) + BETWEEN * len(back) - 1 > width


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 20), st.integers(0, 60)),
        min_size=1,
        max_size=6,
    ),
    width=st.integers(20, 250),
)
def test_all_room_is_given_away(sizes: list[tuple[int, int, int]], width: int) -> None:
    asked = [Size(least, least + whole, least + whole + more) for least, whole, more in sizes]
    given_away = widths(asked, width)
    assert all(a.least <= one <= a.most for a, one in zip(asked, given_away, strict=True))
    if any(one < a.whole for a, one in zip(asked, given_away, strict=True)):
        assert all(one <= a.whole for a, one in zip(asked, given_away, strict=True))
    total = sum(given_away) + BETWEEN * len(sizes) - 1
    least = sum(a.least + BETWEEN for a in asked) - 1
    most = sum(a.most + BETWEEN for a in asked) - 1
    assert total == max(least, min(most, width))


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
@pytest.mark.parametrize(
    "words", ["options", "hooks --all", "plan --hardware", "list --device sim", "list --device gpu"]
)
def test_real_tables_fit(
    words: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    main = bench.main if words.startswith("list") else pump
    assert main(words.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns, max(lines, key=len)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_times_of_all_systems_fit_and_ours_stay(columns: int) -> None:
    times = {"workload": "jax-transformer", "oracle_ms": 5.0, "bound_ms": 4.0}
    rows = [row(system, 1234.5, oversubscription=o, **times) for system in BY_NAME for o in (1, 2)]
    out = io.StringIO()
    page = console(out)
    page.width = columns
    page.print(run_table(rows))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    (headings,) = (line.split() for line in lines if "workload" in line)
    assert {"um", "vmm"} <= {*headings}
    assert ("native" in headings) == (columns >= 80)
