"""Measured steps beside predicted ones."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import calls, predict, summed  # noqa: E402
from pump import paths  # noqa: E402
from pump.bench.row import FormatError, Row, write_results  # noqa: E402
from pump.sim.link import LINKS, UM, UM_ONE  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from pump.sim.simulator import Pace  # noqa: E402

pytestmark = pytest.mark.unit


def measured(**more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "budget": "1/2",
        "budget_bytes": 3514826752,
        "policy": "none",
        "status": 0,
    }
    row |= {"step_ms": [600.0, 610.0, 620.0], **more}
    program = {"program": "resnet", "footprint": 7029653504, "native_ms": [32.0], "rows": [row]}
    return {"programs": [program, program | {"program": "other"}]}


def test_calls_are_added_up() -> None:
    """A GB each way at 40 and 10 GB/s; 100 dead pages that leave and come, 20 and 10 us each."""
    sizes = {"capacity_bytes": 1 << 30, "footprint_bytes": 2 << 30, "oversubscription": 2.0}
    common: dict[str, Any] = {"workload": "w", "device": "gpu", "native_ms": 1.0, **sizes}
    moved = {"bytes_in": 1e9, "bytes_out": 1e9, "counters": {"dead_bytes": 200 * 2.0**21}}
    told: list[dict[str, Any]] = [
        {"system": "um", "step_ms": [150.0], **moved},
        {"system": "um-demand", "step_ms": [500.0]},
        {"system": "vmm", "step_ms": [50.0], **moved},
    ]
    rows = [Row(**common, **each) for each in told]
    machine = {"managed_in": "40 GB/s", "managed_out": "10 GB/s"}
    machine |= {"managed_place": "10 us", "managed_discard": "20 us"}
    (found,) = summed.summed(rows, machine)
    assert (found.live, found.dead, found.demand) == pytest.approx((125, 3, 500))
    assert found.cells() == ("w", "2", "150.0", "128.0", "125.0", "4.00")
    with pytest.raises(FormatError, match="managed_out"):
        summed.summed(rows, {"managed_in": "40 GB/s"})


def test_what_was_measured_is_predicted() -> None:
    """On the H200, with what calls took on that machine: but faults, whose rate no call tells, and
    which were faster there than on others, by as much in each run.
    """
    left_out: list[str] = []
    machine, kept = predict.read_measured(predict.RESULT)
    assert machine["gpu"] == "NVIDIA H200"
    path = predict.RESULT.with_name("h200-calls.json")
    seen = json.loads(path.read_text(encoding="utf-8"))["measurements"]
    link = calls.managed_as(calls.figures(seen))
    assert UM_ONE.rate_out < link.rate_out < link.rate_in
    assert (link.rate_fault, calls.managed_as({})) == (UM.rate_fault, UM_ONE)
    rows = list(predict.predictions(kept, {}, LINKS | {"um": link}, left_out))
    known = {(row.run.budget, row.run.policy): row for row in rows}
    assert all(
        row.near for (budget, policy), row in known.items() if policy == "pump" or budget == "1"
    )
    assert known["2/3", "ahead"].near
    assert known["1/2", "ahead"].near
    for budget in ("2/3", "1/2", "1/3"):
        assert known[budget, "none"].ratio == pytest.approx(1.19, abs=0.02)
        ours = known[budget, "ahead"]
        assert ours.bytes_in == pytest.approx(ours.run.bytes_in, rel=0.05)
    assert left_out == ["gpt2-half"]


def test_movers_have_contexts_where_a_machine_says_so() -> None:
    told = {"managed_in": "20 GB/s", "managed_out": "10 GB/s", "managed_place": "99 us"}
    one, apart = calls.managed_as(told), calls.managed_as(told | {calls.MOVERS: "30 GB/s"})
    assert (one.rate_in, one.rate_out, one.place.alone, one.movers) == (20, 10, 99_000, (1, 1))
    assert apart.under(held=False) == one
    assert (apart.rate_in, apart.place.alone) == (20, 99_000)
    assert (apart.rate_out, apart.rate_both) == (UM.rate_out, UM.rate_both)
    assert apart.movers == UM.movers


def test_a_prediction_has_its_line() -> None:
    left_out: list[str] = []
    counters = {"filled_bytes": 6_000_000_000, "faulted_bytes": 3_000_000_000}
    told = predict.of_policies(measured(counters=counters, step_ms=[890.0, 900.0, 910.0]))
    (row,) = predict.predictions(told, {}, LINKS, left_out)
    assert (row.run.ms, row.run.bytes_in) == (900, 3e9)
    assert row.bytes_in > 8e9
    line = f"| um | none | 900.0 | {row.ms:.1f} | {row.ratio:.2f} | yes | 3.00 |"
    assert line in predict.markdown([row])
    assert "1 of 1 within 15 %" in predict.summary([row])
    assert predict.natives([row]) == [
        "resnet: where everything fits, 32.0 ms measured and 31.1 in the recorded step"
    ]
    assert left_out == ["other"]


def test_runs_that_failed_are_left_out() -> None:
    failed: list[dict[str, Any]] = [{"status": 1}, {"step_ms": []}]
    for more in failed:
        assert list(predict.of_policies(measured(**more))) == []


def benched(system: str, **more: Any) -> Row:
    given: dict[str, Any] = {
        "workload": "resnet50",
        "device": "gpu",
        "oversubscription": 2.0,
        "capacity_bytes": 3514826752,
        "footprint_bytes": 7029653504,
        "step_ms": [150.0, 170.0, 160.0],
        "native_ms": 32.0,
        "bytes_in": 2.8e9,
    }
    return Row(**(given | {"system": system} | more))


def test_what_pump_bench_measured_is_predicted_over_its_systems_links(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    rows = [
        benched("native"),
        benched("vmm", counters={"mapped_bytes": 2e9}),
        benched("vmm-known"),
        benched("zero-copy"),
    ]
    rows += [benched("um", device="sim"), benched("vmm", workload="mine")]
    write_results(path, {"gpu": "a GPU", "commit": "0"}, rows)
    machine, kept = predict.read_measured(path)
    left_out: list[str] = []
    vmm, known = predict.predictions(kept, {}, LINKS, left_out)
    assert machine["gpu"] == "a GPU"
    assert left_out == ["mine"]
    assert (vmm.run.link, known.run.link) == ("vmm", "vmm-known")
    assert (vmm.run.ms, vmm.run.budget) == (160, "1/2")
    assert known.ms == vmm.ms
    step = open_sequence(paths.traces()["resnet50"])
    assert step.vouched
    assert step.thread_ns(step.native_ns()) == 0
    slow = predict.play(step, 7029653504, "ahead", LINKS["vmm"], Pace(step.thread_ns(80e6)))
    assert slow.step_ms == pytest.approx(80.0, rel=0.01)
    alone = predict.play(step, 3514826752, "ahead", LINKS["vmm-known"])
    assert (known.ms, known.bytes_in) == (alone.step_ms, alone.bytes_in)
    assert known.mapped == (alone.came - alone.back) * LINKS["vmm"].page_bytes / alone.steps > 0
    assert (vmm.run.mapped, known.run.mapped) == (2e9, None)
    assert f"| 2.80 | {vmm.bytes_in / 1e9:.2f} | 2.00 | " in predict.markdown([vmm, known])
    assert "mapped" not in predict.markdown([known])
    others = tmp_path / "others.txt"
    text = paths.traces()["resnet"].read_text(encoding="utf-8")
    others.write_text(text.replace("vouched\n", ""), encoding="utf-8")
    mapped, _ = predict.predictions(kept, {"resnet50": others}, LINKS, left_out)
    other = open_sequence(others)
    assert mapped.ms == predict.play(other, 3514826752, "ahead", LINKS["vmm"]).step_ms
    assert known.ms < 0.8 * mapped.ms


def test_a_program_that_pauses_between_steps_takes_longer(tmp_path: Path) -> None:
    path = tmp_path / "pause.json"
    path.write_text('{"program": "resnet50", "pause_ms": [9, 5, 4]}', encoding="utf-8")
    name, pause_ns = predict.pause_of(path)
    assert (name, pause_ns) == ("resnet50", 5e6)
    kept = list(predict.of_bench([benched("vmm")]))
    (quick,) = predict.predictions(kept, {}, LINKS, [])
    (pausing,) = predict.predictions(kept, {}, LINKS, [], {name: pause_ns})
    (other,) = predict.predictions(kept, {}, LINKS, [], {"another": pause_ns})
    assert other.ms == quick.ms
    assert pausing.ms > quick.ms + 1
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(FormatError, match="holds no pauses"):
        predict.pause_of(path)


def test_of_several_files_it_is_counted_what_was_near(tmp_path: Path) -> None:
    machine = {"gpu": "NVIDIA H200", "commit": "0123456789"}
    near, far, other = (tmp_path / name for name in ("near.json", "far.json", "other.json"))
    write_results(near, machine, [benched("vmm", step_ms=[107.0]), benched("vmm-known")])
    write_results(far, machine, [benched("um", step_ms=[1000.0])])
    other.write_text("{}", encoding="utf-8")
    assert list(predict.overview([near, other, far], {}))[1:] == [
        "| near.json | H200 | 0123456 | 1 of 2 |  |",
        "| far.json | H200 | 0123456 |  | 0 of 1 |",
        "| all | | | 1 of 2 | 0 of 1 |",
    ]


def test_what_holds_no_step_times_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("no JSON", "[]", "{}"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(FormatError, match=r"a.json"):
            predict.read_measured(path)
