"""pump-bench: rows, their file, tables, pictures, and the command line."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pump import paths
from pump.bench import cli, compare, pictures, plots, report, simulate
from pump.bench.row import FormatError, Row, read_results, write_results
from pump.bench.systems import BY_NAME, DEVICES, SIM, SYSTEMS, systems_on
from pump.bench.timeline import DEVICE, LANES, Timeline, record, write_timeline
from pump.bench.yardstick import Case, bounded, yardstick
from pump.sim.engine import READ, UPDATE, WRITE, Touch
from pump.sim.link import LINKS, VMM
from pump.sim.result import Result
from pump.sim.sequence import Block, Operation, Sequence, read_sequence
from pump.sim.simulator import settings_for

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
SIMULATED = [system.name for system in systems_on(SIM)]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """All systems on one recorded step at twice its memory."""
    return simulate.rows_of([paths.traces()["resnet"]], SIMULATED, [2.0], intervals=10, workers=1)


@pytest.fixture(scope="module")
def played() -> tuple[Result, Timeline]:
    """A step that was watched."""
    sequence = read_sequence(paths.traces()["resnet"])
    pages = simulate.budget_pages(sequence, VMM, 2.0)
    return record(sequence, VMM, settings_for(VMM, "ahead", pages * VMM.page_bytes))


def row(system: str, ms: float, **more: object) -> Row:
    given = {"workload": "w", "device": "sim", "oversubscription": 2.0}
    sizes = {"capacity_bytes": 1 << 30, "footprint_bytes": 2 << 30}
    return Row(**(given | sizes | {"system": system, "step_ms": [ms], "native_ms": 1.0} | more))  # type: ignore[arg-type]


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
    path = paths.traces()["resnet"]
    assert simulate.rows_of([path], SIMULATED, [2.0], intervals=10, workers=2) == rows


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
    path = paths.traces()["resnet"]
    with pytest.raises(ValueError, match="not simulated"):
        simulate.simulate(path, "resnet", "offload", VMM, 2.0)


def test_an_operation_larger_than_the_budget_has_a_bound_and_no_oracle() -> None:
    small = yardstick(Case(paths.traces()["resnet"], 3, 4))
    assert small.oracle is None
    assert small.oracle_ms is None
    assert not bounded() or small.bound_ms


def test_pictures_of_many_workloads_have_rows(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    many = [row("vmm", 5, workload=f"w{i}", bytes_in=1, bytes_out=1) for i in range(5)]
    sizes = []
    for shown in (many[:4], many):
        pictures.draw(shown, [], tmp_path, "png")
        data = (tmp_path / "step-time.png").read_bytes()
        sizes.append((int.from_bytes(data[16:20]), int.from_bytes(data[20:24])))
    assert sizes[0][0] == sizes[1][0]
    assert 2 * sizes[0][1] == sizes[1][1]


def test_workloads_beside_each_other_share_an_axis_and_say_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: kept.append(figure))
    rows = [row("um", 5 * 10**i, workload=f"w{i}", native_ms=10.0**i) for i in range(5)]
    plots.plot_times(rows, tmp_path / "x.png")
    axes = [axis for axis in kept[0].axes if axis.get_visible()]
    limits = [axis.get_ylim() for axis in axes]
    assert limits[:4] == [limits[0]] * 4
    assert limits[4] != limits[0]
    assert limits[0][0] < 1
    assert limits[0][1] > 5000
    assert [axis.texts[0].get_text() for axis in axes] == ["5.0", "50", "500", "5000", "50000"]


def test_a_legend_lies_within_its_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    kept = []
    monkeypatch.setattr(plots, "_save", lambda figure, path: kept.append(figure))
    rows = [row(name, 5, bound_ms=2.0) for name in plots.COLOURS]
    for workloads in (1, 2, 4):
        every = [replace(one, workload=f"w{i}") for i in range(workloads) for one in rows]
        plots.plot_times(every, tmp_path / "x.png")
        kept[-1].canvas.draw()
        legend = kept[-1].legends[0].get_window_extent()
        assert 0 <= legend.x0 < legend.x1 <= kept[-1].bbox.width


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


# --- comparing ---


def test_what_takes_longer_is_marked() -> None:
    before = [row("um", 10), row("vmm", 10), row("um-pump", 10), row("native", 1)]
    after = [row("um", 12), row("vmm", 5), row("um-pump", 10.1), row("zero-copy", 1)]
    found = compare.compare(before, after)
    assert [c.run.system for c in found.slower()] == ["um"]
    assert found.means() == pytest.approx({"um": 1.2, "vmm": 0.5, "um-pump": 1.01})
    assert ([r.system for r in found.missing], [r.system for r in found.new]) == (
        ["native"],
        ["zero-copy"],
    )
    assert [compare.verdict(c.ratio, 0.03) for c in found.changes] == ["SLOWER", "faster", ""]


def test_tables_are_by_workload_and_ratio(tmp_path: Path) -> None:
    places = [("b", 3.0), ("a", 2.0), ("b", 1.5), ("a", 1.5)]
    rows = [row("um", 5, workload=name, oversubscription=over) for name, over in places]
    found = compare.compare(rows, rows)
    assert [change.run[::3] for change in found.changes] == sorted(places)
    cells = {str(c.header): list(c.cells) for c in report.run_table(rows).columns}
    assert cells["workload"] == ["b", "b", "a", "a"]
    assert cells["over"] == ["1.5", "3", "1.5", "2"]


def test_the_oracle_has_one_column() -> None:
    alone = [row("oracle", 5, oracle_ms=5.0, bound_ms=4.0)]
    for rows in (alone, [*alone, row("vmm", 6, oracle_ms=5.0, bound_ms=4.0)]):
        headings = [str(column.header) for column in report.run_table(rows).columns]
        assert headings.count("oracle") == 1


def test_geometric_means_are_over_what_both_ran() -> None:
    rows = [row("um-demand", 8), row("vmm", 2, bound_ms=1.0)]
    rows += [
        replace(one, workload="v", step_ms=[one.ms * k])
        for one, k in zip(rows, (4, 1), strict=True)
    ]
    rows.append(row("um", 1))
    rows += [replace(one, oversubscription=1.0, step_ms=[1.0]) for one in rows[:2]]
    short = [one for one in rows if one.oversubscription > 1]
    assert report.verdicts(rows) == report.verdicts(short) != []
    rows = short
    assert report.speedup(rows, "um-demand", "vmm") == pytest.approx(8)
    assert report.speedup(rows, "um-pump", "vmm") is None
    assert report.over_bound(rows, "vmm") == pytest.approx(2)
    assert "vmm: 8.0 times as fast as um-demand, 2.00 of the bound (geometric means)" in (
        report.verdicts(rows)
    )


def test_a_run_beyond_its_budget_counts_nowhere() -> None:
    rows = [row("um-demand", 8), row("um", 2, bound_ms=1.0), row("vmm", 4)]
    over = replace(rows[1], workload="v", step_ms=[0.1], over_budget=True)
    slow = replace(rows[0], workload="v")
    alone = replace(over, workload="u")
    every = [*rows, slow, over, alone]
    assert report.verdicts(every) == report.verdicts(rows)
    assert report.cell_of(over) == "(over)"
    assert "v 2, u 2" in report.over_budget(every)[0]
    assert report.over_budget(rows) == []
    assert plots.with_times(every) == [*rows, slow]
    counted = [replace(one, bytes_in=1.0) for one in every]
    assert [one.workload for one in plots.with_bytes(counted)] == ["w", "w", "w", "v"]


def test_a_comparison_leaves_out_what_went_beyond_its_budget() -> None:
    before = [row("um", 10, bound_ms=5.0), row("um", 10, workload="v", bound_ms=5.0)]
    after = [before[0], replace(before[1], step_ms=[30.0], over_budget=True)]
    found = compare.compare(before, after)
    assert len(found.changes) == 2
    assert found.means() == pytest.approx({"um": 1})
    assert found.over_bound() == pytest.approx({"um": 2})
    assert found.slower() == []
    assert list(compare.comparison_table(found).columns[-1].cells) == ["(over)", ""]


def test_what_a_kernel_needs_beyond_the_budget_is_told() -> None:
    """The hash join's largest operation touches more than half of what it needs."""
    path = paths.traces()["hash-join"]
    over = {
        (system, ratio): simulate.simulate(path, "hash-join", system, LINKS[system], ratio)
        for system, ratio in (("um", 1.5), ("um", 2.0), ("vmm", 2.0))
    }
    assert [one.over_budget for one in over.values()] == [False, True, False]


def test_rows_of_old_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_results(path, {}, [row("um", 1)])
    told = json.loads(path.read_text(encoding="utf-8"))
    del told["rows"][0]["over_budget"]
    path.write_text(json.dumps(told), encoding="utf-8")
    assert read_results(path).rows == [row("um", 1)]


def test_different_numbers_are_told() -> None:
    told = report.run_table([row("um", 10, numbers_equal=False), row("vmm", 5, numbers_equal=True)])
    cells = {str(column.header): list(column.cells) for column in told.columns}
    assert cells["um"] == ["10.0 differs"]
    assert cells["vmm"] == ["5.0"]


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
    told = pictures.draw(rows, ["resnet"], tmp_path / "new", "png")
    names = {"step-time.png", "bytes.png", "residency.png", "timeline-resnet.json"}
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
    monkeypatch.setattr(plots, "can_plot", lambda: False)
    told = pictures.draw(rows, [], tmp_path, "png")
    assert told == "no pictures: they need matplotlib (pip install matplotlib scipy)"
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("docs/*.md")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "pump").rglob("*.py")]
    assert not any("pump[bench]" in text for text in texts)


# --- the command line ---


def test_run_prints_the_table_and_writes_the_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.json"
    words = ["run", "resnet", "--device", "sim", "--system", "vmm", "--oversubscription", "2,4"]
    assert cli.main([*words, "--intervals", "0", "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert "oracle" in told
    written = read_results(out)
    assert [(r.system, r.oversubscription) for r in written.rows] == [("vmm", 2), ("vmm", 4)]
    assert all(f"{one.ms:.1f}" in told for one in written.rows)
    assert cli.main(["compare", str(out), str(out)]) == 0
    assert "0 of 2 runs became slower" in capsys.readouterr().out


def test_list_tells_workloads_and_systems(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--device", "sim"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in (*paths.traces(), *SIMULATED))


def test_without_a_command_it_plays_the_main_steps_where_there_is_no_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli, "best_device", lambda: SIM)
    words = cli.main_comparison()
    args = cli.PROGRAM.parser().parse_args(words)
    assert args.workloads == list(simulate.MAIN)
    assert set(simulate.MAIN) <= set(paths.traces())
    assert (args.device, args.plots) == (SIM, cli.FOLDER)
    assert all(name in cli.PROGRAM.description for name in simulate.MAIN)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "nothing", "--device", "sim"], "no workload nothing on sim"),
        (["run", "--system", "offload", "--device", "sim"], "no system offload on sim"),
        (["compare", "no.json", "no.json"], "no.json: No such file"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) in (1, 2)
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("text", ["0.5", "x", "2,,3"])
def test_ratios_below_one_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["run", "--oversubscription", text])
    assert "--oversubscription" in capsys.readouterr().err
