"""pump-bench: tables, what they say of several rows, and the comparison of two files."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.bench import cli, compare, machines, plots, report  # noqa: E402
from pump.bench.row import Results, Row, write_results  # noqa: E402
from tests.unit.bench_row import row  # noqa: E402

pytestmark = pytest.mark.unit


def of(rows: list[Row], **machine: str) -> Results:
    return Results.of(machine, rows)


def test_what_takes_longer_is_marked() -> None:
    before = [row("um", 10), row("vmm", 10), row("um-pump", 10), row("native", 1)]
    after = [row("um", 12), row("vmm", 5), row("um-pump", 10.1), row("zero-copy", 1)]
    found = compare.compare(of(before), of(after))
    assert [c.run.system for c in found.slower()] == ["um"]
    assert found.means() == pytest.approx({"um": 1.2, "vmm": 0.5, "um-pump": 1.01})
    assert ([r.system for r in found.missing], [r.system for r in found.new]) == (
        ["native"],
        ["zero-copy"],
    )
    assert list(compare.comparison_table(found).columns[-1].cells) == ["SLOWER", "faster", ""]


def test_tables_are_by_workload_and_ratio(tmp_path: Path) -> None:
    places = [("b", 3.0), ("a", 2.0), ("b", 1.5), ("a", 1.5)]
    rows = [row("um", 5, workload=name, oversubscription=over) for name, over in places]
    found = compare.compare(of(rows), of(rows))
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
    assert "vmm: 8.0 times as fast as driver paging, 2.00 of the bound (geometric means)" in (
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
    assert "v 2, u 2" in report.not_counted(every)[0]
    assert report.not_counted(rows) == []
    assert plots.with_times(every) == [*rows, slow, over]
    counted = [replace(one, bytes_in=1.0) for one in every]
    assert [one.workload for one in plots.with_bytes(counted)] == ["w", "w", "w", "v"]


def test_a_comparison_leaves_out_what_went_beyond_its_budget() -> None:
    before = [row("um", 10, bound_ms=5.0), row("um", 10, workload="v", bound_ms=5.0)]
    after = [before[0], replace(before[1], step_ms=[30.0], over_budget=True)]
    found = compare.compare(of(before), of(after))
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


def test_what_failed_is_beside_what_did_not() -> None:
    """It is no run that only one of both has."""
    none = row("vmm", 5, step_ms=[], failed="torch.OutOfMemoryError: none left")
    both = replace(none, oversubscription=3.0)
    before = [row("vmm", 5), row("um", 4, step_ms=[], failed="status 1"), both]
    found = compare.compare(of(before), of([none, row("um", 4), both]))
    assert (found.missing, found.new, found.counted) == ([], [], [])
    columns = {str(c.header): list(c.cells) for c in compare.comparison_table(found).columns}
    assert columns["before ms"] == ["5.00", "failed", "no memory"]
    assert columns["after ms"] == ["no memory", "4.00", "no memory"]
    assert columns["ratio"] == [""] * 3
    assert columns[""] == ["FAILS", "runs", "failed"]
    told = found.told(("a", "b"))
    assert "failed only in a: w um 2 (failed)" in told
    assert "failed only in b: w vmm 2 (no memory)" in told
    assert "0 of 0 runs became slower by more than 3%" in told
    assert "3 more are in both and not counted: see their last column" in told
    alone = compare.compare(of([row("um", 4)]), of([row("um", 4), none]))
    assert {"failed only in b: w vmm 2 (no memory)", "only in b: 1 run"} < {*alone.told(("a", "b"))}


def test_other_numbers_are_said_and_not_counted() -> None:
    before = [row("vmm", 5, numbers_equal=True), row("um", 5, numbers_equal=True)]
    after = [row("vmm", 9, numbers_equal=False), row("um", 5, numbers_equal=None)]
    found = compare.compare(of(before), of(after))
    assert found.means() == pytest.approx({"um": 1})
    assert found.slower() == []
    columns = {str(c.header): list(c.cells) for c in compare.comparison_table(found).columns}
    assert columns["after ms"] == ["9.00 differs", "5.00"]
    assert columns[""] == ["differs", ""]
    told = found.told(("a", "b"))
    assert "numbers other than the native run's in b: w vmm 2" in told
    assert not [line for line in told if "run's in a" in line]


H200 = {"gpu": "NVIDIA H200", "commit": "here"}
RATES = {"link_in": "54.9 GB/s", "link_out": "54.7 GB/s", "link_both": "99.8 GB/s"}


@pytest.mark.parametrize(
    ("other", "device", "why"),
    [
        ({}, "gpu", ""),
        ({"commit": "there"}, "gpu", ""),
        ({"link_both": "96 GB/s"}, "gpu", ""),
        ({"gpu": "NVIDIA H100"}, "gpu", "the GPU differs"),
        ({"link_both": "79.14 GB/s"}, "gpu", "the link (26%) differs"),
        (
            {"gpu": "NVIDIA H100", "link_in": "27.45 GB/s"},
            "gpu",
            "the GPU and the link (100%) differ",
        ),
        ({"link_in": ""}, "gpu", ""),
        ({"gpu": "NVIDIA H100"}, "sim", ""),
    ],
)
def test_two_machines_are_told(other: dict[str, str], device: str, why: str) -> None:
    here = H200 | RATES
    told = machines.unlike((here, here | other), [row("vmm", 5, device=device)])
    assert told == (f"{why}: these are times of two machines" if why else "")


def test_a_comparison_says_what_it_compares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    write_results(a, H200 | RATES, [row("vmm", 5, device="gpu")])
    write_results(b, {"gpu": "NVIDIA H100", "commit": "there"}, [row("vmm", 6, device="gpu")])
    assert cli.main(["compare", str(a), str(b)]) == 0
    told = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "GPU NVIDIA H200 NVIDIA H100" in told
    assert "link in, out, both 54.9 GB/s, 54.7 GB/s, 99.8 GB/s not measured" in told
    assert "commit here there" in told
    assert told[-1] == "the GPU differs: these are times of two machines"


def test_other_numbers_are_in_no_mean() -> None:
    rows = [row("um-demand", 8), row("um", 2, bound_ms=1.0), row("vmm", 4)]
    other = replace(rows[1], workload="v", step_ms=[0.1], numbers_equal=False)
    every = [*rows, replace(rows[0], workload="v"), other]
    assert report.verdicts(every) == report.verdicts(rows) != []
    assert report.not_counted(every) == [
        "um came to other numbers than the native run, so these times are in no mean: v 2"
    ]
