"""pump-bench: rows, their file, and pictures."""

import io
import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump import paths  # noqa: E402
from pump.bench import pictures, plots, report, resident, simulate  # noqa: E402
from pump.bench.pictures import Watch  # noqa: E402
from pump.bench.row import (  # noqa: E402
    FormatError,
    Row,
    pooled,
    read_results,
    write_results,
)
from pump.bench.timeline import (  # noqa: E402
    DEVICE,
    LANES,
    Level,
    Timeline,
    joined,
    record,
    thinned,
    write_timeline,
)
from pump.predict.plots import COLOURS  # noqa: E402
from pump.predict.systems import (  # noqa: E402
    BY_NAME,
    DEVICES,
    GPU,
    OVER,
    SIM,
    SYSTEMS,
    systems_on,
)
from pump.predict.yardstick import Case, bounded, yardstick  # noqa: E402
from pump.sim.engine import READ, UPDATE, WRITE, Touch  # noqa: E402
from pump.sim.link import LINKS, UM, VMM  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from pump.sim.result import Result  # noqa: E402
from pump.sim.sequence import Block, Operation, Sequence  # noqa: E402
from pump.sim.simulator import settings_for  # noqa: E402
from pump.sizes import GIB, MIB  # noqa: E402
from pump.terminal.render import console  # noqa: E402
from tests.unit.bench_row import row  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

SIMULATED = [system.name for system in systems_on(SIM)]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """All systems on one recorded step at twice its memory."""
    return simulate.rows_of([paths.traces()["resnet50"]], SIMULATED, [2.0], intervals=10, workers=1)


@pytest.fixture(scope="module")
def played() -> tuple[Result, Timeline]:
    """A step that was watched."""
    sequence = open_sequence(paths.traces()["resnet50"])
    pages = simulate.budget_pages(sequence, VMM, 2.0)
    return record(sequence, VMM, settings_for(VMM, "ahead", pages * VMM.page_bytes))


# --- rows ---


def test_each_system_has_its_row(rows: list[Row]) -> None:
    assert [one.system for one in rows] == SIMULATED
    for one in rows:
        assert one.ms >= one.native_ms
        assert one.capacity_bytes == one.footprint_bytes or one.system != "native"
        assert one.capacity_bytes * 2 <= one.footprint_bytes or one.system == "native"


def test_the_yardsticks_are_below_what_they_measure(rows: list[Row]) -> None:
    measured = [one for one in rows if BY_NAME[one.system].link]
    ours = {"um", "vmm", "vmm-known"}
    assert {one.system for one in measured} == ours | {"um-demand", "um-pump", "oracle"}
    for one in measured:
        assert one.oracle_ms
        assert one.oracle_ms <= one.ms * (1 + 1e-9)
        assert one.bound_ms is None or one.native_ms < one.bound_ms <= one.oracle_ms
    assert len({one.oracle_ms for one in measured}) == 1


def test_only_faults_alone_fault_and_what_waits_is_held(rows: list[Row]) -> None:
    by_system = {one.system: one for one in rows}
    assert [name for name, one in by_system.items() if one.faults] == ["um-demand"]
    for name in ("um", "vmm", "vmm-known"):
        one = by_system[name]
        assert one.gate_ms == pytest.approx(one.ms - one.native_ms, rel=0.05)


def test_the_same_rows_every_time_also_with_more_processes(rows: list[Row]) -> None:
    path, some = paths.traces()["resnet50"], [rows[0], rows[-1]]
    names = [one.system for one in some]
    assert simulate.rows_of([path], names, [2.0], intervals=10, workers=2) == some


def test_in_place_every_byte_goes_over_the_link() -> None:
    size = 51_000_000
    touches = tuple(Touch(i * size, size, mode) for i, mode in enumerate((READ, WRITE, UPDATE)))
    step = (
        Operation(1, 1000, touches[:1]),
        Operation(2, 5_000_000, touches[:2]),
        Operation(3, 1000, touches[2:]),
    )
    ns, bytes_in, bytes_out = simulate.in_place(Sequence((Block(0, 3 * size),), (step,)))
    assert ns == pytest.approx(1e6 + 5e6 + size / 42)
    assert (bytes_in, bytes_out) == (3 * size, 2 * size)


def test_what_is_not_simulated_is_refused() -> None:
    path = paths.traces()["resnet50"]
    with pytest.raises(ValueError, match="not simulated"):
        simulate.simulate(path, "resnet50", "offload", VMM, 2.0)


def test_what_a_kernel_needs_beyond_the_budget_is_told() -> None:
    """The hash join's largest operation touches more than half of what it needs."""
    path = paths.traces()["hash-join"]
    over = {
        (system, ratio): simulate.simulate(path, "hash-join", system, LINKS[system], ratio)
        for system, ratio in (("um", 1.5), ("um", 2.0), ("vmm", 2.0))
    }
    assert [one.over_budget for one in over.values()] == [False, True, False]


def test_an_operation_larger_than_the_budget_has_a_bound_and_no_oracle() -> None:
    small = yardstick(Case(paths.traces()["resnet50"], 3, 4))
    assert small.oracle is None
    assert small.oracle_ms is None
    assert not bounded() or small.bound_ms


def test_systems_name_links_and_devices_that_there_are() -> None:
    assert len(BY_NAME) == len(SYSTEMS)
    for system in SYSTEMS:
        assert system.link in ("", *LINKS)
        assert set(system.devices) <= set(DEVICES)
        moves = bool(system.policy)
        assert moves == (system.link != "" and system.name != "oracle")
        assert not moves or system.link.startswith(system.env["ULMS_BACKEND"])


# --- the file ---


def test_results_are_read_as_they_were_written(rows: list[Row], tmp_path: Path) -> None:
    write_results(tmp_path / "a.json", {"gpu": "none"}, rows)
    read = read_results(tmp_path / "a.json")
    assert (read.machine, read.rows) == ({"gpu": "none"}, rows)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is no JSON"),
        ("[]", "does not say what it is"),
        ('{"rows": []}', "does not say what it is"),
        ('{"format": "x"}', "says that it is `x`"),
        ('{"format": "pump-bench 1", "machine": {}, "rows": [{}]}', "rows that cannot be read"),
    ],
)
def test_other_files_are_refused(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError) as told:
        read_results(tmp_path / "bad.json")
    assert str(told.value).startswith(str(tmp_path / "bad.json"))
    assert why in str(told.value)
    assert "what `pump-bench run --json` writes is wanted" in str(told.value)


def test_rows_of_old_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_results(path, {}, [row("um", 1)])
    told = json.loads(path.read_text(encoding="utf-8"))
    for name in ("over_budget", "resident_bytes", "operation_bytes"):
        del told["rows"][0][name]
    path.write_text(json.dumps(told), encoding="utf-8")
    assert read_results(path).rows == [row("um", 1)]


# --- pictures ---


def test_a_timeline_is_a_step(played: tuple[Result, Timeline]) -> None:
    result, timeline = played
    for thread in (DEVICE, *LANES):
        spans = sorted((s.begin_ns, s.end_ns) for s in timeline.spans if s.thread == thread)
        assert all(a[1] <= b[0] + 1 for a, b in pairwise(spans))
        assert spans[-1][1] <= result.steps_ns[-1] + 1
    for lane, moved in zip(LANES, (result.bytes_in, result.bytes_out), strict=True):
        assert sum(s.bytes for s in timeline.spans if s.thread == lane) == pytest.approx(
            moved, rel=0.05
        )
    levels = timeline.levels
    assert result.steps_ns[-1] != pytest.approx(result.steps_ns[0])
    assert levels[-1].ns == pytest.approx(result.steps_ns[-1])
    assert max(one.live + one.dead for one in levels) <= timeline.budget
    assert max(one.live + one.dead for one in levels) > 0.95 * timeline.budget
    assert max(one.live + one.away for one in levels) > 1.5 * timeline.budget
    assert [one.ns for one in levels] == sorted(one.ns for one in levels)


def test_a_timeline_opens_in_a_viewer(played: tuple[Result, Timeline], tmp_path: Path) -> None:
    write_timeline(tmp_path / "t.json", played[1], "a run")
    events = json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "C"}
    named = {e["args"]["name"] for e in events if e["ph"] == "M"}
    assert named == {"a run", "device", "lane in", "lane out"}
    assert sum(e["ph"] == "X" for e in events) == len(played[1].spans)


def test_pictures_are_written(rows: list[Row], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    told = pictures.draw(rows, [Watch("resnet50", "vmm", 2.0)], tmp_path / "new", "png")
    names = {"step-time.png", "bytes.png", "residency.png", "timeline-resnet50.json"}
    assert {path.name for path in (tmp_path / "new").iterdir()} == names
    assert all(name in told for name in names)
    for path in (tmp_path / "new").glob("*.png"):
        data = path.read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) > 10_000  # an empty figure of this size has a third of it


def test_a_picture_as_text_is_the_same_each_time(rows: list[Row], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, again = tmp_path / "first", tmp_path / "again"
    for folder in (first, again):
        assert str(folder / "bytes.svg") in pictures.draw(rows, [], folder, "svg")
    names = {"step-time.svg", "bytes.svg"}
    assert {path.name for path in first.iterdir()} == names
    for name in names:
        text = (first / name).read_bytes()
        assert text.startswith(b"<?xml")
        assert text == (again / name).read_bytes()


def test_pictures_of_many_workloads_have_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    many = [row("vmm", 5, workload=f"w{i}", bytes_in=1, bytes_out=1) for i in range(5)]
    sizes = []
    for shown in (many[:4], many):
        pictures.draw(shown, [], tmp_path, "png")
        data = (tmp_path / "step-time.png").read_bytes()
        sizes.append((int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")))
    assert sizes[0][0] == sizes[1][0]
    assert 2 * sizes[0][1] == sizes[1][1]


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are drawn, in place of their files."""
    pytest.importorskip("matplotlib")
    figures: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: figures.append(figure))
    return figures


def test_workloads_beside_each_other_share_an_axis_and_say_their_times(
    kept: list[Any], tmp_path: Path
) -> None:
    rows = [row("um", 5 * 10**i, workload=f"w{i}", native_ms=10.0**i) for i in range(5)]
    plots.plot_times(rows, tmp_path / "x.png")
    axes = [axis for axis in kept[0].axes if axis.get_visible()]
    limits = [axis.get_ylim() for axis in axes]
    assert limits[:4] == [limits[0]] * 4
    assert limits[4] != limits[0]
    assert limits[0][0] < 1
    assert limits[0][1] > 5000
    assert [axis.texts[0].get_text() for axis in axes] == ["5.0", "50", "500", "5000", "50000"]


def test_a_legend_lies_within_its_picture(kept: list[Any], tmp_path: Path) -> None:
    rows = [row(name, 5, bound_ms=2.0) for name in COLOURS]
    for workloads in (1, 2, 4):
        every = [replace(one, workload=f"w{i}") for i in range(workloads) for one in rows]
        plots.plot_times(every, tmp_path / "x.png")
        kept[-1].canvas.draw()
        legend = kept[-1].legends[0].get_window_extent()
        assert 0 <= legend.x0 < legend.x1 <= kept[-1].bbox.width


def test_a_picture_says_why_there_is_no_bar(kept: list[Any], tmp_path: Path) -> None:
    rows = [row("um", 5), row("vmm", 4, numbers_equal=False)]
    for over, failed in ((1.5, "OutOfMemory"), (3.0, "x"), (4.0, "")):
        why = {"failed": failed, "step_ms": [5.0] * (not failed), "over_budget": not failed}
        rows += [row(system, 5, oversubscription=over, **why) for system in ("um", "vmm")]
    for shown in (rows[:1], rows[:2], rows, rows[1:]):
        plots.plot_times(plots.with_times(shown), tmp_path / "x.png")
    texts = [[text.get_text() for text in figure.axes[0].texts] for figure in kept]
    told = ["no memory", "failed", "over budget"]
    assert texts[2] == [told[0], "5.0", *told[1:], told[0], "4.0", *told[1:]]
    assert [[p.get_hatch() for p in f.axes[0].patches] for f in kept[:2]] == [
        [None],
        [None, plots.DIFFERENT],
    ]
    signs = ("numbers differ", "no bar: not measured")
    legends = [[t.get_text() for t in figure.legends[0].get_texts()] for figure in kept]
    assert [[sign in legend for sign in signs] for legend in legends] == [
        [False, False],
        [True, False],
        [True, False],
        [True, True],
    ]


def test_a_picture_over_time_has_no_more_than_it_shows() -> None:
    levels = [Level(float(ns), ns % 7, ns % 3, 9) for ns in range(5000, 15001)]
    few = thinned(levels, 100)
    assert 100 <= len(few) <= 101
    assert few == sorted(few)
    assert (few[0].ns // 100, few[-1]) == (50, levels[-1])
    assert {level.live + level.dead for level in few[:-1]} == {8}
    assert thinned(levels[:1], 100) == levels[:1]
    spans = [(0.0, 1.0), (9.0, 9.5), (1.5, 3.0), (2.0, 2.5), (3.6, 4.0)]
    assert joined(spans, 0.5) == [(0, 3), (3.6, 4), (9, 9.5)]
    assert joined(spans, 5.0) == [(0, 9.5)]


def test_a_system_that_is_another_one_is_not_shown() -> None:
    rows = [row("um", 9), row("vmm", 5), row("vmm-known", 5), row("vmm", 7, oversubscription=3.0)]
    assert report.without_twin(rows) == [*rows[:2], rows[3]]
    rows += [row("vmm-known", 6, oversubscription=3.0)]
    assert report.without_twin(rows) == rows
    assert report.without_twin(rows[2:3]) == rows[2:3]


def test_residency_is_of_what_was_run() -> None:
    ours = [row(name, 5, oversubscription=over) for name in ("um", "vmm") for over in (1.5, 3.0)]
    rows = [row("native", 1, oversubscription=1.0), row("um-demand", 9), *ours]
    found = pictures.watched(rows, ["um", "vmm", "um-demand"])
    assert found == [Watch("w", "um", 1.5), Watch("w", "vmm", 1.5)]
    assert pictures.watched(rows[:-1], ["vmm"]) == [Watch("w", "vmm", 1.5)]
    assert pictures.watched([row("vmm", 5, oversubscription=3.0)], ["vmm"])[0].over == 3
    assert pictures.watched([*rows, row("vmm", 5)], None) == [Watch("w", "vmm", 2.0)]
    assert pictures.watched(rows, ["um-demand"]) == []


def test_residency_says_system_and_memory() -> None:
    for system, page in (("um", UM.page_bytes), ("vmm", VMM.page_bytes)):
        told, timeline = pictures.watch(Watch("resnet50", system, 4.0))
        assert told.endswith(f"), {system}")
        assert "25% of the memory" in told
        assert timeline.page_bytes == page
        assert timeline.budget <= 6.6 * GIB / 4


@pytest.mark.parametrize(
    ("shown", "drawn"),
    [
        ([row("um", 5), row("native", 1)], {"step-time.png"}),  # nobody counted bytes
        ([row("um", 5, bytes_in=1, bytes_out=0), row("vmm", 4)], {"step-time.png", "bytes.png"}),
        ([row("offload", 5, bytes_in=None)], {"step-time.png"}),
        ([row("native", 1), row("oracle", 2)], set()),
        ([], set()),
    ],
)
def test_what_cannot_be_shown_is_left_out(
    shown: list[Row], drawn: set[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    told = pictures.draw(shown, [], tmp_path, "png")
    assert {path.name for path in tmp_path.iterdir()} == drawn
    assert all(name in told for name in drawn)
    assert drawn or told == "no pictures: there is nothing to show"


def test_what_is_missing_is_installed_from_where_it_is(
    rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry's package of our name is somebody else's."""
    monkeypatch.setattr(pictures, "can_plot", lambda: False)
    told = pictures.draw(rows, [], tmp_path, "png")
    assert told == "no pictures: they need matplotlib (pip install matplotlib scipy)"
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "pump").rglob("*.py")]
    assert not any("pump[bench]" in text for text in texts)


# --- budgets that were kept, or not ---


def test_a_row_is_refused_that_had_more_resident_than_its_budget_and_an_operation() -> None:
    measured = row("um", 5, device=GPU, capacity_bytes=GIB)
    operation = GIB // 8
    for beyond, over in ((-GIB, False), (0, False), (1, True)):
        judged = resident.judged(measured, GIB + operation + resident.BESIDE + beyond, operation)
        assert judged.over_budget is over
        assert judged.no_time == (OVER if over else "")
        assert judged.operation_bytes == operation
    assert resident.judged(measured, -5, 0).resident_bytes == 0


def test_what_was_resident_has_a_table() -> None:
    old = row("um", 5, device=GPU)
    rows = [
        row("native", 1, device=GPU),
        old,
        resident.judged(replace(old, system="vmm", capacity_bytes=GIB), GIB, MIB),
        resident.judged(replace(old, system="um-demand", capacity_bytes=GIB), 2 * GIB, MIB),
    ]
    out = io.StringIO()
    console(out).print(report.resident_table(rows))
    lines = out.getvalue().splitlines()
    told = {line.split()[1]: line for line in lines if line.split()[:1] == ["w"]}
    assert told.keys() == {"um", "vmm", "um-demand"}
    assert told["um"].count("not recorded") == 2
    assert "1.0 GiB" in told["vmm"]
    assert "refused" not in told["vmm"]
    assert told["um-demand"].split()[-1] == "refused"
    assert report.resident_table([row("um", 5)]) is None
    (line,) = report.not_counted(rows)
    assert line.startswith("um-demand had more resident than its budget")


def test_processes_of_a_run_have_one_peak() -> None:
    one = resident.judged(row("um", 5, device=GPU, capacity_bytes=GIB), GIB, MIB)
    over = resident.judged(replace(one, step_ms=[6.0]), 2 * GIB, 2 * MIB)
    both = pooled([one, over])
    assert (both.resident_bytes, both.operation_bytes, both.over_budget) == (2 * GIB, 2 * MIB, True)
    assert not pooled([one, one]).over_budget
    old = pooled([one, row("um", 5, device=GPU)])
    assert (old.resident_bytes, old.over_budget) == (None, None)


def test_the_sampler_keeps_the_peak() -> None:
    class Device:
        levels = iter([10, 30, 20])

        def used(self) -> int:
            return next(self.levels, 20)

    sampler = resident.Sampler(Device())  # type: ignore[arg-type]
    assert (sampler.before, sampler.look(), sampler.take_peak()) == (10, 30, 30)
    assert sampler.take_peak() == 20


@pytest.mark.parametrize(
    ("seen", "device"), [("", 0), ("3,1", 3), ("GPU-ab,1", "GPU-ab"), ("MIG-1", "MIG-1")]
)
def test_the_device_that_is_watched(seen: str, device: int | str) -> None:
    assert resident.seen_by_cuda({"CUDA_VISIBLE_DEVICES": seen}) == device
