"""The compiled engine against the one in plain Python: the same answers to the same events."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.sim.engine import CompiledEngine, Settings, Touch, policies  # noqa: E402
from tests.reference.pair import (  # noqa: E402
    PAGE,
    PAGES,
    STRIDES,
    Action,
    MismatchError,
    Step,
    play,
)
from tests.reference.policies import POLICIES  # noqa: E402
from tests.reference.programs import (  # noqa: E402
    MODES,
    random_in_place,
    random_laps,
    random_program,
    random_steps,
    random_strolls,
    random_sweeps,
    random_turns,
)

pytestmark = [pytest.mark.unit, pytest.mark.slow]

Program = Callable[[int], tuple[Settings, list[Step], list[Action]]]


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
    st.tuples(st.just("in_place"), st.integers(0, 2)),
    st.tuples(st.just("eager"), st.booleans()),
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
    shed_bytes=st.sampled_from([0, 8 * PAGE]),
)


def test_every_policy_has_a_reference() -> None:
    assert list(POLICIES) == policies()


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(all_settings, loops, st.lists(actions, min_size=1, max_size=60), st.sampled_from(STRIDES))
def test_both_engines_answer_alike(
    engine: Settings, loop: list[Step], script: list[Action], stride: int
) -> None:
    """Hypothesis shrinks to the shortest list of events on which they differ."""
    play(engine, loop, script, stride)


def shortest(
    found: MismatchError, engine: Settings, loop: list[Step], script: list[Action], stride: int
) -> MismatchError:
    """What goes wrong with a program, after actions were left out that do not matter for it."""
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
    [
        random_program,
        random_turns,
        random_in_place,
        random_steps,
        random_sweeps,
        random_strolls,
        random_laps,
    ],
)
def test_long_programs_are_answered_alike(program: Program) -> None:
    """Those that do everything reach every count."""
    reached: Counter[str] = Counter()
    for seed in range(4):
        case = (*program(seed), STRIDES[seed // 2 % len(STRIDES)])
        try:
            reached.update(asdict(play(*case)))
        except MismatchError as error:
            pytest.fail(f"seed {seed}: {shortest(error, *case)}")
    assert program is not random_program or all(reached.values()), reached


def test_claims_change_who_leaves() -> None:
    """Else nothing above would compare how holders are chosen."""
    programs = [random_steps(seed) for seed in range(5)]
    assert any(play(*program) != play(*program, stride=7) for program in programs)


def test_settings_that_make_no_sense_are_refused() -> None:
    sensible = Settings("ahead", PAGE, PAGE, PAGE, PAGE, True, True)
    for change in ({"policy": "best"}, {"page_bytes": 0}, {"page_bytes": 48}):
        with pytest.raises(ValueError, match="no engine"):
            CompiledEngine(Settings(**{**asdict(sensible), **change}))
