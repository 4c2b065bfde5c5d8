"""`lab.touches.audit` from end to end, with a made-up program on the emulated device."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import machine, programs  # noqa: E402
from lab.touches import audit  # noqa: E402

pytestmark = pytest.mark.emu

MATRIX, BLOCK, MEMORY = 4 * 32 * 32, 8192, 64 << 20
NAME = "made-up"


@pytest.fixture
def results(
    emulator_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> dict[str, dict[str, Any]]:
    """What the command writes, run by run."""
    where = {"gpu": "emulated", "driver": "none", "when": "2026-11-21", "commit": "none"}
    command = [sys.executable, str(ROOT / "lab/tests/audited_program.py")]
    libraries = (emulator_dir, emulator_dir / "library" / "13")
    monkeypatch.setattr(machine, "describe", lambda: where)
    monkeypatch.setitem(programs.PROGRAMS, NAME, command)
    monkeypatch.setenv("LD_LIBRARY_PATH", ":".join(map(str, libraries)))
    monkeypatch.setenv("EMU_LIBRARY", "seen")
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "1GiB")
    target, raw = tmp_path / "result.json", tmp_path / "raw"
    words = ["audit", "--programs", NAME, "--json", str(target), "--raw", str(raw)]
    monkeypatch.setattr(sys, "argv", words)
    audit.main()
    assert f"| {NAME} | 0 | 0, 0, 0 | 0 | 75 % | 409," in capsys.readouterr().out
    first = target.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [*words, "--again"])
    monkeypatch.delitem(programs.PROGRAMS, NAME)
    audit.main()
    assert target.read_text(encoding="utf-8") == first
    result = json.loads(first)
    (program,) = result["programs"]
    assert (result["machine"], program["numbers_equal"]) == (where, True)
    runs: dict[str, dict[str, Any]] = program["runs"]
    return runs


def test_what_hooks_are_worth(results: dict[str, dict[str, Any]]) -> None:
    """Libraries know the matrices, the framework its blocks, the driver the next address."""
    for each in results.values():
        assert (each["operations"], each["launches"], each["truth"]) == (2, 2, 4 * MATRIX)
        assert (each["missed"], each["read_only"], each["overwritten"]) == (0, 0, 0)
        assert (each["without_owner"], each["trace_complete"]) == ({}, True)
    surplus = {hooks: run["surplus_by_kind"] for hooks, run in results.items()}
    assert results["all"]["surplus"] == 0
    assert results["no-library"]["surplus"] == surplus["no-library"]["own"]
    assert surplus["no-library"]["own"] == surplus["driver"]["own"] == 3 * (BLOCK - MATRIX)
    assert surplus["driver"]["free"] == MEMORY - 3 * BLOCK  # the last address reaches to the end


def test_refuses_where_managed_memory_is_not_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ULMS_MANAGED_LIMIT", raising=False)
    monkeypatch.setattr(sys, "argv", ["audit"])
    with pytest.raises(SystemExit, match="ULMS_MANAGED_LIMIT"):
        audit.main()
