"""Virtual time, against sums that can be worked out by hand."""

import json
import sys
from collections import deque
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.sim.backend import Advice, Frames  # noqa: E402
from pump.sim.engine import (  # noqa: E402
    CLEAN,
    DEAD,
    EVICT,
    FILL,
    HOLD,
    IN_PLACE,
    KEEP,
    LANE_IN,
    READ,
    UPDATE,
    WRITE,
    CompiledEngine,
    Engine,
    Move,
    Touch,
)
from pump.sim.link import UM, UM_ONE, VMM, Handles, Kind, Link, Part  # noqa: E402
from pump.sim.sequence import (  # noqa: E402
    Block,
    Given,
    Operation,
    Sequence,
)
from pump.sim.simulator import (  # noqa: E402
    LAUNCH_NS,
    Pace,
    Simulator,
    StuckError,
    settings_for,
)
from pump.sizes import MIB  # noqa: E402
from tests.played import PAGE, PLAIN, simulate, turns  # noqa: E402

pytestmark = pytest.mark.unit


def test_a_step_that_is_odd_does_not_count() -> None:
    fitting = simulate(turns(UPDATE, READ), PLAIN, "ahead", 2)
    assert replace(fitting, steps_ns=(1e6, 2e6, 9e6)).step_ms == 2


@pytest.mark.parametrize("policy", ["none", "pump", "ahead"])
def test_what_fits_takes_its_own_time(policy: str) -> None:
    result = simulate(turns(UPDATE, READ), PLAIN, policy, 2)
    assert result.step_ms == pytest.approx(2 * 1000 / 1e6)
    assert result.bytes_in == result.bytes_out == 0


@pytest.mark.parametrize(("between_ns", "each_ns"), [(300.0, 1000), (1000.0, 1000), (7000.0, 7000)])
def test_the_program_s_thread_may_take_longer(between_ns: float, each_ns: float) -> None:
    engine = CompiledEngine(settings_for(PLAIN, "ahead", 3 * PAGE))
    result = Simulator(engine, PLAIN, "ahead", Pace(between_ns)).run(turns(UPDATE, READ, UPDATE))
    assert result.step_ms == pytest.approx(3 * each_ns / 1e6)
    assert result.busy_ns == pytest.approx(3 * 1000 * result.steps)


@pytest.mark.parametrize("between_ns", [0.0, 300.0])
def test_a_program_that_waits_for_a_step_begins_the_next_one_later(between_ns: float) -> None:
    engine = CompiledEngine(settings_for(PLAIN, "ahead", 3 * PAGE))
    simulator = Simulator(engine, PLAIN, "ahead", Pace(between_ns, 500.0))
    result = simulator.run(turns(UPDATE, READ, UPDATE))
    assert result.step_ms == pytest.approx((3 * 1000 + 500) / 1e6)


def test_what_comes_in_a_pause_makes_the_step_no_shorter() -> None:
    """Each page that comes then takes the frame of one that must come again."""
    page_ns, times = PAGE / 20, []
    for pages in (4, 8, 12):
        engine = CompiledEngine(settings_for(PLAIN, "ahead", 20 * PAGE))
        simulator = Simulator(engine, PLAIN, "ahead", Pace(pause_ns=pages * page_ns))
        times.append(simulator.run(turns(*[READ] * 40)).step_ms * 1e6)
    for before, after in pairwise(times):
        assert after - before == pytest.approx(4 * page_ns, rel=0.15)


def test_pages_come_while_the_program_s_thread_computes() -> None:
    times = {}
    for between_ns in (0.0, PAGE / 20, PAGE / 10):
        engine = CompiledEngine(settings_for(PLAIN, "ahead", 2 * PAGE))
        simulator = Simulator(engine, PLAIN, "ahead", Pace(between_ns))
        times[between_ns] = simulator.run(turns(UPDATE, UPDATE, UPDATE)).step_ms * 1e6
    assert times[0.0] < times[PAGE / 10] < times[0.0] + 3 * PAGE / 10
    assert times[PAGE / 10] >= 3 * PAGE / 10 - 1


@pytest.mark.parametrize(
    ("policy", "page_ns"),
    [
        ("none", PAGE / 20 + PAGE / 10),  # the driver evicts, then the kernel faults
        ("pump", PAGE / 20 + PAGE / 40),  # one lane, both ways
        ("ahead", PAGE / 20 + PAGE / 40 + LAUNCH_NS),
    ],
)
def test_two_pages_take_turns_in_one_frame(policy: str, page_ns: float) -> None:
    result = simulate(turns(UPDATE, UPDATE), PLAIN, policy, 1)
    assert result.step_ms == pytest.approx(2 * (1000 + page_ns) / 1e6)
    assert result.bytes_in == result.bytes_out == 2 * PAGE


def test_clean_pages_leave_for_nothing() -> None:
    link = replace(PLAIN, keeps=True)
    result = simulate(turns(READ, READ), link, "ahead", 1)
    assert result.step_ms == pytest.approx(2 * (1000 + PAGE / 40 + LAUNCH_NS) / 1e6)
    assert (result.bytes_in, result.bytes_out) == (2 * PAGE, 0)


def test_dead_pages_cost_no_bytes() -> None:
    fresh = [Block((1 + 2 * i) * PAGE, PAGE) for i in range(2)]
    step: list[Given | Operation] = []
    for key, block in enumerate(fresh):
        touch = Touch(*block, WRITE)
        step += [Given(block, True), Operation(key, 1000, (touch,)), Given(block, False)]
    result = simulate(Sequence((), (tuple(step),)), PLAIN, "ahead", 1)
    assert result.bytes_in == result.bytes_out == 0
    assert result.sums.dead_bytes > 0


def test_one_move_is_called_for_while_anothers_bytes_go() -> None:
    setup_ns = 20_000
    calls = replace(PLAIN, call_ns=setup_ns, keeps=True, ahead_bytes=4 * PAGE)
    alone, beside = (
        simulate(turns(*[READ] * 20), replace(calls, movers=(n, n)), "ahead", 10) for n in (1, 3)
    )
    for result, page_ns in ((alone, setup_ns + PAGE / 40), (beside, PAGE / 40)):
        assert result.step_ms * 1e6 == pytest.approx(result.bytes_in / PAGE * page_ns, rel=0.02)


def test_fills_hide_behind_long_operations() -> None:
    """Three pages, two frames: one comes and one leaves while the third is worked on."""
    hidden_ns = round(2 * (PAGE / 20 + PAGE / 40))
    result = simulate(turns(UPDATE, UPDATE, UPDATE, duration_ns=hidden_ns), PLAIN, "ahead", 2)
    assert result.step_ms < 1.2 * 3 * hidden_ns / 1e6
    assert result.bytes_in > 0


def test_both_ways_share_the_link() -> None:
    assert UM.rates(both=False) == (40, 42)
    assert UM.rates(both=True) == (26, 26)
    assert UM_ONE.rates(both=True) == (12.25, 12.25)
    assert VMM.rates(both=True) == (50.5, 50.5)
    assert replace(UM, rate_out=10).rates(both=True) == (40, 10)


@pytest.mark.parametrize(
    ("kind", "flags", "beside", "us_a_page", "carries"),
    [
        (FILL, 0, True, 0, True),
        (FILL, KEEP, False, 100, True),
        (FILL, DEAD, False, 11, False),
        (FILL, DEAD, True, 12, False),
        (EVICT, 0, True, 0, True),
        (EVICT, CLEAN, True, 2, False),
        (EVICT, DEAD, False, 20, False),
        (EVICT, DEAD, True, 21, False),
    ],
)
def test_pages_cost_what_was_measured(
    kind: int, flags: int, beside: bool, us_a_page: float, carries: bool
) -> None:
    move = Move(1, 0, 8 * PAGE, 0, kind, flags)
    call, copy, told = UM_ONE.parts(move, beside)
    assert call.kind is Kind.CALL
    assert call.amount == pytest.approx(2_800 + 8 * us_a_page * 1000)
    assert copy == (Kind.COPY, 8 * PAGE if carries else 0)
    assert told.kind is Kind.TOLD
    assert UM.parts(move, beside)[0].amount == pytest.approx(call.amount)


def test_policies_that_hold_nothing_move_pages_on_the_programs_thread() -> None:
    engine = CompiledEngine(settings_for(UM, "pump", 4 * PAGE))
    assert Simulator(engine, UM, "pump").link == UM_ONE
    assert Simulator(CompiledEngine(settings_for(UM, "ahead", 4 * PAGE)), UM, "ahead").link == UM


# --- pages that are mapped anew ---

HANDLES = Handles(
    busy=1,
    map_ns=1_000,
    unmap_ns=300,
    map_host_ns=5_000,
    map_host_mib_ns=500,
    unmap_host_ns=2_000,
    unmap_host_mib_ns=100,
    copy_bytes=PAGE,
    turn_ns=200,
)
SENT = [(Kind.TURN, 200), (Kind.COPY, PAGE)]
MAPPED = replace(
    PLAIN, rate_fault=0, handles=HANDLES, movers=(3, 3), run_bytes=2 * PAGE, ahead_bytes=4 * PAGE
)


@pytest.mark.parametrize(
    ("kind", "flags", "expected"),
    [
        (FILL, 0, [(Kind.COPY, 2 * PAGE), (Kind.UNMAP, 2 * 2_200), *[(Kind.ACCESS, 1_000)] * 2]),
        (FILL, DEAD, [(Kind.UNMAP, 2 * 300), *[(Kind.ACCESS, 1_000)] * 2]),
        (EVICT, DEAD, []),
        (EVICT, CLEAN, [(Kind.UNMAP, 2 * 300)]),
        (EVICT, 0, [*SENT, *SENT, (Kind.UNMAP, 2 * 300)]),
    ],
)
def test_what_comes_or_leaves_is_copied_and_mapped(
    kind: int, flags: int, expected: list[Part]
) -> None:
    """A page that left without being dead is mapped on the host once the engine has its frame."""
    parts = MAPPED.parts(Move(1, 0, 2 * PAGE, 0, kind, flags), beside=True, mapped=2)
    told = parts.index(Part(Kind.TOLD))
    assert parts[:told] == expected
    lands = kind == EVICT and not flags & DEAD
    assert parts[told + 1 :] == [(Kind.ACCESS, 6_000)] * 2 * lands


@pytest.mark.parametrize(
    ("kind", "flags", "expected"),
    [
        (FILL, 0, [(Kind.COPY, PAGE), (Kind.UNMAP, 300), (Kind.ACCESS, 1_000), (Kind.TOLD, 0)]),
        (FILL, DEAD, [(Kind.UNMAP, 300), (Kind.ACCESS, 1_000), (Kind.TOLD, 0)]),
        (EVICT, 0, [*SENT, (Kind.TOLD, 0)]),
        (EVICT, CLEAN, [(Kind.TOLD, 0)]),
        (EVICT, DEAD, [(Kind.TOLD, 0)]),
    ],
)
def test_where_what_is_away_is_not_mapped_it_leaves_without_a_call(
    kind: int, flags: int, expected: list[Part]
) -> None:
    link = replace(MAPPED, handles=replace(HANDLES, maps_away=False))
    assert link.parts(Move(1, 0, PAGE, 0, kind, flags), beside=True, mapped=1) == expected
    used_there = Move(1, 0, PAGE, 0, EVICT, IN_PLACE)
    assert link.parts(used_there, beside=True) == MAPPED.parts(used_there, beside=True)


@pytest.mark.parametrize(("flags", "copied_ns"), [(0, PAGE / 40), (DEAD, 0)])
def test_a_page_that_gets_its_frame_back_is_not_mapped(flags: int, copied_ns: float) -> None:
    """Two come, of which one has been there: it alone costs its bytes only."""
    link = replace(MAPPED, handles=replace(HANDLES, maps_away=False), movers=(1, 1))
    fill = Move(1, 0, PAGE, 0, FILL, flags)
    frames = Frames(PAGE, maps_away=False, most=2)
    assert frames.begin(fill) == 1
    frames.end(fill._replace(kind=EVICT))
    moves = Moves([fill, fill._replace(id=2, start=PAGE)])
    moves.play(link, frames)
    assert (frames.came, frames.back) == (3, 1)
    assert moves.done[1] == pytest.approx(copied_ns)
    assert moves.done[2] == pytest.approx(2 * copied_ns + 1_300)


class Moves:
    """In the place of an engine: gives out moves; with `frames`, fills only into what was left."""

    def __init__(self, moves: list[Move], frames: bool = False) -> None:
        self.waiting = {kind: deque(m for m in moves if m.kind == kind) for kind in (FILL, EVICT)}
        self.leaves = {move.id for move in self.waiting[EVICT]}
        self.frames = 0 if frames else len(self.waiting[FILL])
        self.done: dict[int, float] = {}
        self.simulator: Simulator

    def next(self, lane: int) -> Move | None:
        moves = self.waiting[(FILL, EVICT)[lane]]
        if not moves or (lane == LANE_IN and not self.frames):
            return None
        self.frames -= lane == LANE_IN
        return moves.popleft()

    def moved(self, move: int, ok: bool = True) -> None:
        self.frames += move in self.leaves
        self.done[move] = self.simulator.now

    def play(self, link: Link, frames: Frames | None = None) -> float:
        """When all of it is over, ns. What leaves has come before."""
        self.simulator = Simulator(cast(Engine, self), link, "ahead")
        assert link.handles
        most = sum(move.bytes for moves in self.waiting.values() for move in moves)
        self.simulator.frames = frames or Frames(
            link.page_bytes, link.handles.maps_away, most // link.page_bytes
        )
        for move in self.waiting[EVICT]:
            self.simulator.frames.begin(move._replace(kind=FILL))
        while self.simulator.act(iter(())) or any(lane.moves for lane in self.simulator.lanes):
            self.simulator.advance()
        return self.simulator.now


def test_calls_that_map_wait_for_each_other_and_access_for_the_copy_out() -> None:
    moves = Moves([Move(1, 0, PAGE, 0, FILL, DEAD), Move(2, PAGE, PAGE, 0, EVICT, 0)])
    over = moves.play(MAPPED)
    copied = 200 + PAGE / 20
    mapped = copied + 1_000
    assert moves.done[1] == pytest.approx(mapped)
    assert moves.done[2] == pytest.approx(mapped + 300)
    assert over == pytest.approx(mapped + 300 + 6_000)


def measurements(name: str) -> list[dict[str, Any]]:
    """Of `python -m lab.mapping.remap`."""
    text = (ROOT / "bench" / "results" / name).read_text(encoding="utf-8")
    told: list[dict[str, Any]] = json.loads(text)["measurements"]
    return told


@pytest.mark.parametrize(
    ("mib", "threads"), [(2, 1), (2, 3), (4, 2), (8, 1), (8, 3), (16, 2), (32, 3)]
)
def test_swaps_take_what_was_measured(mib: int, threads: int) -> None:
    """In runs of 32 MiB; no kernel ran beside them."""
    told = measurements("h200-remap.json")
    kind = {"kind": "swap", "mib_each": mib, "mib_run": 32, "threads_each_way": threads}
    (row,) = (r for r in told if r.items() >= (kind | {"host_mapped": True}).items())
    handles = replace(Handles(), copy_bytes=32 * MIB, turn_ns=0, busy=1)
    link = replace(VMM, page_bytes=mib * MIB, movers=(threads, threads), handles=handles)
    moves = [Move(i, i * 32 * MIB, 32 * MIB, 0, (FILL, EVICT)[i % 2], 0) for i in range(100)]
    rate = 100 * 32 * MIB / Moves(moves, frames=True).play(link)
    assert rate == pytest.approx(row["gb_s"], rel=0.25)


@pytest.mark.parametrize(("mib", "near"), [(2, 0.15), (4, 0.1), (8, 0.15), (16, 0.03), (64, 0.03)])
def test_swaps_without_the_host_mapped_take_what_was_measured(mib: int, near: float) -> None:
    """Copies to the host of 8 MiB, each waited for: 11 us from one to the next. Two threads each
    way, no kernel beside them.
    """
    told = measurements("h200-remap-swaps.json")
    swaps = [row for row in told if row["mib_each"] == mib and not row["host_mapped"]]
    row = max(swaps, key=lambda row: row["mib_run"])
    (copies,) = (row for row in measurements("h200-remap.json") if row["kind"] == "copies")
    run = row["mib_run"] * MIB
    handles = Handles(maps_away=False, copy_bytes=8 * MIB, turn_ns=11_000, busy=1)
    link = replace(
        VMM, page_bytes=mib * MIB, movers=(2, 2), rate_both=copies["gb_s"], handles=handles
    )
    moves = [Move(i, i * run, run, 0, (FILL, EVICT)[i % 2], 0) for i in range(100)]
    rate = 100 * run / Moves(moves, frames=True).play(link)
    assert rate == pytest.approx(row["gb_s"], rel=near)


def test_the_driver_evicts_beside_its_faults() -> None:
    """Three pages, two frames: the one before leaves while a kernel waits for its own."""
    result = simulate(turns(UPDATE, UPDATE, UPDATE), PLAIN, "none", 2)
    assert result.step_ms == pytest.approx(3 * (1000 + PAGE / 10) / 1e6)


def test_advice_is_given_once_and_taken_back_when_the_page_leaves() -> None:
    advice = Advice(PAGE)
    fill = Move(1, 0, 2 * PAGE, 0, FILL, KEEP)
    leave = Move(2, 0, 2 * PAGE, 0, EVICT, CLEAN)
    assert advice.begin(leave).flags == 0  # the host has nothing
    assert advice.begin(fill).flags == KEEP
    assert advice.begin(fill).flags == 0
    assert advice.begin(leave).flags == CLEAN
    assert advice.begin(leave).flags == 0
    assert advice.begin(fill).flags == KEEP


def test_advice_that_was_wrong_is_not_given_again() -> None:
    advice = Advice(PAGE)
    fill = Move(1, 0, PAGE, 0, FILL, KEEP)
    advice.begin(fill)
    advice.issued([Touch(0, 8, READ)])
    assert advice.kept == {0}
    advice.issued([Touch(0, 8, UPDATE)])
    assert advice.begin(fill._replace(kind=EVICT, flags=CLEAN)).flags == 0
    assert advice.begin(fill).flags == 0
    other = fill._replace(start=PAGE)
    advice.begin(other)
    advice.begin(other._replace(flags=DEAD))  # it comes to be written
    assert advice.begin(other).flags == 0


class Stubborn(CompiledEngine):
    """Holds everything for ever."""

    def admit(self, serial: int, at_once: bool = False) -> tuple[int, int]:
        return HOLD, 0

    def next(self, lane: int) -> Move | None:
        return None


def test_an_engine_that_is_stuck_is_told() -> None:
    engine = Stubborn(settings_for(PLAIN, "ahead", PAGE))
    with pytest.raises(StuckError):
        Simulator(engine, PLAIN, "ahead").run(turns(READ))
