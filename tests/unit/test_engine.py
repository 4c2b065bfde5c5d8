"""The compiled engine against the one in plain Python: the same answers to the same events."""

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.sim.engine import (  # noqa: E402
    HOLD,
    LANE_IN,
    LANE_OUT,
    READ,
    SCRATCH,
    SPARSE,
    UPDATE,
    WRITE,
    CompiledEngine,
    Settings,
    Stats,
    Touch,
    policies,
)
from tests.reference.policies import POLICIES, reference  # noqa: E402

pytestmark = pytest.mark.unit

PAGE = 64
FEW = READ | SPARSE
MODES = (READ, WRITE, UPDATE, SCRATCH, FEW)
PAGES = 24  # addresses used: pages 1 to 24
STRIDES = (0, 1, 3, 7)  # of Pair
COUNTED = 16
"""Counts are compared after so many events, and after every action."""
Action = tuple[Any, ...]
Step = tuple[int, tuple[Touch, ...]]  # key, touches
Program = Callable[[int], tuple[Settings, list[Step], list[Action]]]


class MismatchError(AssertionError):
    """The engines answered differently; the text lists the events."""


@dataclass
class Pair:
    """Both engines, told the same."""

    settings: Settings
    loop: list[Step]
    stride: int  # says who has the frames that pages have claims on; 0: frames are alike
    events: list[tuple[Any, ...]] = field(default_factory=list)  # name, arguments, answer
    at: int = 0  # in the loop
    clock: int = 0
    open: list[int] = field(default_factory=list)  # issued, not retired
    moves: list[int] = field(default_factory=list)  # given out, not done

    def __post_init__(self) -> None:
        self.plain = reference(self.settings)
        self.compiled = CompiledEngine(self.settings)
        if self.stride:
            self.plain.holder(self.holder)
            self.compiled.holder(self.holder)

    def holder(self, start: int) -> int:
        """Any page, or none."""
        return start // PAGE * self.stride % (PAGES + 1) * PAGE

    def tell(self, name: str, *args: Any) -> Any:
        """One event. Raises MismatchError unless both give the same answer."""
        expected, answer = getattr(self.plain, name)(*args), getattr(self.compiled, name)(*args)
        self.events.append((name, args, expected))
        if expected != answer:
            raise self.mismatch(f"compiled: {answer}")
        if len(self.events) % COUNTED == 0:
            self.compare_counts()
        return answer

    def compare_counts(self) -> None:
        """Sums differ from the event on that was counted otherwise. Raises MismatchError."""
        counts, others = self.plain.stats(), self.compiled.stats()
        if counts != others:
            both = asdict(counts).items() ^ asdict(others).items()
            raise self.mismatch(f"differing counts {sorted({name for name, _ in both})}")

    def mismatch(self, what: str) -> MismatchError:
        told = [f"{name}{args} -> {answer}" for name, args, answer in self.events]
        return MismatchError("\n".join([str(self.settings), *told, what]))

    # --- what a program, a device and a link do ---

    def issue(self, skip: int, key: int | None, more: tuple[Touch, ...]) -> None:
        """The next operation of the loop, or one that varies from it."""
        self.at += skip
        own, touches = self.loop[self.at % len(self.loop)]
        self.at += 1
        self.send(own if key is None else key, [*touches, *more])

    def send(self, key: int, touches: list[Touch]) -> None:
        serial = self.tell("issued", key, touches)
        if serial:
            self.open.append(serial)

    def admit(self, which: int, at_once: bool) -> None:
        if self.open:
            self.tell("admit", self.open[which % len(self.open)], at_once)

    def replace(self, touch: Touch) -> None:
        """The loop's next operation on another page."""
        self.send(self.loop[self.at % len(self.loop)][0], [touch])
        self.at += 1

    def retire(self, which: int) -> None:
        if self.open:
            self.clock += len(self.events) * 7919 % 13
            now = self.clock if self.clock % 64 else 0
            self.tell("retired", self.open.pop(which % len(self.open)), now)

    def take(self, lane: int) -> bool:
        move = self.tell("next", lane)
        if move:
            self.moves.append(move.id)
        return move is not None

    def finish(self, which: int, ok: bool) -> None:
        if self.moves:
            self.tell("moved", self.moves.pop(which % len(self.moves)), ok)

    def work(self, operations: int, most: int) -> None:
        """That many operations of the loop, held until their pages are here; `most` run."""
        for _ in range(operations):
            self.issue(0, None, ())
            while len(self.open) > most:
                self.retire(0)
            for _ in range(20):
                if all(self.tell("admit", serial)[0] != HOLD for serial in self.open[-4:]):
                    break
                if not (self.take(LANE_OUT) | self.take(LANE_IN) or self.moves) and self.open[1:]:
                    self.retire(0)
                self.finish(0, True)

    def insert(self, operations: int) -> None:
        """That many operations that are not in the loop, nor like one in it."""
        for _ in range(operations):
            self.issue(-1, 5, ())
            self.retire(-1)

    def act(self, action: Action) -> None:
        name, *args = action
        method = getattr(self, name, None)
        method(*args) if method else self.tell(name, *args)
        self.compare_counts()


# --- random programs ---

starts = st.builds(
    lambda page, offset: page * PAGE + offset, st.integers(1, PAGES), st.sampled_from([0, 0, 0, 8])
)
touches = st.builds(
    Touch,
    starts,
    st.sampled_from([0, 8, PAGE, PAGE, 2 * PAGE, 3 * PAGE]),
    st.sampled_from(MODES),
)
loops = st.lists(
    st.tuples(st.integers(0, 3), st.lists(touches, min_size=1, max_size=3).map(tuple)),
    min_size=1,
    max_size=10,
)
pages = st.integers(1, PAGES).map(lambda page: page * PAGE)
sizes = st.integers(0, 4).map(lambda count: count * PAGE)
few = st.integers(0, 5)
rarely = st.sampled_from([False] * 7 + [True])
actions = st.one_of(
    st.tuples(st.just("work"), st.integers(1, 60), st.sampled_from([3, 3, 40])),
    st.tuples(
        st.just("issue"),
        st.sampled_from([0, 0, 0, 1, 3]),
        st.sampled_from([None, None, None, 9]),
        st.lists(touches, max_size=1).map(tuple),
    ),
    st.tuples(st.just("issue"), st.sampled_from([0, 2, 64, 65]), st.none(), st.just(())),
    st.tuples(st.just("insert"), st.sampled_from([1, 15, 16, 17])),
    st.tuples(st.just("admit"), few, rarely),
    st.tuples(st.just("admit"), few, st.just(False)),
    st.tuples(st.just("retire"), few),
    st.tuples(st.just("take"), st.integers(0, 1)),
    st.tuples(st.just("take"), st.integers(0, 1)),
    st.tuples(st.just("finish"), few, st.just(True)),
    st.tuples(st.just("finish"), few, st.booleans()),
    st.tuples(st.just("budget"), st.integers(0, 14 * PAGE)),
    st.tuples(st.just("freed"), starts, st.integers(0, 3 * PAGE)),
    st.tuples(st.just("allocated"), pages, sizes),
    st.tuples(st.just("placed"), starts, st.integers(0, 2 * PAGE)),
    st.tuples(st.just("block"), starts, st.integers(0, 3 * PAGE), st.booleans()),
)
all_settings = st.builds(
    Settings,
    policy=st.sampled_from([policies()[0], *policies()]),
    page_bytes=st.just(PAGE),
    budget=st.integers(0, 14).map(lambda count: count * PAGE),
    run_bytes=st.sampled_from([0, PAGE, 2 * PAGE, 5 * PAGE]),
    ahead_bytes=st.sampled_from([0, PAGE, 3 * PAGE]),
    keeps=st.booleans(),
    faults=st.booleans(),
    in_place=st.integers(0, 2),
)


def play(engine: Settings, loop: list[Step], script: list[Action], stride: int = 0) -> Stats:
    """A program through both engines; what they counted."""
    pair = Pair(engine, loop, stride)
    pair.tell("allocated", PAGE, PAGES * PAGE)
    for action in script:
        pair.act(action)
    return pair.compiled.stats()


def test_every_policy_has_a_reference() -> None:
    assert list(POLICIES) == policies()


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(all_settings, loops, st.lists(actions, min_size=1, max_size=60), st.sampled_from(STRIDES))
def test_both_engines_answer_alike(
    engine: Settings, loop: list[Step], script: list[Action], stride: int
) -> None:
    """Hypothesis shrinks to the shortest list of events on which they differ."""
    play(engine, loop, script, stride)


def random_program(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A long program: work with other things in between."""
    chance = random.Random(seed)

    def touch() -> Touch:
        start = PAGE * chance.randint(1, PAGES) + chance.choice([0, 0, 0, 8])
        return Touch(start, chance.choice([8, PAGE, 2 * PAGE, 3 * PAGE]), chance.choice(MODES))

    engine = Settings(
        policy=policies()[seed % len(policies())],
        page_bytes=PAGE,
        budget=PAGE * chance.randint(4, 14),
        run_bytes=chance.choice([PAGE, 2 * PAGE, 5 * PAGE]),
        ahead_bytes=chance.choice([0, PAGE, 3 * PAGE]),
        keeps=chance.random() < 0.5,
        faults=chance.random() < 0.5,
        in_place=chance.choice([0, 1, 2, 2]),
    )
    loop = [
        (chance.randint(0, 3), tuple(touch() for _ in range(chance.randint(1, 3))))
        for _ in range(chance.randint(3, 30))
    ]
    script: list[Action] = []
    for _ in range(300):
        which, ok = chance.randint(0, 5), chance.random() < 0.9
        size = PAGE * chance.randint(1, 3)
        script.append(
            chance.choices(
                [
                    ("work", chance.randint(1, 5), 3),
                    ("issue", 0, None, ()),
                    ("issue", chance.choice([0, 2, 70]), chance.choice([None, 9]), (touch(),)),
                    ("admit", which, chance.random() < 0.1),
                    ("retire", which),
                    ("take", which % 2),
                    ("finish", which, ok),
                    ("budget", PAGE * chance.randint(2, 14)),
                    ("block", touch().start, size + 8, ok and which > 2),
                    ("freed", touch().start, size),
                    ("allocated", touch().start // PAGE * PAGE, size),
                    ("placed", touch().start, PAGE),
                ],
                [30, 20, 4, 40, 12, 50, 45, 1, 6, 2, 4, 1],
            )[0]
        )
    return engine, loop, script


def random_turns(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A program that goes round and round, and leaves its way in all manners."""
    chance = random.Random(seed)
    engine = Settings("ahead", PAGE, 8 * PAGE, PAGE, PAGE, True, True, seed % 3)
    few = [
        (
            chance.randint(0, 1),
            (Touch(PAGE * chance.randint(1, PAGES), PAGE, chance.choice([1, 2, 3, FEW])),),
        )
        for _ in range(chance.choice([3, 10, 40]))
    ]
    loop: list[Step] = [chance.choice(few) for _ in range(chance.choice([5, 40, 150]))]
    script: list[Action] = []
    for _ in range(60):
        other = Touch(PAGE * chance.randint(1, PAGES), PAGE, 1)
        ways: list[Action] = [
            ("insert", chance.choice([1, 15, 16])),
            ("issue", chance.choice([1, 2, 63, 64, 65]), None, ()),
            ("issue", -chance.randint(1, 70), None, ()),
            ("issue", 0, None, (other,)),
            ("replace", other),
        ]
        work = ("work", chance.choice([1, 3, 20, 60]), chance.choice([3, 3, 40]))
        script += [work, chance.choice(ways)]
    return engine, loop, script


def random_in_place(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """The same with a budget of nothing, where nobody brings pages."""
    engine, loop, script = random_turns(seed)
    return replace(engine, budget=0, faults=False), loop, script


def random_steps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """Steps of a program that is given blocks and gives them back, and runs far ahead."""
    chance = random.Random(seed)
    budget, run = chance.randint(6, 14), chance.randint(1, 3)
    engine = Settings(
        "ahead", PAGE, budget * PAGE, run * PAGE, chance.choice([0, 3 * PAGE]), True, True
    )
    loop: list[Step] = []
    step: list[Action] = []  # one page of a block for each operation of the loop
    for _ in range(chance.choice([20, 80])):
        block, mode = Touch(PAGE * chance.randint(9, PAGES), PAGE, 2), chance.randint(1, 4)
        loop.append((chance.randint(0, 9), (block, Touch(PAGE * chance.randint(1, 8), PAGE, mode))))
        most = chance.choice([3, 40, 40, 40])
        step += [("block", *block[:2], True), ("work", 1, most)]
        if chance.random() < 0.7:
            step.append(("block", *block[:2], False))
        if chance.random() < 0.2:
            step += [("issue", 0, None, ()), ("issue", -1, None, ()), ("admit", -1, False)]
            step += [("take", 1), ("take", 0), ("take", 0), ("finish", 0, True)]
    return engine, loop, step * (4 if len(loop) > 20 else 12)


def random_sweeps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """Most pages are touched once a period; the program varies little."""
    chance = random.Random(seed)
    engine = Settings(
        "ahead",
        PAGE,
        chance.randint(6, 14) * PAGE,
        chance.randint(1, 3) * PAGE,
        chance.choice([0, 3 * PAGE]),
        chance.random() < 0.7,
        chance.random() < 0.5,
        chance.randint(1, 2),
    )
    several = (Touch(PAGE, PAGE, chance.choice(MODES)),)
    loop: list[Step] = [
        (
            page % 4,
            (Touch(PAGE * page, PAGE, chance.choice([1, 1, 1, *MODES])),)
            + several * (chance.random() < 0.2),
        )
        for page in range(2, PAGES + 1)
    ]
    script: list[Action] = []
    for _ in range(40):
        page = PAGE * chance.randint(2, PAGES)
        other = Touch(page, PAGE, chance.randint(1, 3))
        ways: list[Action] = [
            ("replace", other),
            ("insert", 1),
            ("issue", 1, None, ()),
            ("issue", 0, None, (other,)),
            ("issue", 0, 9, (other,)),
            ("budget", PAGE * chance.randint(4, 20)),
            ("block", page, PAGE, True),
            ("block", page, PAGE, False),
            ("freed", page, PAGE),
            ("placed", page, PAGE),
            ("allocated", PAGE, PAGES * PAGE),
        ]
        script += [("work", chance.choice([20, 60, 150]), chance.choice([1, 3, 10]))]
        script += chance.choices(ways, k=chance.randint(0, 2))
    return engine, loop, script


def random_laps(seed: int) -> tuple[Settings, list[Step], list[Action]]:
    """A few pages, so often that both ways are tried three times; or then one page more."""
    chance = random.Random(seed)
    engine = Settings("ahead", PAGE, 2 * PAGE, PAGE, PAGE, True, True, 2)
    mode = chance.choice([1, 1, 3])
    steps: list[Step] = [(0, (Touch(PAGE * page, PAGE, mode),)) for page in (1, 2, 3, 4)]
    loop = chance.choice([steps[:3], steps[:3] * 300 + steps * 400])
    other: Action = ("issue", 0, None, steps[0][1])
    script: list[Action] = []
    for _ in range(16):
        script += [("work", 150, chance.choice([1, 2])), *[other] * (chance.random() < 0.3)]
    return engine, loop, script


def shortest(
    engine: Settings, loop: list[Step], script: list[Action], stride: int
) -> MismatchError | None:
    """What goes wrong with a program, after actions were left out that do not matter for it."""
    try:
        play(engine, loop, script, stride)
        return None
    except MismatchError as error:
        found = error
    size = len(script) // 2
    while size:
        for start in range(len(script) - size, -1, -size):
            shorter = script[:start] + script[start + size :]
            try:
                play(engine, loop, shorter, stride)
            except MismatchError as error:
                found, script = error, shorter
        size //= 2
    return found


@pytest.mark.parametrize(
    "program",
    [random_program, random_turns, random_in_place, random_steps, random_sweeps, random_laps],
)
def test_long_programs_are_answered_alike(program: Program) -> None:
    for seed in range(24):
        mismatch = shortest(*program(seed), STRIDES[seed // 4 % len(STRIDES)])
        assert not mismatch, f"seed {seed}: {mismatch}"


def test_claims_change_who_leaves() -> None:
    """Else nothing above would compare how holders are chosen."""
    programs = [random_steps(seed) for seed in range(8)]
    assert any(play(*program) != play(*program, stride=7) for program in programs)


def test_long_programs_reach_every_count() -> None:
    reached: Counter[str] = Counter()
    for seed in range(20):
        reached.update(asdict(play(*random_program(seed))))
        reached.update(asdict(play(*random_sweeps(seed))))
    assert all(reached.values()), reached


def test_settings_that_make_no_sense_are_refused() -> None:
    sensible = Settings("ahead", PAGE, PAGE, PAGE, PAGE, True, True)
    for change in ({"policy": "best"}, {"page_bytes": 0}, {"page_bytes": 48}):
        with pytest.raises(ValueError, match="no engine"):
            CompiledEngine(Settings(**{**asdict(sensible), **change}))
