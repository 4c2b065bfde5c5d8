"""The page of all programs under all systems."""

from pathlib import Path

import pytest

from bench.gpu import cells
from pump.bench.row import Results, Row

pytestmark = pytest.mark.unit
ROOT = Path(__file__).resolve().parents[2]
NEEDS = 4 << 30


def row(system: str, over: float, ms: float, failed: str = "") -> Row:
    times = [] if failed else [ms]
    return Row("lstm", "gpu", system, over, round(NEEDS / over), NEEDS, times, 1.0, failed=failed)


def found(*files: tuple[str, str, list[Row]]) -> cells.Found:
    return cells.newest(Results.of({"gpu": gpu, "when": when}, rows) for gpu, when, rows in files)


def test_the_page_is_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "all-systems.md").read_text(encoding="utf-8")
    assert page == cells.page(), "python -m bench.gpu.cells > docs/all-systems.md"


def test_an_h200_comes_before_what_is_newer() -> None:
    old, new = [row("vmm", 2.0, 10.0)], [row("vmm", 2.0, 20.0)]
    both = found(("NVIDIA H200", "2026-01-01", old), ("NVIDIA H100", "2026-02-01", new))
    assert cells.cell(both, "lstm", "vmm", 2.0, NEEDS) == "10.0"
    later = found(("NVIDIA H100", "2026-01-01", old), ("NVIDIA H100", "2026-02-01", new))
    assert cells.cell(later, "lstm", "vmm", 2.0, NEEDS) == "20.0*"


def test_what_less_memory_does_not_change_is_known_of_more() -> None:
    rows = [row("zero-copy", 1.5, 7.0), row("save-on-cpu", 1.5, 0, failed="OutOfMemoryError")]
    of = found(("NVIDIA H200", "2026-01-01", [*rows, row("vmm", 1.5, 5.0)]))
    assert cells.cell(of, "lstm", "zero-copy", 3.0, NEEDS) == "7.0"
    assert cells.cell(of, "lstm", "save-on-cpu", 3.0, NEEDS) == "no memory"
    assert cells.cell(of, "lstm", "vmm", 3.0, NEEDS) == ""


def test_less_memory_says_nothing_of_more() -> None:
    of = found(("NVIDIA H200", "2026-01-01", [row("vmm", 3.0, 0, failed="OutOfMemoryError")]))
    assert cells.cell(of, "lstm", "vmm", 2.0, NEEDS) == ""


def test_what_cannot_be_measured_says_so() -> None:
    assert cells.cell({}, "lstm", "um", 2.0, 9 << 30) == "too large"
    assert cells.cell({}, "lstm", "offload", 2.0, NEEDS) == "-"
