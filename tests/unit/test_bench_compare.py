"""pump-bench: tables, what they say of several rows, and the comparison of two files."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.bench import compare, plots, report  # noqa: E402
from tests.unit.bench_row import row  # noqa: E402

pytestmark = pytest.mark.unit


def test_what_takes_longer_is_marked() -> None:
    before = [row("um", 10), row("vmm", 10), row("um-pump", 10), row("native", 1)]
    after = [row("um", 12), row("vmm", 5), row("um-pump", 10.1), row("zero-copy", 1)]
    found = compare.compare(before, after)
    assert [c.run.system for c in found.slower()] == ["um"]
    assert found.means() == pytest.approx({"um": 1.2, "vmm": 0.5, "um-pump": 1.01})
    assert ([r.system for r in found.missing], [r.system for r in found.new]) == (
        ["native"],
        ["zero-copy"],
    )
    assert [compare.verdict(c.ratio, 0.03) for c in found.changes] == ["SLOWER", "faster", ""]


def test_tables_are_by_workload_and_ratio(tmp_path: Path) -> None:
    places = [("b", 3.0), ("a", 2.0), ("b", 1.5), ("a", 1.5)]
    rows = [row("um", 5, workload=name, oversubscription=over) for name, over in places]
    found = compare.compare(rows, rows)
    assert [change.run[::3] for change in found.changes] == sorted(places)
    cells = {str(c.header): list(c.cells) for c in report.run_table(rows).columns}
    assert cells["workload"] == ["b", "b", "a", "a"]
    assert cells["over"] == ["1.5", "3", "1.5", "2"]


def test_the_oracle_has_one_column() -> None:
    alone = [row("oracle", 5, oracle_ms=5.0, bound_ms=4.0)]
    for rows in (alone, [*alone, row("vmm", 6, oracle_ms=5.0, bound_ms=4.0)]):
        headings = [str(column.header) for column in report.run_table(rows).columns]
        assert headings.count("oracle") == 1


def test_geometric_means_are_over_what_both_ran() -> None:
    rows = [row("um-demand", 8), row("vmm", 2, bound_ms=1.0)]
    rows += [
        replace(one, workload="v", step_ms=[one.ms * k])
        for one, k in zip(rows, (4, 1), strict=True)
    ]
    rows.append(row("um", 1))
    rows += [replace(one, oversubscription=1.0, step_ms=[1.0]) for one in rows[:2]]
    short = [one for one in rows if one.oversubscription > 1]
    assert report.verdicts(rows) == report.verdicts(short) != []
    rows = short
    assert report.speedup(rows, "um-demand", "vmm") == pytest.approx(8)
    assert report.speedup(rows, "um-pump", "vmm") is None
    assert report.over_bound(rows, "vmm") == pytest.approx(2)
    assert "vmm: 8.0 times as fast as um-demand, 2.00 of the bound (geometric means)" in (
        report.verdicts(rows)
    )


def test_a_run_beyond_its_budget_counts_nowhere() -> None:
    rows = [row("um-demand", 8), row("um", 2, bound_ms=1.0), row("vmm", 4)]
    over = replace(rows[1], workload="v", step_ms=[0.1], over_budget=True)
    slow = replace(rows[0], workload="v")
    alone = replace(over, workload="u")
    every = [*rows, slow, over, alone]
    assert report.verdicts(every) == report.verdicts(rows)
    assert report.cell_of(over) == "(over)"
    assert "v 2, u 2" in report.over_budget(every)[0]
    assert report.over_budget(rows) == []
    assert plots.with_times(every) == [*rows, slow]
    counted = [replace(one, bytes_in=1.0) for one in every]
    assert [one.workload for one in plots.with_bytes(counted)] == ["w", "w", "w", "v"]


def test_a_comparison_leaves_out_what_went_beyond_its_budget() -> None:
    before = [row("um", 10, bound_ms=5.0), row("um", 10, workload="v", bound_ms=5.0)]
    after = [before[0], replace(before[1], step_ms=[30.0], over_budget=True)]
    found = compare.compare(before, after)
    assert len(found.changes) == 2
    assert found.means() == pytest.approx({"um": 1})
    assert found.over_bound() == pytest.approx({"um": 2})
    assert found.slower() == []
    assert list(compare.comparison_table(found).columns[-1].cells) == ["(over)", ""]


def test_different_numbers_are_told() -> None:
    told = report.run_table([row("um", 10, numbers_equal=False), row("vmm", 5, numbers_equal=True)])
    cells = {str(column.header): list(column.cells) for column in told.columns}
    assert cells["um"] == ["10.0 differs"]
    assert cells["vmm"] == ["5.0"]
