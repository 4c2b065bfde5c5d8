"""The recorded steps in virtual time: against the reference engine, and the bars of policies."""

import json
import os
import pickle
import sys
from collections import abc
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump import paths  # noqa: E402
from pump.cli import main  # noqa: E402
from pump.cli.sim import Row, play, speedup  # noqa: E402
from pump.predict.oracle import oracle  # noqa: E402
from pump.sim.engine import FILL, LANE_IN, CompiledEngine, Move, Settings, Touch, policies  # noqa: E402
from pump.sim.link import FREE, LINKS, UM, UM_ONE, VMM, Link, link_for  # noqa: E402
from pump.sim.period import page_times, period_of  # noqa: E402
from pump.sim.recorded import open_sequence  # noqa: E402
from pump.sim.sequence import Given, Sequence  # noqa: E402
from pump.sim.simulator import Pace, Simulator, settings_for  # noqa: E402
from pump.sizes import MIB  # noqa: E402
from tests.conftest import made_once  # noqa: E402
from tests.reference.policies import reference  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

TRACES = ROOT / "bench" / "traces"
STEPS = ("decode-3b", "gpt2-small", "resnet50")
PAGE = UM.page_bytes
OVER = 1.5
BYTES = replace(UM_ONE, place=FREE, discard=FREE, drop_ns=0, keep_ns=0)
"""Only bytes cost: what policies decide, apart from what the driver's calls take."""


@pytest.fixture(scope="module")
def sequences() -> dict[str, Sequence]:
    """The recorded steps."""
    return {name: open_sequence(paths.traces()[name]) for name in STEPS}


def test_recorded_steps_are_whole(sequences: dict[str, Sequence]) -> None:
    """Every block is given out before it is taken back."""
    for sequence in sequences.values():
        live = set(sequence.live)
        for step in sequence.play(len(sequence.steps) + 2):
            for event in step:
                if isinstance(event, Given):
                    assert event.live != (event.block in live)
                    (live.add if event.live else live.remove)(event.block)


@pytest.mark.parametrize("policy", policies())
def test_the_reference_takes_the_same_time(policy: str, sequences: dict[str, Sequence]) -> None:
    sequence = sequences["resnet50"]
    part = Sequence(sequence.live, (sequence.steps[0][:60],))
    settings = settings_for(UM, policy, part.footprint(PAGE) // 2)
    compiled = Simulator(CompiledEngine(settings), UM, policy).run(part)
    assert compiled == Simulator(reference(settings), UM, policy).run(part)
    assert compiled.bytes_in + compiled.bytes_out > 0


# --- what policies must reach ---


@pytest.fixture(scope="module")
def rows(sequences: dict[str, Sequence], common_folder: Path) -> list[Row]:
    """Every sequence, where only bytes cost. Two of pytest's processes that need them share them:
    one begins at the end.
    """

    def path_of(name: str, over: float, policy: str) -> Path:
        def keep(path: Path) -> None:
            path.write_bytes(pickle.dumps(play(name, sequences[name], BYTES, over, policy)))

        return made_once(common_folder / f"played-{name}-{over:g}-{policy}", keep)

    asked = list(product(sequences, (OVER,), ("none", "pump", "ahead")))
    order = -1 if os.environ.get("PYTEST_XDIST_WORKER", "").endswith("1") else 1
    paths = {each: path_of(*each) for each in asked[::order]}
    return [pickle.loads(paths[each].read_bytes()) for each in asked]


def test_ahead_is_as_much_faster_as_is_asked(rows: list[Row]) -> None:
    factors = {slow: speedup(rows, "um", slow, "ahead") or 0 for slow in ("none", "pump")}
    assert factors["none"] >= 6
    assert factors["pump"] >= 5.3


def test_backends_are_as_much_faster_as_is_asked(sequences: dict[str, Sequence]) -> None:
    """All that was measured of managed memory and of mapping counts, at twice the memory."""
    rows = [
        play(name, sequence, UM, 2, policy)
        for name, sequence in sequences.items()
        for policy in ("none", "pump", "ahead")
    ]
    assert (speedup(rows, "um", "none", "ahead") or 0) >= 4
    assert (speedup(rows, "um", "pump", "ahead") or 0) >= 2.5
    assert max(row.useless for row in rows) <= 0.01
    vmm = {
        name: play(name, sequence, link_for("vmm", sequence), 2, "ahead").step_ms
        for name, sequence in sequences.items()
    }
    for policy, least in (("none", 8), ("pump", 4.5)):
        rivals = [row for row in rows if row.policy == policy]
        assert geometric_mean(row.step_ms / vmm[row.sequence] for row in rivals) >= least


def over_oracle(sequence: Sequence, link: Link, over: float, step_ms: float) -> float:
    """A step's time over the oracle's, which knows all, and pays for nothing but bytes."""
    period = period_of(sequence, link.page_bytes)
    return 1e6 * step_ms / oracle(period, int(period.pages / over), page_times(link)).ns


def test_ahead_is_near_the_oracle(rows: list[Row], sequences: dict[str, Sequence]) -> None:
    for row in rows:
        if row.policy == "ahead":
            assert over_oracle(sequences[row.sequence], BYTES, row.over, row.step_ms) <= 1.125, row


def test_ahead_is_near_the_oracle_where_moves_cost(sequences: dict[str, Sequence]) -> None:
    link = replace(VMM, handles=None, page_bytes=PAGE, call_ns=29_000)
    sequence = sequences["resnet50"]
    row = play("resnet50", sequence, link, 1.5, "ahead")
    assert over_oracle(sequence, link, 1.5, row.step_ms) <= 1.25


def test_pump_is_faster_than_faults_alone(rows: list[Row]) -> None:
    assert (speedup(rows, "um", "none", "pump") or 0) >= 1.05


def test_what_is_fetched_is_used(rows: list[Row]) -> None:
    assert max(row.useless for row in rows) <= 0.01


class Watching(CompiledEngine):
    """Sees which pages the moves leave resident, and which of these nobody has touched since."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.size = settings.page_bytes
        self.here: set[int] = set()
        self.untouched: set[int] = set()
        self.fills = 0
        self.again = 0  # fills of pages that are resident
        self.useless = 0  # of pages that left untouched
        self.under_way: dict[int, Move] = {}
        self.running: dict[int, abc.Sequence[Touch]] = {}

    def issued(self, key: int, touches: abc.Sequence[Touch]) -> int:
        serial = super().issued(key, touches)
        self.running[serial] = touches
        return serial

    def retired(self, serial: int, now: int = 0) -> None:
        for touch in self.running.pop(serial):
            self.untouched -= self.pages(touch[0], touch[1])
        super().retired(serial, now)

    def next(self, lane: int) -> Move | None:
        move = super().next(lane)
        if move:
            self.under_way[move.id] = move
            pages = self.pages(move.start, move.bytes)
            self.again += len(pages & self.here) if lane == LANE_IN else 0
            self.fills += len(pages) if lane == LANE_IN else 0
        return move

    def moved(self, move: int, ok: bool = True) -> None:
        done = self.under_way.pop(move)
        pages = self.pages(done.start, done.bytes)
        if done.kind == FILL:
            self.here |= pages
            self.untouched |= pages
        else:
            self.here -= pages
            self.useless += len(pages & self.untouched)
            self.untouched -= pages
        super().moved(move, ok)

    def pages(self, start: int, size: int) -> set[int]:
        return set(range(start // self.size, (start + size - 1) // self.size + 1))


def test_what_calls_cost_slows_a_step_down(rows: list[Row], sequences: dict[str, Sequence]) -> None:
    """By no more than it did when the figures were taken; what is used in place calls nothing."""
    bytes_only = {(r.sequence, r.over): r.step_ms for r in rows if r.policy == "ahead"}
    for name, least, most in (
        ("resnet50", 1.02, 1.4),
        ("gpt2-small", 1.02, 1.12),
        ("decode-3b", 0.99, 1.01),
    ):
        step_ms = play(name, sequences[name], UM_ONE, OVER, "ahead").step_ms
        assert least < step_ms / bytes_only[name, OVER] <= most


def test_small_pages_are_slower_to_map(sequences: dict[str, Sequence]) -> None:
    steps = [
        play(
            "resnet50", sequences["resnet50"], replace(VMM, page_bytes=mib * MIB), 2, "ahead"
        ).step_ms
        for mib in (8, 2)
    ]
    assert 1.5 < steps[1] / steps[0] < 3


@pytest.mark.parametrize(("link", "name"), [*zip(LINKS, STEPS, strict=True)])
def test_no_fill_is_for_nothing(link: str, name: str, sequences: dict[str, Sequence]) -> None:
    """No resident page is fetched again, and what was fetched is used: not as the engine counts."""
    sequence = sequences[name]
    settings = settings_for(LINKS[link], "ahead", sequence.footprint(PAGE) // 2 // PAGE * PAGE)
    engine = Watching(settings)
    Simulator(engine, LINKS[link], "ahead").run(sequence)
    assert engine.fills > 1000
    assert engine.again == 0
    assert engine.useless <= 0.05 * engine.fills


def test_temporaries_of_layers_keep_their_frames() -> None:
    """Else most of what comes in prefill is dead pages, each of which may have to be mapped."""
    sequence = open_sequence(TRACES / "prefill-3b.ulms.gz")
    link = link_for("vmm", sequence)
    budget = sequence.footprint(link.page_bytes) // (2 * link.page_bytes) * link.page_bytes
    engine = CompiledEngine(settings_for(link, "ahead", budget))
    result = Simulator(engine, link, "ahead").run(sequence)
    with_bytes = result.sums.filled_bytes / link.page_bytes
    assert result.came < 1.6 * with_bytes


@pytest.mark.parametrize("slower", [3, 5])
def test_who_waits_for_the_thread_brings_no_more_than_who_waits_for_the_link(slower: int) -> None:
    """With a thread that takes so many times as long as the link."""
    sequence = open_sequence(TRACES / "decode-3b.ulms.gz")
    pages = sequence.footprint(VMM.page_bytes) * 2 // 3 // VMM.page_bytes
    settings = settings_for(VMM, "ahead", pages * VMM.page_bytes)
    bound = Simulator(CompiledEngine(settings), VMM, "ahead").run(sequence)
    thread_ns = slower * bound.step_ms * 1e6 / sequence.operations()
    done = Simulator(CompiledEngine(settings), VMM, "ahead", Pace(thread_ns)).run(sequence)
    assert done.step_ms == pytest.approx(slower * bound.step_ms, rel=0.01)
    assert done.bytes_in < 1.3 * bound.bytes_in


def test_a_trace_is_played_too(capsys: pytest.CaptureFixture[str]) -> None:
    """GPT-2 XL as `pump trace` recorded it on an H200."""
    trace = str(TRACES / "gpt2xl.ulms.gz")
    assert main(["sim", "--policy", "ahead", "--link", "um", "--over", "2", "--json", trace]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["footprint"] >> 30 == 37
    assert row["native_ms"] == pytest.approx(111, abs=0.1)
    assert row["bytes_in"] > row["footprint"] // 4
    assert row["step_ms"] > row["bytes_in"] / UM.rate_in / 1e6


def test_every_step_of_a_trace_is_played(capsys: pytest.CaptureFixture[str]) -> None:
    """A join in CuPy: of four steps the last three repeat the one before."""
    trace = str(TRACES / "hash-join.ulms.gz")
    asked = ["sim", "--each-step", "--policy", "ahead", "--link", "vmm", "--over", "1", trace]
    assert main([*asked, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    alone_ms = open_sequence(Path(trace)).native_ns() / 1e6
    assert row["steps_ms"][1:] == pytest.approx([alone_ms] * 3, rel=0.01)
    assert main(asked) == 0
    assert "settled after" in capsys.readouterr().out


def test_the_last_of_all_steps_is_the_one_that_is_played_else() -> None:
    """And blocks are given and taken from step to step."""
    every, last = (open_sequence(TRACES / "unet.ulms.gz", every) for every in (True, False))
    assert len(every.steps) == 3
    assert every.steps[-1:] == last.steps
    live = set(every.live)
    for step in every.steps:
        for event in step:
            if isinstance(event, Given):
                assert event.live != (event.block in live)
                (live.add if event.live else live.remove)(event.block)


def test_what_is_no_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"\xff\xd8\xff\xe0" * 100)
    assert main(["sim", str(path)]) == 2
    assert "neither a recorded sequence nor a trace" in capsys.readouterr().err
