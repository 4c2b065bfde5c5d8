"""pump-bench on the emulated device."""

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pump.bench import cli

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.emulator import factors, run  # noqa: E402

pytestmark = [pytest.mark.emu, pytest.mark.alone]


STRETCHES = (5, 20, 80)
"""What is compared differs by a quarter at least: no need to stretch times as for figures, unless
the machine is busy."""
LONGER = 1.25


@pytest.fixture(autouse=True)
def soon_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.emulator.run.STRETCH", STRETCHES[0])


def rise(shortest: float, *longer: float) -> bool:
    """Whether each takes a quarter longer than the one before, at least."""
    return all(LONGER * a < b for a, b in pairwise((shortest, *longer)))


def test_rows_of_the_emulated_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for stretch in STRETCHES:
        monkeypatch.setattr("bench.emulator.run.STRETCH", stretch)
        ms = step_ms_of_rows(tmp_path / f"rows{stretch}.json", capsys)
        if all(rise(ms["native"], ms[name], ms["um-demand"]) for name in ("um", "vmm")):
            return
    pytest.fail(f"{ms}")


def step_ms_of_rows(out: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """The shortest step under each system; what does not depend on time is as it should be."""
    systems = ["--system", "native", "--system", "um-demand", "--system", "um", "--system", "vmm"]
    words = ["run", "infer", "--device", "emulator", "--oversubscription", "2", "--json", str(out)]
    assert cli.main([*words, *systems]) == 0
    assert "infer" in capsys.readouterr().out
    rows = {row["system"]: row for row in json.loads(out.read_text())["rows"]}
    assert list(rows) == ["native", "um-demand", "um", "vmm"]
    assert all(row["numbers_equal"] for row in rows.values())
    assert all(
        row["capacity_bytes"] * 2 <= row["footprint_bytes"] for row in list(rows.values())[1:]
    )
    return {name: min(row["step_ms"]) for name, row in rows.items()}


def test_a_program_that_hangs_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.emulator.run.SECONDS", 0.001)
    words = ["run", "infer", "--device", "emulator", "--system", "native"]
    assert cli.main([*words, "--quiet"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told == ["pump-bench: infer 32 16 0 under native was not done after 0.001 s"]


def test_workloads_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--device", "emulator"]) == 0
    told = capsys.readouterr().out
    assert "train" in told
    assert "zero-copy" not in told


def test_a_smaller_share_takes_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "launches tell, decoding"
    out = tmp_path / "factors.json"
    monkeypatch.setattr(factors, "SITUATIONS", {name: factors.SITUATIONS[name]})
    monkeypatch.setattr(factors, "FACTORS", (100, 60))
    monkeypatch.setattr(factors, "RATIOS", (2.0,))
    monkeypatch.setattr(factors, "REPEATS", 1)
    monkeypatch.setattr(sys, "argv", ["factors", "--json", str(out)])
    for stretch in STRETCHES:
        monkeypatch.setattr("bench.emulator.run.STRETCH", stretch)
        factors.main()
        assert name in capsys.readouterr().out
        (row,) = json.loads(out.read_text())["rows"]
        assert row["numbers_equal"]
        if rise(row["step_ms"]["100"][0], row["step_ms"]["60"][0]):
            return
    pytest.fail(f"{row}")


def test_what_was_resident_is_told_and_a_row_over_its_budget_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.json"
    words = ["run", "infer", "--device", "emulator", "--oversubscription", "2", "--json", str(out)]
    words += ["--system", "um,vmm", "--quiet"]
    assert cli.main(words) == 0
    for row in json.loads(out.read_text())["rows"]:
        assert not row["over_budget"]
        assert row["capacity_bytes"] // 2 < row["resident_bytes"]
        assert row["resident_bytes"] <= row["capacity_bytes"] + row["operation_bytes"] + run.PAGE
        assert 16 << 20 <= row["operation_bytes"] < 64 << 20
    assert "at most on the device" in capsys.readouterr().out
    plain = run.told

    def more(*given: Any) -> run.Told:
        told = plain(*given)
        return replace(told, most=told.most + (256 << 20 if given[2] == "um" else 0))

    monkeypatch.setattr(run, "told", more)
    assert cli.main(words) == 1
    told = capsys.readouterr()
    assert told.err == "pump-bench: refused, as over its budget: 1 rows\n"
    assert "um had more resident than its budget" in told.out
    assert [row["over_budget"] for row in json.loads(out.read_text())["rows"]] == [True, False]
