"""When pump-bench times the calls of a GPU's driver on managed memory, without one."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import calls, run  # noqa: E402

pytestmark = pytest.mark.unit


def test_calls_on_managed_memory_are_timed_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured: list[Path] = []

    def described(built: Path) -> dict[str, str]:
        measured.append(built)
        return {"managed_in": "40 GB/s"}

    monkeypatch.setattr(calls, "described", described)
    monkeypatch.setattr("bench.gpu.link.described", dict)
    monkeypatch.setattr("pump.bench.machine.describe", lambda: {"gpu": "none"})
    for systems, told in ((["native", "vmm"], {}), (["um", "vmm"], {"managed_in": "40 GB/s"})):
        programs_here = run.Programs()
        expected = {"gpu": "none"} | told
        assert programs_here.machine(systems) == expected == programs_here.machine(systems)
    assert measured == [run.BUILT]


def test_where_calls_cannot_be_timed_a_machine_has_no_figures_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    monkeypatch.setattr("bench.gpu.compiled.nvcc", lambda: str(tmp_path / "nvcc"))
    assert calls.described(tmp_path) == {}


def test_calls_are_not_timed_where_they_would_take_more_than_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def process(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(calls, "process", process)
    monkeypatch.setattr(sys, "argv", ["calls"])
    for limit in ("", "much", "3GiB"):
        monkeypatch.setenv("ULMS_MANAGED_LIMIT", limit)
        assert calls.described(tmp_path) == {}
    with pytest.raises(SystemExit):
        calls.main()
    assert "ULMS_MANAGED_LIMIT is less" in capsys.readouterr().err
