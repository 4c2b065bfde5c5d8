"""What pump-bench starts on a GPU, without one: commands, budgets, what is read back."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import programs, run, sweep, workloads  # noqa: E402
from bench.gpu.counters import COUNTERS, COUNTERS_IN, COUNTERS_OUT, EXPLAIN  # noqa: E402
from bench.gpu.report import is_start_of, reason_in  # noqa: E402
from bench.gpu.workloads import offload  # noqa: E402
from pump.bench import cli  # noqa: E402
from pump.bench.report import cell_of  # noqa: E402
from pump.predict.systems import GPU, systems_on  # noqa: E402
from pump.terminal.command import UsageError  # noqa: E402
from tests.unit.bench_machine import GIB, MIB, Machine, asked  # noqa: E402

pytestmark = pytest.mark.unit

SYSTEMS = [system.name for system in systems_on(GPU)]


def test_every_system_gets_its_budget_and_its_row(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row.system: row for row in run.Programs().rows(asked("vit-l", SYSTEMS))}
    assert set(rows) == {*SYSTEMS}
    assert rows.pop("offload").failed == "failed with status 1: no memory left"
    assert "vit-l offload 2: failed with status 1: no memory left" in capsys.readouterr().err
    assert {row.capacity_bytes for row in rows.values()} == {3 * GIB, 6 * GIB}
    assert rows["native"].oversubscription == 1
    assert rows["vmm"].bytes_in == 3 * 4 * MIB
    assert rows["vmm"].faults == 2
    assert rows["save-on-cpu"].bytes_in is None
    assert [name for name, row in rows.items() if not row.numbers_equal] == ["checkpointing"]
    alone, counted, *others = [env for _, env in machine.asked]
    assert "LD_PRELOAD" not in alone
    assert (counted["ULMS_BACKEND"], counted.get("ULMS_GPU_MEMORY")) == ("observe", None)
    for env in others:
        factor = int(env["ULMS_GPU_MEMORY_FACTOR"]) if "ULMS_POLICY" in env else 100
        assert int(env["ULMS_GPU_MEMORY"]) * factor // 100 == 3 * GIB
    assert {(env["ULMS_BACKEND"], env["ULMS_MANAGED_LIMIT"]) for env in others} == {
        ("um", "8GiB"),
        ("vmm", str(12 * GIB)),
        ("observe", "8GiB"),
    }
    assert {(env["ULMS_BACKEND"], env.get("ULMS_POLICY")) for env in others} == {
        ("um", "none"),
        ("um", "pump"),
        ("um", "ahead"),
        ("vmm", "ahead"),
        ("vmm", None),
        ("observe", None),
    }
    assert [env["ULMS_BACKEND"] for env in others if "ULMS_HIDDEN" in env] == ["vmm"]
    factors = {(env["ULMS_BACKEND"], env.get("ULMS_GPU_MEMORY_FACTOR")) for env in others}
    assert factors == {("um", "90"), ("vmm", "90"), ("vmm", "0"), ("observe", None)}
    assert rows["zero-copy"].bytes_in is None
    assert rows["zero-copy"].gate_ms == 4 * MIB / 1e6
    assert rows["zero-copy"].own_ms is None
    assert rows["vmm"].counters == dict.fromkeys(EXPLAIN, 2 * 2 * MIB)
    assert {"in_place_bytes", "in_place_written_bytes"} <= rows["vmm"].counters.keys()
    assert len({*COUNTERS}) == len(COUNTERS)
    assert rows["native"].counters == rows["save-on-cpu"].counters == {}
    assert rows["vmm"].own_ms == 2 * 4 * MIB / 1e6
    assert rows["vmm"].held == {"a kernel": [1.5, 2.0]}


def test_a_system_that_can_do_nothing_else_is_not_run(machine: Machine) -> None:
    """Where no kernel could have used what nothing shows, `vmm-known` is `vmm`."""
    machine.opaque = 0
    run.Programs().rows(asked("lstm", ["vmm", "vmm-known"]))
    assert any("ULMS_HIDDEN" in env for _, env in machine.asked)
    machine.untrusted, machine.asked = 0, []
    rows = {row.system: row for row in run.Programs().rows(asked("lstm", ["vmm", "vmm-known"]))}
    assert rows["vmm-known"] == replace(rows["vmm"], system="vmm-known")
    assert not any("ULMS_HIDDEN" in env for _, env in machine.asked)


def test_frameworks_allocate_as_under_pump_run_where_memory_is_short(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {"jax": (0, 10, 2), "jax_cuda13_plugin": (0, 10, 2)}
    monkeypatch.setattr("pump.frameworks.distributions", lambda _: there)
    run.Programs().rows(asked("vit-l", ["native", "um", "offload"]))
    native, counted, um, offloaded = [env for _, env in machine.asked]
    for env, short in ((native, False), (counted, True), (um, True), (offloaded, False)):
        assert (env.get("XLA_PYTHON_CLIENT_ALLOCATOR") == "cuda_async") == short
        assert ("--xla_gpu_enable_command_buffer= " in env.get("XLA_FLAGS", "") + " ") == short


def test_too_much_for_managed_memory_is_left_out(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.charged = 8 * GIB
    rows = run.Programs().rows(asked("gpt2-xl", ["native", "um", "vmm"]))
    assert [row.system for row in rows] == ["native", "vmm"]
    assert "gpt2-xl um 2: left out: it needs 8192 MiB" in capsys.readouterr().err
    assert all(env.get("ULMS_BACKEND") != "um" for _, env in machine.asked)


@pytest.mark.parametrize("limit", ["", "9GiB", "much"])
def test_nothing_starts_without_a_limit(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setenv("ULMS_MANAGED_LIMIT", limit)
    with pytest.raises(UsageError, match="ULMS_MANAGED_LIMIT"):
        run.Programs().rows(asked("lstm", ["native"]))
    assert machine.asked == []


def test_without_its_framework_no_program_is_tried(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.gpu.run.find_spec", lambda _: None)
    assert cli.main(["run", "hash-join", "lstm", "--device", "gpu", "--tiny"]) == 2
    assert capsys.readouterr().err == "pump-bench: lstm needs PyTorch: pip install torch\n"
    assert run.Programs(tiny=True).rows(asked("hash-join", ["native"]))


def test_what_cannot_be_done_to_a_program_is_not_tried(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = ["save-on-cpu", "checkpointing"]
    rows = run.Programs().rows(asked("lstm", systems))
    assert [row.system for row in rows] == ["save-on-cpu"]
    assert "lstm checkpointing 2: left out" in capsys.readouterr().err
    assert len(machine.asked) == 3  # native, counted, save-on-cpu
    rows = run.Programs().rows(asked("decode-8b", ["checkpointing", "native"]))
    assert [row.system for row in rows] == ["native"]
    assert workloads.variants("decode-8b") == workloads.variants("prefill-8b")
    assert "offload" in workloads.variants("decode-8b")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "no output"),
        ("one\n  two \n\n", "  two"),
        ("[ulms] INFO: a\n[ulms] WARN: b\n[ulms] INFO: c\n", "[ulms] WARN: b"),
        (
            "[ulms] WARN: a\n[ulms] WARN: b\n[ulms] WARN: c\nTraceback (most recent call last):\n"
            "  raise ValueError\nValueError: first\nDuring handling\n"
            "torch.OutOfMemoryError: CUDA out of memory.\nFor debugging consider passing\n"
            "[ulms] ERROR: d\n[ulms] INFO: 3 allocations\n",
            "[ulms] WARN: b; [ulms] WARN: c; [ulms] ERROR: d;"
            " torch.OutOfMemoryError: CUDA out of memory.",
        ),
    ],
)
def test_a_failure_says_what_was_wrong(said: str, reason: str) -> None:
    assert reason_in(said) == reason


def test_what_takes_too_long_says_why(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def late(command: list[str], env: dict[str, str], timeout: float, **more: Any) -> Any:
        if env.get("ULMS_BACKEND") != "um":
            return machine.run(command, env, **more)
        raise subprocess.TimeoutExpired(command, timeout, stderr=b"[ulms] WARN: slow\n")

    monkeypatch.setattr("bench.gpu.run.subprocess.run", late)
    rows = run.Programs().rows(asked("lstm", ["um", "vmm"], patience=7.0))
    assert [(row.system, cell_of(row)) for row in rows] == [("um", "failed"), ("vmm", "3.0")]
    told = capsys.readouterr().err
    assert "lstm um 2: not done after 7 s: [ulms] WARN: slow" in told


def test_tiny_programs_run_on_the_cpu(machine: Machine) -> None:
    (row,) = run.Programs(tiny=True).rows(asked("lstm", ["um"]))
    assert row.device == "tiny"
    assert all(command[-3:] == ["--tiny", "--device", "cpu"] for command, _ in machine.asked)


def test_a_file_says_who_offloads(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = run.Programs(tiny=True)
    assert "offload" not in tiny.machine(["vmm"])
    monkeypatch.setattr(offload, "find_spec", lambda _: None)
    assert tiny.machine(["offload"])["offload"] == "plain PyTorch"
    monkeypatch.setattr(offload, "find_spec", lambda name: name)
    monkeypatch.setattr(offload, "version", lambda name: f"of {name}")
    assert tiny.machine(["offload"])["offload"] == "accelerate of accelerate"


def test_workloads_are_listed_without_their_frameworks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for framework in ("torch", "cupy", "jax", "accelerate"):
        monkeypatch.setitem(sys.modules, framework, None)  # nobody can import it
    assert cli.main(["list", "--device", "gpu"]) == 0
    told = capsys.readouterr().out
    listed = workloads.names()
    assert len(listed) == 26
    assert all(name in told and line in told for name, line in listed.items())


def test_without_a_command_it_runs_some_programs_where_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "best_device", lambda: GPU)
    args = cli.PROGRAM.parser().parse_args(cli.main_comparison())
    assert set(args.workloads) == set(cli.ON_GPU) < set(workloads.names())
    assert (args.device, args.oversubscription, args.plots) == (GPU, [2.0], cli.FOLDER)
    assert all(name in cli.PROGRAM.description for name in cli.ON_GPU)


def test_only_what_learns_is_warmed_up_for_long() -> None:
    warm = {system: run.warm_steps("resnet50", system) for system in SYSTEMS}
    long = {system for system, steps in warm.items() if steps == run.WARM}
    assert long == {"native", "um", "vmm", "vmm-known"}
    assert {*warm.values()} == {run.WARM, run.WARM_UNLEARNT}
    assert run.warm_steps("decode-3b", "native") == run.warm_steps("decode-3b", "um")
    assert run.warm_steps("decode-3b", "um") > run.WARM


def test_numbers_are_equal_to_the_last_bit_or_as_the_program_tells() -> None:
    numbers = ["0x1", "0x2", "0x3"]
    assert is_start_of(numbers[:2], numbers, 2, 0.0)
    assert not is_start_of(["0x1", "0x3"], numbers, 2, 0.0)
    assert not is_start_of(["0x1"], numbers, 2, 0.0)
    near = [(1.0).hex(), (2 * (1 + 1e-6)).hex()]
    assert is_start_of(near, numbers, 2, 1e-5)
    assert not is_start_of(near, numbers, 2, 1e-7)
    assert not is_start_of(["nan"], ["0x1"], 1, 1e-5)


def test_a_sweep_counts_what_moved_and_what_was_used_in_place() -> None:
    counters = dict.fromkeys((*COUNTERS_IN, *COUNTERS_OUT), 10**9)
    native = programs.Result(0, ["0x1p+0"], [1.0, 3.0])
    done = programs.Result(0, ["0x1p+0"], [100.0, 400.0], {"counters": counters})
    row = sweep.row("8MiB", native, done)
    assert (row["gb_s_in"], row["gb_s_out"], row["gb_s_both"]) == (6.0, 4.0, 10.0)
    assert (row["native_ms"], row["numbers_equal"]) == (2.0, True)
    done.numbers = ["0x1.8p+0"]
    assert not sweep.row("8MiB", native, done)["numbers_equal"]


class Levels:
    """In place of NVML: what is in use before a process, and while it runs."""

    def __init__(self, most: Callable[[dict[str, str]], int], env: dict[str, str]) -> None:
        self.before = GIB
        self._peak = GIB + most(env)

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def take_peak(self) -> int:
        return self._peak


def test_rows_tell_what_was_resident(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Natively the program has 400 MiB beside its data; ulms.so takes 300 for itself. NVML cannot
    judge managed memory.
    """

    def most(env: dict[str, str]) -> int:
        if env.get("SMALL"):
            return 400 * MIB + (32 + 300 if "ULMS_POLICY" in env else 64) * MIB
        if "ULMS_POLICY" not in env:
            return 6 * GIB + 400 * MIB
        return 3 * GIB + 700 * MIB + (GIB if env["ULMS_BACKEND"] == "vmm" else 0)

    def small(env: dict[str, str]) -> int:
        return Levels(most, env | {"SMALL": "1"}).take_peak() - GIB

    monkeypatch.setattr("bench.gpu.run.watcher", lambda env: Levels(most, env))
    monkeypatch.setattr("bench.gpu.run.peak_of_small", small)
    rows = {row.system: row for row in run.Programs().rows(asked("vit-l", ["native", "um", "vmm"]))}
    assert rows["um"].resident_bytes == 3 * GIB
    assert (rows["um"].over_budget, rows["um"].no_time) == (None, "")
    assert rows["um"].operation_bytes == 2 * 4 * MIB
    assert rows["vmm"].resident_bytes == 4 * GIB
    assert (rows["vmm"].over_budget, rows["vmm"].no_time) == (True, "(over)")
    assert rows["vmm"].operation_bytes == 2 * 4 * MIB
    assert rows["native"].over_budget is None


def test_without_nvml_nothing_is_recorded(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.gpu.run.watcher", lambda env: None)
    rows = run.Programs().rows(asked("vit-l", ["um"]))
    assert [(row.resident_bytes, row.over_budget) for row in rows] == [(None, None)]
