"""Shares of time under the compiled policy, in virtual time: programs without memory, which issue
as soon as they may.
"""

import random
from dataclasses import replace

import pytest

from pump.sim.broker import CompiledPolicy, Group
from pump.sim.resident import Program, Work, training
from pump.sim.tenants import Machine, Shared, Sharing

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MS = 1_000_000
S = 1000 * MS
ENDLESS = Program("endless", (Work(MS),))
QUICK = Program("quick", tuple(Work(MS) for _ in range(5)), pause_ns=20 * MS)
"""A fifth of the time, if it is alone."""


def sharing(programs: list[tuple[Group, Program]], together: float = 0.9) -> Sharing:
    """Each in a group of its own; turns are faster than co-running."""
    policy = CompiledPolicy(1 << 36, 10**9)
    for i, (group, _) in enumerate(programs, 1):
        policy.group(0, i, group)
        policy.join(0, i, i)
    return Sharing(Machine(10**9, together), policy, [program for _, program in programs])


def shared(*programs: tuple[Group, Program], span: int = 10 * S) -> Shared:
    """After what is tried first."""
    run = sharing(list(programs))
    run.run(3 * S)
    return run.measure(span)


def test_requests_are_met_to_a_point() -> None:
    was = shared((Group(request=750), ENDLESS), (Group(request=250), ENDLESS))
    assert was.total > 0.985
    assert was.parts[0] / was.total == pytest.approx(0.75, abs=0.01)


def test_limits_hold_over_any_five_seconds() -> None:
    run = sharing([(Group(limit=300, hard=1), ENDLESS), (Group(limit=700, hard=1), ENDLESS)])
    run.run(3 * S)
    seconds = [run.measure(S) for _ in range(8)]
    for i in range(4):
        parts = [sum(one.parts[who] for one in seconds[i : i + 5]) / 5 for who in (0, 1)]
        assert parts == pytest.approx([0.3, 0.7], abs=0.02)
        assert sum(parts) > 0.98


def test_a_hard_limit_holds_for_one_alone_and_a_soft_one_does_not() -> None:
    assert shared((Group(limit=500, hard=1), ENDLESS)).total == pytest.approx(0.5, abs=0.02)
    assert shared((Group(limit=500), ENDLESS), span=S).total > 0.999


def test_one_that_uses_little_hardly_waits() -> None:
    run = sharing([(Group(), ENDLESS), (Group(), QUICK)])
    run.run(3 * S)
    quick = run.tenants[2]
    quick.rounds_ns.clear()
    endless, used = run.measure(4 * S).parts
    rounds = sorted(quick.rounds_ns)
    assert rounds[len(rounds) * 99 // 100] <= 1.3 * 5 * MS
    assert 1 - endless <= used + 0.03


@pytest.mark.parametrize("seed", range(3))
def test_nobody_starves(seed: int) -> None:
    """With any requests, limits and programs; together they may be anything."""
    r = random.Random(seed)
    groups = [
        Group(request=r.choice([0, 0, 100, 400]), limit=r.choice([0, 0, 200])) for _ in "1234"
    ]
    run = sharing([(g, r.choice([ENDLESS, QUICK])) for g in groups], r.choice([0.9, 1.2]))
    for _ in range(8):
        parts = run.measure(S).parts
        assert min(parts) > 0.02, (groups, parts)


@pytest.mark.parametrize("turn_s", [0, 1])
@pytest.mark.parametrize(("step_ms", "pause_ms"), [(39, 0.2), (39, 5), (39, 30), (150, 80)])
def test_steps_that_pause_cost_no_turns(step_ms: int, pause_ms: float, turn_s: float) -> None:
    """Two trainings that fit one at a time, and rested for seconds: turns are as fair as without
    pauses, and as long.
    """
    room = 2 << 30
    policy = CompiledPolicy(room, 45 * 10**9)
    policy.turn(0, int(turn_s * S))
    policy.group(0, 1, Group(memory=room))
    programs = [
        replace(training(int(0.95 * room), step * MS, 8), pause_ns=int(pause * MS))
        for step, pause in ((39, 1), (step_ms, pause_ms))
    ]
    run = Sharing(Machine(45 * 10**9), policy, programs)
    for tenant in (1, 2):
        policy.join(0, tenant, 1)
    run.run(3 * S)
    for tenant in (1, 2):
        run.stop(tenant)
    run.run(run.now + 3 * S)
    for tenant in (1, 2):
        run.start(tenant)
    run.run(run.now + 3 * S)
    found = zip(run.measure(8 * S).parts, programs, strict=True)
    parts = [part * program.round_ns / program.works_ns for part, program in found]
    assert min(parts) > 0.35, parts
    assert sum(parts) > 0.8, parts
