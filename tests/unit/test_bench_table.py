"""pump-bench table: results as Markdown, and as bars."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from pump.bench import cli
from pump.bench.row import Row, write_results
from tests.unit.bench_row import row

pytestmark = pytest.mark.unit

MACHINE = {"gpu": "a GPU", "driver": "1.2", "commit": "0123456789+", "when": "2026-11-28T01:02"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two workloads at twice their memory, one of them also at three times."""
    rows: list[Row] = [
        row("native", 10, workload="resnet50", oversubscription=1.0, native_ms=10.0, device="gpu")
    ]
    for workload, over, system, ms, more in (
        ("resnet50", 2.0, "um-demand", 300.0, {}),
        ("resnet50", 2.0, "vmm", 20.0, {"bound_ms": 15.0}),
        ("resnet50", 3.0, "vmm", 40.0, {}),
        ("mine", 2.0, "um-demand", 100.0, {}),
        ("mine", 2.0, "vmm", 30.0, {"numbers_equal": False}),
        ("mine", 3.0, "offload", 0.0, {"step_ms": [], "failed": "OutOfMemoryError"}),
    ):
        given = {"workload": workload, "oversubscription": over, "native_ms": 10.0} | more
        rows.append(row(system, ms, device="gpu", **given))
    write_results(tmp_path / "a.json", MACHINE, rows)
    return tmp_path / "a.json"


def lines(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert cli.main(["table", *words]) == 0
    return capsys.readouterr().out.splitlines()


def test_one_ratio_has_a_line_a_workload(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lines([str(results), "--system", "um-demand,vmm"], capsys) == [
        "a GPU, driver 1.2, commit 0123456+, 2026-11-28.",
        "",
        "| step (memory it needs) | everything fits | driver paging | vmm | least possible |",
        "|---|---|---|---|---|",
        "| ResNet-50, training, batch 64 (2.0 GiB) | 10.0 | 300.0 | 20.0 | 15.0 |",
        "| mine (2.0 GiB) | 10.0 | 100.0 | 30.0 differs | unknown |",
    ]


def test_several_ratios_have_a_line_each(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *_, first, second, third, last = lines([str(results), "--oversubscription", "2,3"], capsys)
    assert first.endswith("| 1/2 | 10.0 | 300.0 | 20.0 | - | 15.0 |")
    assert second == "|  | 1/3 | 10.0 | not measured | 40.0 | - | unknown |"
    assert third.startswith("| mine (2.0 GiB) | 1/2 |")
    assert last == "|  | 1/3 | 10.0 | not measured | not measured | no memory | unknown |"


def test_bars_are_as_long_as_steps_are_slow(results: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.svg"
    words = [str(results), "--system", "um-demand,vmm", "--bars", str(picture)]
    assert cli.main(["table", *words]) == 0
    root = ElementTree.parse(picture).getroot()
    told = [text.text for text in root.iter(f"{SVG}text")]
    assert told[0] == "Times slower than when it fits, with half of the memory"
    assert [each for each in told if each and each[0].isdigit()] == ["30.0", "2.0", "10.0", "3.0"]
    bars = [float(r.get("width", "")) for r in root.iter(f"{SVG}rect") if r.get("height") == "13"]
    assert bars[0] / bars[1] == pytest.approx(15, rel=0.01)
    ticks = [r for r in root.iter(f"{SVG}rect") if r.get("width") == "3"]
    assert len(ticks) == 2  # the legend's, and that of the one bound


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--system", "um-demnd"], "no system um-demnd"),
        (["--oversubscription", "7"], "with these ratios and systems: there are 2, 3"),
        (
            ["--oversubscription", "3", "--system", "offload", "--bars", "x.svg"],
            "has no times at 3",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(
    words: list[str], why: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["table", str(results), *words]) == 2
    assert why in capsys.readouterr().err
