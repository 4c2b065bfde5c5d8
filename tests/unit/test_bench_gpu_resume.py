"""What pump-bench does not run on a GPU, as it is known, fails or comes too late: without one."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import cliffs, run  # noqa: E402
from pump.bench import cli  # noqa: E402
from pump.bench.machine import describe  # noqa: E402
from pump.bench.report import cell_of  # noqa: E402
from pump.bench.row import read_results, write_results  # noqa: E402
from pump.bench.runner import Asked  # noqa: E402
from tests.unit.bench_machine import GIB, MIB, Machine, asked  # noqa: E402

pytestmark = pytest.mark.unit


def test_what_is_known_is_not_run_again(machine: Machine) -> None:
    kept: list[list[str]] = []
    first = run.Programs().rows(
        asked("lstm", ["native", "um"], keep=lambda rows: kept.append([r.system for r in rows]))
    )
    assert kept == [["native"], ["native", "um"]]
    machine.asked.clear()
    again = run.Programs().rows(asked("lstm", ["native", "um", "vmm"], known=first))
    assert again[:2] == first
    assert [row.system for row in again] == ["native", "um", "vmm"]
    assert [env.get("ULMS_BACKEND") for _, env in machine.asked] == [None, "vmm"]


def test_why_runs_take_long_is_told_a_line_each(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.opaque = machine.untrusted = 0
    rows = run.Programs().rows(asked("vit-l", ["native", "vmm", "vmm-known", "offload"]))
    write_results(tmp_path / "a.json", {}, rows)
    (tmp_path / "large.ulms.gz").write_bytes(bytes(3 * MIB))
    capsys.readouterr()
    cliffs.main([str(tmp_path / "a.json"), str(tmp_path / "large.ulms.gz")])
    held, trace, _, native, vmm, offload = capsys.readouterr().out.splitlines()
    assert held == "vit-l 2 vmm: a kernel 1.5 ms for 2 MiB"
    assert trace == "large.ulms.gz: 3072 KiB, TOO LARGE"
    assert native.split() == ["vit-l", "1", "native", "3.0", "1.00"]
    assert vmm.split()[:5] == ["vit-l", "2", "vmm", "3.0", "1.00"]
    assert offload.endswith("failed with status 1: no memory left")


def test_a_machine_is_not_measured_again_for_the_same_systems(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[object] = []
    here = dict.fromkeys(("gpu", "driver", "commit"), "one")

    def describing(_: object, systems: object) -> dict[str, str]:
        described.append(systems)
        return here

    monkeypatch.setattr("pump.bench.machine.describe", lambda: here)
    monkeypatch.setattr(run.Programs, "machine", describing)
    words = ["run", "lstm", "--device", "gpu", "--limit", "60", "--quiet", "--resume"]
    words += ["--json", str(tmp_path / "a.json"), "--oversubscription"]
    assert cli.main([*words, "2", "--system", "native,um"]) == 0
    assert described
    described.clear()
    assert cli.main([*words, "2,3", "--system", "native,um"]) == 0
    assert described == []
    assert cli.main([*words, "2", "--system", "native,um,vmm"]) == 0
    assert described


def test_a_folder_of_results_is_known_but_for_what_others_wrote(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = {"gpu": "one"}
    monkeypatch.setattr(run.Programs, "machine", lambda *_: here)
    for system in ("um", "vmm"):
        rows = run.Programs().rows(asked("lstm", ["native", system]))
        write_results(tmp_path / f"{system}.json", here, rows)
    (tmp_path / "other.json").write_text("[]")
    command = ["run", "lstm", "--device", "gpu", "--oversubscription", "2", "--limit", "9"]
    command += [word for name in ("um", "vmm") for word in ("--system", name)]
    machine.asked.clear()
    assert cli.main([*command, "--elsewhere", str(tmp_path)]) == 0
    assert machine.asked == []
    (tmp_path / "um.json").write_text("[")
    assert cli.main([*command, "--elsewhere", str(tmp_path)]) == 2


def test_rounds_run_all_systems_in_turn_and_keep_every_step(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower = iter((1.0, 1.0, 5.0, 10.0, 100.0, 500.0))  # native, counted, um; native, um, vmm
    backends: list[str | None] = []

    def run_one(command: list[str], env: dict[str, str], **more: Any) -> Any:
        backends.append(env.get("ULMS_BACKEND"))
        done = machine.run(command, env, **more)
        told = json.loads(done.stdout.split("REPORT ")[1])
        scale = next(slower)
        told["step_ms"] = [ms * scale for ms in told["step_ms"]]
        done.stdout = "REPORT " + json.dumps(told) + "\n"
        done.returncode = int(len(backends) == 4)
        return done

    monkeypatch.setattr("bench.gpu.run.subprocess.run", run_one)
    kept: list[int] = []
    systems = ["native", "um", "vmm"]
    rows = run.Programs().rows(
        asked("lstm", systems, rounds=2, keep=lambda rows: kept.append(len(rows)))
    )
    assert backends == [None, "observe", "um", "vmm", None, "um"]
    assert kept == [1, 2, 3, 3, 3]
    native, um, vmm = rows
    assert native.step_ms == [2, 4, 200, 400]
    assert um.step_ms == [10, 20, 1000, 2000]
    assert (native.native_ms, um.native_ms) == (151.5, 151.5)
    assert um.bytes_in == 3 * 4 * MIB
    assert um.numbers_equal
    assert vmm.failed


def test_what_no_budget_changes_is_run_once(machine: Machine) -> None:
    wanted = Asked(["vit-l"], ["vmm", "zero-copy"], [2.0, 3.0], quiet=True)
    rows = run.Programs().rows(wanted)
    pairs = [(system, over) for over in (2, 3) for system in ("vmm", "zero-copy")]
    assert [row.run[2:] for row in rows] == pairs
    assert [row.capacity_bytes for row in rows] == [3 * GIB] * 2 + [2 * GIB] * 2
    assert len(machine.asked) == 2 + 3  # native, counted
    machine.asked.clear()
    wider = replace(wanted, ratios=[1.5, 2.0, 3.0])
    again = run.Programs().rows(replace(wider, known=rows))
    assert machine.asked[1:] == machine.asked[-1:]  # native, and vmm at 1.5
    assert [row.run[2:] for row in again[4:]] == [("vmm", 1.5), ("zero-copy", 1.5)]
    assert {row.capacity_bytes for row in again[4:]} == {4 * GIB}
    beside = run.Programs().rows(replace(wider, elsewhere=rows[1:2]))
    assert {row.system for row in beside} == {"vmm"}


def test_what_ran_out_of_memory_is_not_tried_with_less(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = Asked(["vit-l"], ["native", "offload", "save-on-cpu"], [2.0, 3.0, 1.5], quiet=True)
    machine.says = "torch.OutOfMemoryError: CUDA out of memory.\n"
    rows = run.Programs().rows(wanted)
    assert len(machine.asked) == 2 + 3 + 2  # offload at 2 and at 1.5
    path = tmp_path / "a.json"
    write_results(path, {"gpu": ""}, rows)
    told = read_results(path)
    assert told.every == [*told.rows, *told.failures]
    assert {row.system for row in told.rows} == {"native", "save-on-cpu"}
    assert [row.run[2:] for row in told.failures] == [("offload", over) for over in (2, 3, 1.5)]
    assert {cell_of(row) for row in told.failures} == {"no memory"}
    assert cell_of(replace(rows[1], failed="failed with status 1: no output")) == "failed"
    machine.asked.clear()
    assert run.Programs().rows(replace(wanted, known=rows)) == rows
    assert run.Programs().rows(replace(wanted, elsewhere=rows)) == []
    assert machine.asked == []
    assert cli.main(["bound", str(path)]) == 0
    assert capsys.readouterr().out.count("no memory") == 3


def test_what_other_results_have_is_not_run(machine: Machine) -> None:
    """But for a native run that the others are put beside; what it needs is known there."""
    there = run.Programs().rows(asked("lstm", ["native", "um"]))
    machine.asked.clear()
    rows = run.Programs().rows(asked("lstm", ["native", "um", "vmm"], elsewhere=there))
    assert [row.system for row in rows] == ["native", "vmm"]
    assert {row.footprint_bytes for row in rows} == {there[0].footprint_bytes}
    assert [env.get("ULMS_BACKEND") for _, env in machine.asked] == [None, "vmm"]
    machine.asked.clear()
    assert run.Programs().rows(asked("lstm", ["native", "um"], elsewhere=there)) == []
    assert machine.asked == []


def test_nothing_begins_when_the_time_is_up(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("bench.gpu.run.time.monotonic", lambda: next(clock))
    rows = run.Programs().rows(asked("lstm", ["native", "um", "vmm"], seconds=35.0))
    assert [row.system for row in rows] == ["native", "um"]
    assert "1 runs left: --resume goes on" in capsys.readouterr().err


def test_a_program_that_fails_by_itself_is_run_once(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.fails = True
    assert run.Programs().rows(asked("lstm", ["native", "um", "vmm"])) == []
    assert len(machine.asked) == 1
    assert "lstm vmm 2: left out: native failed" in capsys.readouterr().err


@pytest.mark.parametrize("fails", [True, False])
def test_the_status_says_whether_anything_ran(
    fails: bool,
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine.fails = fails
    monkeypatch.setattr(run.Programs, "machine", lambda *_: {"gpu": "none"})
    command = ["run", "lstm", "--device", "gpu", "--tiny", "--system", "native", "--limit", "60"]
    assert cli.main([*command, "--quiet"]) == fails
    assert ("none of these runs could be made" in capsys.readouterr().err) == fails


def test_another_machine_s_rows_are_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    write_results(path, describe() | {"gpu": "another"}, [])
    words = ["run", "lstm", "--device", "gpu", "--resume"]
    assert cli.main([*words, "--json", str(path)]) == 2
    assert "a.json is of another gpu: another" in capsys.readouterr().err
    assert cli.main(words) == 2
    assert "--resume needs --json" in capsys.readouterr().err
    assert cli.main(["run", "--device", "sim", "--tiny"]) == 2
    assert "--tiny is for --device gpu" in capsys.readouterr().err
    assert cli.main(["run", "--device", "sim", "--elsewhere", str(path)]) == 2
    assert "--elsewhere is for --device gpu" in capsys.readouterr().err
