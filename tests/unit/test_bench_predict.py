"""Measured steps beside predicted ones."""

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.gpu import calls, predict  # noqa: E402
from pump import paths  # noqa: E402
from pump.bench.row import FormatError, Row, write_results  # noqa: E402
from pump.sim.link import LINKS, UM  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from pump.sim.simulator import Pace  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_movers_have_contexts_where_a_machine_says_so() -> None:
    told = {"managed_in": "20 GB/s", "managed_out": "10 GB/s", "managed_place": "99 us"}
    one, apart = calls.managed_as(told), calls.managed_as(told | {calls.MOVERS: "30 GB/s"})
    assert (one.rate_in, one.rate_out, one.place.alone, one.movers) == (20, 10, 99_000, (1, 1))
    assert apart.under(held=False) == one
    assert (apart.rate_in, apart.place.alone) == (20, 99_000)
    assert (apart.rate_out, apart.rate_both) == (UM.rate_out, UM.rate_both)
    assert apart.movers == UM.movers


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
    assert step.trusted
    assert step.thread_ns(step.native_ns()) == 0
    slow = predict.play(step, 7029653504, "ahead", LINKS["vmm"], Pace(step.thread_ns(80e6)))
    assert slow.step_ms == pytest.approx(80.0, rel=0.01)
    alone = predict.play(step, 3514826752, "ahead", LINKS["vmm-known"])
    assert (known.ms, known.bytes_in) == (alone.step_ms, alone.bytes_in)
    assert known.mapped == (alone.came - alone.back) * LINKS["vmm"].page_bytes / alone.steps > 0
    assert (vmm.run.mapped, known.run.mapped) == (2e9, None)
    line = f"| resnet50 | 1/2 | vmm | 160.0 | {vmm.ms:.1f} | {vmm.ratio:.2f} |"
    assert line in predict.table([vmm])
    assert predict.natives([vmm]) == [
        "resnet50: where everything fits, 32.0 ms measured and 33.8 in the recorded step"
    ]


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
