"""Bound and oracle beside rows that a GPU measured."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import workloads  # noqa: E402
from bench.gpu.workloads.sizes import PAIRS  # noqa: E402
from pump.bench import cli  # noqa: E402
from pump.bench.measured import (  # noqa: E402
    case_of,
    left_out,
    step_of,
    wires_of,
    with_yardsticks,
)
from pump.bench.row import Row, read_results, write_results  # noqa: E402
from pump.bench.steps import ELSEWHERE  # noqa: E402
from pump.paths import traces  # noqa: E402
from pump.predict.systems import EMULATOR, GPU  # noqa: E402
from pump.predict.yardstick import WIRES, bounded, sequence_at, yardstick  # noqa: E402
from pump.sim.hardware import GPUS, gpu_named  # noqa: E402
from pump.sizes import GIB  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

H200 = {"gpu": "NVIDIA H200"}
INTERVALS = 4
MEASURED = Row(
    workload="resnet50",
    device=GPU,
    system="vmm",
    oversubscription=2.0,
    capacity_bytes=7029653504 // 2,
    footprint_bytes=7029653504,
    step_ms=[185.0],
    native_ms=62.0,  # twice what its recorded step takes
)
WITHOUT = (
    replace(MEASURED, system="native"),
    replace(MEASURED, system="zero-copy"),
    replace(MEASURED, system="offload"),
    replace(MEASURED, device=EMULATOR),
    replace(MEASURED, device="tiny"),
    replace(MEASURED, footprint_bytes=2 * MEASURED.footprint_bytes),
    replace(MEASURED, workload="a program of mine"),
)


known_yardstick = cache(yardstick)


@pytest.fixture(autouse=True)
def each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests ask for the same ones."""
    monkeypatch.setattr("pump.bench.measured.yardstick", known_yardstick)


@pytest.fixture
def filled() -> list[Row]:
    """A row that can have a yardstick, and those that cannot."""
    return with_yardsticks([MEASURED, *WITHOUT], H200, INTERVALS)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", None),
        ("none", None),
        ("", None),
    ],
)
def test_gpus_are_known_by_the_driver_s_names(told: str, name: str | None) -> None:
    assert gpu_named(told) == (GPUS[name] if name else None)


def test_programs_have_recorded_steps() -> None:
    programs, recorded = set(workloads.names()), set(traces())
    assert programs >= set(ELSEWHERE) | recorded - set(ELSEWHERE.values())
    assert all(map(step_of, programs - set(PAIRS)))
    assert step_of("resnet50") == traces()["resnet50"]
    assert step_of("nothing") is None


def test_a_case_is_of_the_measured_machine() -> None:
    case = case_of(MEASURED, wires_of(GPUS["H200"], {}))
    assert case
    assert case.wires == WIRES
    assert case.pages == MEASURED.capacity_bytes // WIRES.page_bytes
    recorded = sequence_at(traces()["resnet50"]).native_ns()
    assert case.times * recorded == pytest.approx(MEASURED.native_ms * 1e6)
    slow = case_of(MEASURED, wires_of(GPUS["A100"], {}))
    assert slow
    assert slow.wires.rates(both=True)[0] == pytest.approx(WIRES.rates(both=True)[0] / 2)


def test_a_step_faster_than_any_schedule_was_over_its_budget() -> None:
    um = replace(MEASURED, system="um")
    bound = with_yardsticks([um], H200, INTERVALS)[0].bound_ms
    assert bound
    (slow, fast) = with_yardsticks(
        [replace(um, step_ms=[share * bound]) for share in (0.95, 0.85)], H200, INTERVALS
    )
    assert (slow.over_budget, fast.over_budget) == (None, True)
    assert fast.no_time


def test_a_link_is_as_fast_as_it_was_measured_to_be() -> None:
    told = H200 | {"link_in": "50.5 GB/s", "link_out": "49 GB/s", "link_both": "90.25 GB/s"}
    wires = wires_of(GPUS["H200"], told)
    assert (wires.rate_in, wires.rate_out, wires.rate_both) == (50.5, 49.0, 90.25)
    rates = (WIRES.rate_in, WIRES.rate_out, WIRES.rate_both)
    assert replace(wires, rate_in=rates[0], rate_out=rates[1], rate_both=rates[2]) == WIRES
    assert wires_of(GPUS["H200"], H200) == WIRES
    (slow,), (fast,) = (with_yardsticks([MEASURED], each, INTERVALS) for each in (told, H200))
    assert (slow.oracle_ms or 0) > (fast.oracle_ms or 0) > 0
    with pytest.raises(ValueError, match="fast"):
        wires_of(GPUS["H200"], {"link_in": "fast"})


def test_a_slower_link_and_slower_kernels_take_longer() -> None:
    def oracle_ms(row: Row, gpu: str) -> float:
        case = case_of(row, wires_of(GPUS[gpu], {}), intervals=0)
        assert case
        return known_yardstick(case).oracle_ms or 0

    here = oracle_ms(MEASURED, "H200")
    assert here > MEASURED.native_ms
    assert oracle_ms(MEASURED, "A100") > 1.5 * here
    assert oracle_ms(replace(MEASURED, native_ms=2 * here), "H200") > 1.9 * here


def test_rows_that_move_pages_of_known_steps_get_both(filled: list[Row]) -> None:
    row, *others = filled
    assert row.oracle_ms
    assert MEASURED.native_ms < row.oracle_ms < row.ms
    assert not bounded() or (row.bound_ms and MEASURED.native_ms < row.bound_ms <= row.oracle_ms)
    assert replace(row, bound_ms=None, oracle_ms=None) == MEASURED
    assert others == [*WITHOUT]


def test_what_a_file_has_is_worked_out_anew(filled: list[Row]) -> None:
    """Of the step as it is recorded now."""
    old = replace(MEASURED, oracle_ms=1.0, bound_ms=1.0)
    assert with_yardsticks([old], H200, INTERVALS) == filled[:1]


def test_of_other_gpus_nothing_is_known(filled: list[Row]) -> None:
    assert with_yardsticks([MEASURED], {"gpu": "another"}, INTERVALS) == [MEASURED]
    assert [*left_out([MEASURED], "another")] == [
        "no oracle, no bound: the link of another is not known (pump plan --hardware)"
    ]
    (line,) = left_out(filled, H200["gpu"])
    assert line.endswith("alike: resnet50, a program of mine")  # the first needs other memory
    assert not [*left_out(filled[:5], H200["gpu"])]
    large = replace(MEASURED, workload="one with a large operation", bound_ms=1.0)
    (line,) = left_out([large], H200["gpu"])
    assert line == "no oracle where one operation touches more than there is: " + large.workload


def test_the_command_fills_rows_and_keeps_their_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "a.json", tmp_path / "b.json"
    row = replace(MEASURED, capacity_bytes=6 * GIB)
    write_results(path, {**H200, "driver": "1"}, [row])
    words = ["bound", str(path), "--intervals", str(INTERVALS), "--json", str(out)]
    assert cli.main(words) == 0
    told = capsys.readouterr().out
    found = read_results(out)
    assert found.machine == {**H200, "driver": "1"}
    (one,) = found.rows
    assert one.oracle_ms
    assert f"{one.oracle_ms:.1f}" in told
    assert cli.main(["compare", str(path), str(out)]) == 0
    told = capsys.readouterr().out
    if one.bound_ms:
        assert f"{one.bound_ms:.2f}" in told
        assert f"vmm: 1.000 times as long, now {one.ms / one.bound_ms:.2f} of the bound" in told


def test_results_of_several_machines_make_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each over its own link."""
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    rows = [replace(MEASURED, capacity_bytes=3 * GIB, oversubscription=over) for over in (1.5, 2.0)]
    for path, row, rate in zip(files, rows, ("60 GB/s", "30 GB/s"), strict=True):
        machine = {**H200, "link_in": rate, "link_out": rate, "link_both": rate}
        write_results(path, machine, [row])
    words = ["bound", *map(str, files), "--intervals", str(INTERVALS)]
    asked = cli.PROGRAM.parser().parse_args(words)
    (found,) = cli.Bound().run(asked).values()
    first, second = found.rows
    assert first.oracle_ms
    assert second.oracle_ms
    assert second.oracle_ms > 1.5 * first.oracle_ms
    assert cli.main(words) == 0
    assert f"{second.oracle_ms:.1f}" in capsys.readouterr().out
    assert cli.main([*words, "--json", str(tmp_path / "c.json")]) == 2
    assert "--json is for the rows of one machine" in capsys.readouterr().err


def test_a_run_that_several_files_have_is_shown_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a table a file. A native run in both is no reason for that."""
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    native = replace(MEASURED, system="native")
    other = replace(MEASURED, system="offload", step_ms=[], failed="no memory left")
    rows = [[native, MEASURED, other], [native, replace(MEASURED, step_ms=[217.0])]]
    for path, some in zip(files, rows, strict=True):
        write_results(path, H200, some)
    words = ["bound", *map(str, files), "--intervals", "0"]
    assert cli.main(words) == 0
    first, second = capsys.readouterr().out.split(f"{files[1]}:\n")
    assert first.startswith(f"{files[0]}:\n")
    assert ("185.0" in first, "217.0" in first) == (True, False)
    assert ("185.0" in second, "217.0" in second) == (False, True)
    assert ("offload" in first, "offload" in second) == (True, False)
    assert cli.main([*words, "--plots", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.endswith("--plots shows a run once: resnet50 vmm 2 is in several files\n")
    write_results(files[1], H200, [native, replace(MEASURED, system="um", step_ms=[217.0])])
    assert cli.main(words) == 0
    told = capsys.readouterr().out
    assert told.count("milliseconds a step") == 1
    assert "185.0" in told
    assert "217.0" in told
    write_results(files[1], H200, [replace(other, step_ms=[217.0], failed="")])
    assert cli.main(words) == 0
    assert capsys.readouterr().out.count("milliseconds a step") == 2


def test_a_run_fills_its_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = H200 | {"driver": H200["gpu"], "commit": "here"}
    monkeypatch.setattr("pump.bench.machine.describe", lambda: here)

    class Programs:
        def names(self) -> list[str]:
            return ["resnet50"]

        def workloads(self) -> dict[str, str]:
            return {"resnet50": ""}

        def machine(self, systems: list[str]) -> dict[str, str]:
            return here | {"for": " ".join(systems)}

        def rows(self, asked: object) -> list[Row]:
            return [replace(MEASURED, capacity_bytes=6 * GIB)]

    monkeypatch.setattr("pump.bench.run.runner", lambda *_: Programs())
    monkeypatch.setattr("pump.bench.machine.query_gpu", lambda field: H200["gpu"])
    words = ["run", "--device", "gpu", "--intervals", str(INTERVALS)]
    words += ["--system", "native", "--system", "um"]
    for more, has in ([], True), (["--limit", "60"], False), (["--resume"], True):
        out = tmp_path / "a.json"
        assert cli.main([*words, *more, "--json", str(out)]) == 0
        written = read_results(out)
        assert written.machine == here | {"for": "native um" + " vmm" * ("--resume" in more)}
        assert bool(written.rows[0].oracle_ms) == has
        assert ("not worked out: `pump-bench bound FILE` does" in capsys.readouterr().out) != has
