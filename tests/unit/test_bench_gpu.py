"""What pump-bench starts on a GPU, without one: commands, budgets, what is read back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import run, workloads  # noqa: E402
from pump.bench import cli  # noqa: E402
from pump.bench.systems import GPU, systems_on  # noqa: E402
from pump.cli.command import UsageError  # noqa: E402

pytestmark = pytest.mark.unit

GIB = 1 << 30
SYSTEMS = [system.name for system in systems_on(GPU)]


def report(numbers: list[str], counters: dict[str, int], reserved: int) -> str:
    told = {"numbers": numbers, "step_ms": [2.0, 4.0], "counters": counters}
    return "noise\nREPORT " + json.dumps(told | {"max_reserved": reserved}) + "\n"


class Machine:
    """Answers in place of processes, and remembers what was asked."""

    def __init__(self, reserved: int) -> None:
        self.reserved = reserved
        self.asked: list[tuple[list[str], dict[str, str]]] = []

    def run(self, command: list[str], env: dict[str, str], **_: Any) -> Any:
        self.asked.append((command, env))
        names = [name for name in env.get("REPORT_COUNTERS", "").split(",") if name]
        counters = dict.fromkeys(names, 2 * (4 << 20))
        numbers = ["0x2"] if "checkpointing" in command else ["0x1"]
        status = 1 if "offload" in command else 0
        out = report(numbers, counters, self.reserved)
        return subprocess.CompletedProcess(command, status, out, "no memory left")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(6 * GIB)
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", "8GiB")
    monkeypatch.setattr("bench.gpu.run.subprocess.run", made.run)
    return made


def test_every_system_gets_its_budget_and_its_row(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row.system: row for row in run.Programs(GPU).rows(["lstm"], SYSTEMS, [2.0], True)}
    assert set(rows) == {*SYSTEMS} - {"offload"}
    assert "lstm offload: failed with status 1: no memory left" in capsys.readouterr().err
    assert {row.capacity_bytes for row in rows.values()} == {3 * GIB, 6 * GIB}
    assert rows["native"].oversubscription == 1
    assert rows["vmm"].bytes_in == 2 * (4 << 20)
    assert rows["vmm"].faults == 2
    assert rows["save-on-cpu"].bytes_in is None
    assert [name for name, row in rows.items() if not row.numbers_equal] == ["checkpointing"]
    alone, *others = [env for _, env in machine.asked]
    assert "ULMS_GPU_MEMORY" not in alone
    assert {env["ULMS_GPU_MEMORY"] for env in others} == {str(3 * GIB)}
    assert {(env["ULMS_BACKEND"], env.get("ULMS_POLICY")) for env in others} == {
        ("um", "none"),
        ("um", "pump"),
        ("um", "ahead"),
        ("vmm", "ahead"),
        ("observe", None),
    }


def test_too_much_for_managed_memory_is_left_out(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.reserved = 8 * GIB
    rows = run.Programs(GPU).rows(["gpt2-xl"], ["native", "um", "vmm"], [2.0], True)
    assert [row.system for row in rows] == ["native", "vmm"]
    assert "gpt2-xl um: left out: it needs 8192 MiB" in capsys.readouterr().err
    assert all(env.get("ULMS_BACKEND") != "um" for _, env in machine.asked)


@pytest.mark.parametrize("limit", ["", "9GiB", "much"])
def test_nothing_starts_without_a_limit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", limit)
    with pytest.raises(SystemExit, match="ULMS_MANAGED_LIMIT"):
        run.Programs(GPU).rows(["lstm"], ["native"], [2.0], True)
    assert machine.asked == []


def test_workloads_are_listed_without_their_frameworks(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--device", "gpu"]) == 0
    told = capsys.readouterr().out
    listed = workloads.names()
    assert len(listed) == 10
    assert all(name in told and line in told for name, line in listed.items())
    assert not {"torch", "cupy"} & set(sys.modules)


def test_the_emulator_has_none_yet() -> None:
    with pytest.raises(UsageError, match="emulator"):
        run.Programs("emulator")
