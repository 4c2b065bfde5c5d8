"""What `pump plan` predicts and recommends."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pump import paths
from pump.bench import simulate
from pump.binding import default_of
from pump.cli import program
from pump.cli.run import options_of
from pump.predict import plan, plots
from pump.predict.roofline import ends
from pump.sim.engine import UPDATE, Touch
from pump.sim.hardware import GPUS, INTERCONNECTS
from pump.sim.link import LINKS, UM, link_for
from pump.sim.recorded import open_sequence
from pump.sim.sequence import Block, Operation, Sequence
from pump.sizes import GIB
from tests.unit.conftest import FEW_FACTORS, play_few

pytestmark = [pytest.mark.unit, pytest.mark.slow]

PAGE = UM.page_bytes
DEFAULT = int(default_of("ULMS_GPU_MEMORY_FACTOR"))
FREE = ("um", "vmm")
"""Links that take no promise of the user's."""
PCIE = INTERCONNECTS["pcie5-x16"]


def turns(pages: int, duration_ns: int = 100_000) -> Sequence:
    """A step of one operation a page."""
    blocks = tuple(Block(i * PAGE, PAGE) for i in range(pages))
    step = tuple(
        Operation(i, duration_ns, (Touch(*block, UPDATE),)) for i, block in enumerate(blocks)
    )
    return Sequence(blocks, (step,))


@pytest.fixture(scope="module")
def found() -> plan.Plan:
    """A recorded step with less than its memory: pages enough that runs of them matter little. It
    has one kernel that is not trusted. Of budgets only as many as tell.
    """
    sequence = replace(open_sequence(paths.traces()["resnet50"]), trusted=False)
    with pytest.MonkeyPatch.context() as patch:
        play_few(patch)
        return plan.plan(sequence, sequence.footprint(PAGE) * 3 // 5, PCIE, list(LINKS), workers=1)


def test_less_memory_takes_longer(found: plan.Plan) -> None:
    for backend in LINKS:
        times = [row[backend].step_ms for row in found.factors.values() if row]
        assert len(times) == len(FEW_FACTORS)
        assert all(b >= a for a, b in pairwise(times))
        assert min(times) >= found.native_ms
        assert times[-1] > 1.5 * times[0]
    assert {point.backend for point in found.curve} == set(LINKS)
    assert max(point.budget for point in found.curve) > found.footprint
    fits = [point for point in found.curve if point.budget >= found.footprint]
    assert all(point.step_ms == pytest.approx(found.native_ms) for point in fits)


@pytest.mark.parametrize(("share", "best"), [(0.96, DEFAULT), (0.94, 50)])
def test_a_smaller_factor_is_recommended_only_if_it_is_faster(
    found: plan.Plan, share: float, best: int
) -> None:
    assert found.best
    factor, point = found.best
    assert factor == DEFAULT
    ms = share * point.step_ms
    rows = found.factors | {50: {"um": replace(point, backend="um", step_ms=ms, most_ms=ms)}}
    assert replace(found, factors=rows).best == (best, point if best == factor else rows[50]["um"])


def test_no_more_than_the_default_is_recommended(found: plan.Plan) -> None:
    """What it leaves is for contexts, and virtual time has none."""
    assert found.best
    factor, point = found.best
    assert factor == DEFAULT
    assert found.factors[100][point.backend].step_ms < point.step_ms / plan.AS_GOOD
    assert replace(found, factors={100: found.factors[100]}).best is None


def alone(found: plan.Plan, backend: str) -> plan.Plan:
    """The same with one backend."""
    rows = {f: {backend: row[backend]} for f, row in found.factors.items() if row}
    return replace(found, factors=rows)


def test_what_is_recommended_is_a_command_that_pump_run_takes(found: plan.Plan) -> None:
    for backend in FREE:
        said = plan.advice(alone(found, backend), 3 * GIB // 2)[1]
        words = f"pump run --backend {backend} --memory 1536MiB --factor {DEFAULT} -- PROGRAM"
        assert said.split() == words.split()
        assert options_of(program().parse(said.split()[1:])) == {
            "ULMS_BACKEND": backend,
            "ULMS_GPU_MEMORY": "1536MiB",
            "ULMS_GPU_MEMORY_FACTOR": str(DEFAULT),
        }
    assert "--memory" not in plan.advice(found)[1]


def test_what_vmm_does_not_guarantee_is_said_where_it_is_recommended(found: plan.Plan) -> None:
    for backend, times in (("um", 0), ("vmm", 1)):
        lines = plan.advice(alone(found, backend))
        assert sum("docs/vmm.md; ULMS_VERIFY=1" in line for line in lines) == times


def test_what_takes_a_promise_is_recommended_only_where_it_was_asked_for(found: plan.Plan) -> None:
    assert found.best
    factor, point = found.best
    faster = found.factors[factor]["vmm-known"]
    assert faster.step_ms < point.step_ms
    first, *others = plan.advice(found)
    assert "promise" not in first
    (line,) = (line for line in others if "promise" in line)
    assert line.startswith(f"With vmm-known: {faster.step_ms:.0f} ms.")
    only = plan.advice(alone(found, "vmm-known"))
    assert only[0].startswith("Use vmm-known: ")
    assert "You promise by it that no kernel" in only[0]
    assert only[1].startswith("    ULMS_HIDDEN=known pump run --backend vmm --factor ")


def test_a_promise_that_makes_nothing_faster_is_not_mentioned(found: plan.Plan) -> None:
    assert found.best
    factor, point = found.best
    row = found.factors[factor] | {"vmm-known": replace(point, backend="vmm-known")}
    same = replace(found, factors=found.factors | {factor: row})
    assert same.best == found.best
    assert "promise" in " ".join(plan.advice(found))
    assert "promise" not in " ".join(plan.advice(same))


def test_nobody_need_promise_what_is_trusted() -> None:
    others = turns(4)
    good = replace(others, trusted=True)
    for asked, instead in (
        (list(LINKS), ["um", "vmm"]),
        (["vmm-known", "um"], ["um", "vmm"]),
        (["vmm-known"], ["vmm"]),
        (["um"], ["um"]),
    ):
        assert plan.backends_for(good, asked) == instead
        assert plan.backends_for(others, asked) == sorted(asked, key=list(LINKS).index)
    budget, one = 3 * 4 * PAGE, replace(turns(16), trusted=True)
    vmm = plan.plan(one, budget, PCIE, ["vmm"]).factors[100]["vmm"]
    known = plan.plan(turns(16), budget, PCIE, ["vmm-known"]).factors[100]["vmm-known"]
    assert vmm == replace(known, backend="vmm")


def test_of_what_fits_only_less_memory_is_played() -> None:
    """If that is asked for."""
    needs = plan.needs_of(turns(40), GIB)
    assert (needs.fits, needs.roomy, needs.spare) == (True, True, GIB - 40 * PAGE)
    told: list[tuple[int, int]] = []
    found = plan.plan(turns(40), GIB, PCIE, ["um"], lambda *at: told.append(at), curve=False)
    assert (found.factors, found.curve, told) == ({}, [], [])
    found = plan.plan(turns(40), GIB, PCIE, ["um"], lambda *at: told.append(at), workers=1)
    budgets = {point.budget for point in found.curve if point.budget < found.footprint}
    assert told[-1] == (len(budgets), len(budgets))
    fits = [point for point in found.curve if point.budget >= found.footprint]
    assert {point.step_ms for point in fits} == {found.native_ms}
    assert len(fits) > len(plan.FACTORS)


def test_what_is_known_of_a_step_that_fits_is_what_playing_it_tells() -> None:
    sequence = turns(40)
    for name, link in LINKS.items():
        known = plan.plan(sequence, GIB, PCIE, [name]).factors[100][name]
        pages = sequence.footprint(link.page_bytes) // link.page_bytes
        played = plan.play(plan.Task(ends(sequence, None), name, link, pages))
        assert known == replace(played, budget=GIB)


def test_what_fits_narrowly_may_need_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "FACTORS", FEW_FACTORS)
    found = plan.plan(turns(40), 41 * PAGE, PCIE, ["um"])
    assert found.fits
    assert not found.roomy
    first, second, *_ = plan.advice(found)
    assert first.startswith("It fits, with 2.0 MiB to spare for contexts")
    assert second.startswith("Use um: ")


@pytest.fixture(scope="module")
def join() -> Sequence:
    """One operation touches most of what it needs."""
    return open_sequence(paths.traces()["hash-join"])


def test_an_operation_larger_than_the_budget_is_played_as_pump_bench_plays_it(
    join: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "FACTORS", (100,))
    path, over = paths.traces()["hash-join"], 3.0
    memory = int(join.footprint(PAGE) / over)
    found = plan.plan(join, memory, PCIE, list(LINKS), curve=False)
    assert found.largest > memory
    for name, point in found.factors[100].items():
        row = simulate.simulate(path, "hash-join", name, link_for(name, join), over)
        assert point.step_ms == pytest.approx(row.ms)
        assert point.over_budget == row.over_budget == (name == "um")


def test_what_exceeds_its_budget_is_not_recommended(
    join: Sequence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "FACTORS", (90, 80))
    memory = join.footprint(PAGE) // 3
    found = plan.plan(join, memory, PCIE, ["um", "vmm"], curve=False)
    um = found.factors[90]["um"]
    assert um.over_budget
    assert found.best
    assert found.best[1].backend == "vmm"
    assert "With um: not predicted." in plan.advice(found)
    (told,) = plan.advice(plan.plan(join, memory, PCIE, ["um"], curve=False))
    assert told.startswith("It runs, but how long a step takes is not predicted")
    assert told.endswith("--backend vmm predicts it.")


def test_a_step_that_the_program_s_thread_bounds_takes_no_longer_with_less() -> None:
    """What moves takes half of it."""
    sequence = turns(16)
    memory, native_ms = 3 * 4 * PAGE, sequence.native_ns() / 1e6
    free = plan.plan(sequence, memory, PCIE, ["vmm"])
    step_ms = 2 * free.factors[100]["vmm"].step_ms
    assert step_ms > 2.2 * native_ms
    bound = plan.plan(sequence, memory, PCIE, ["vmm"], step_ns=step_ms * 1e6)
    assert (free.native_ms, bound.native_ms) == (native_ms, step_ms)
    assert bound.factors[100]["vmm"].step_ms == pytest.approx(step_ms, rel=0.02)
    assert plan.plan(sequence, memory, PCIE, ["vmm"], step_ns=native_ms * 1e6) == free


def test_on_another_gpu_a_step_takes_from_least_to_most() -> None:
    sequence = turns(16)
    memory, l4 = 3 * 4 * PAGE, GPUS["L4"]
    found = plan.plan(sequence, memory, PCIE, ["vmm"], gpu=l4)
    for end, native_ms, name in zip(
        ends(sequence, l4),
        (found.native_ms, found.most_native_ms),
        ("step_ms", "most_ms"),
        strict=True,
    ):
        alone = plan.plan(end, memory, PCIE, ["vmm"])
        assert native_ms == alone.native_ms == alone.most_native_ms
        for factor in (100, DEFAULT):
            row = found.factors[factor]
            assert getattr(row["vmm"], name) == alone.factors[factor]["vmm"].step_ms
    assert found.ranges
    first = plan.advice(found)[0]
    assert re.match(r"Use vmm: \d+ to \d+ ms a step, 1.\d to \d.\d times what it takes", first)


@pytest.mark.skipif(not plots.can_plot(), reason="without matplotlib")
def test_only_times_are_drawn(found: plan.Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over what is needed, where there is much more memory."""
    drawn: list[Any] = []
    monkeypatch.setattr(plots, "save", lambda figure, path: drawn.extend(figure.axes))
    curve = [replace(p, over_budget=p.budget < found.memory) for p in found.curve]
    for memory in (found.memory, 100 * found.footprint):
        every = [*curve, replace(curve[-1], budget=memory)]
        plots.plot_plan(replace(found, curve=every, memory=memory), "x", Path("x.png"))
    near, far = drawn
    lines = {line.get_label(): line.get_xdata() for line in near.get_lines()}
    assert set(LINKS) < set(lines)
    for name in LINKS:
        assert min(lines[name]) == found.memory / GIB
    assert "memory there is" in lines
    assert "memory there is" not in [line.get_label() for line in far.get_lines()]
    assert found.footprint / GIB < far.get_xlim()[1] < 2 * found.footprint / GIB


def test_the_same_is_predicted_with_any_number_of_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And without the curve, if that is not asked for."""
    monkeypatch.setattr(plan, "FEW", 0)
    monkeypatch.setattr(plan, "FACTORS", (60, 40))
    monkeypatch.setattr(plan, "SHARES", (0.5,))
    one, two = (plan.plan(turns(40), 40 * PAGE, PCIE, FREE, workers=n) for n in (1, 2))
    assert one == two
    bare = plan.plan(turns(40), 40 * PAGE, PCIE, FREE, curve=False, workers=1)
    assert bare.factors == one.factors
    assert len(bare.curve) == len(one.curve) - len(FREE)


def test_what_makes_no_difference_is_played_once() -> None:
    """4 pages fit; of 3 to 1 some factors leave as many, of none the least two."""
    told: list[tuple[int, int]] = []
    played = plan.plan(turns(4), 4 * PAGE, PCIE, ["um"], lambda *at: told.append(at), curve=False)
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert len(played.factors) == len(plan.FACTORS)
    assert [factor for factor, row in played.factors.items() if not row] == [20, 10]
