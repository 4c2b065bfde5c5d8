"""The broker's compiled policy against the one in plain Python: the same leases for the same
events, and its checker after each of them.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pump.sim.broker import NEVER, CompiledPolicy, Group, Lease, Report  # noqa: E402
from pump.sim.resident import PAGE_BYTES, training  # noqa: E402
from pump.sim.tenants import Machine, Sharing  # noqa: E402
from tests.reference import broker  # noqa: E402

pytestmark = [pytest.mark.unit, pytest.mark.slow]

MS = 1_000_000
MIB = 1 << 20
RATE = 1000 * MIB
CAPACITY = 1000 * MIB


class Both:
    """The compiled policy and its oracle, told the same: compared and checked after each event."""

    def __init__(self, room: int) -> None:
        self.compiled, self.plain = CompiledPolicy(room, RATE), broker.Policy(room, RATE)
        self.event: tuple[object, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., int]:
        def told(*words: object) -> int:
            self.event = name, words
            said: int = getattr(self.compiled, name)(*words)
            assert said == getattr(self.plain, name)(*words), self.event
            return said

        return told

    def next_ns(self) -> int:
        return self.compiled.next_ns()

    def leases(self) -> list[Lease]:
        changed = self.compiled.leases()
        assert {lease.tenant: lease for lease in changed} == self.plain.leases, self.event
        self.plain.leases.clear()
        assert self.compiled.check() == "", self.event
        return changed


class Pair:
    """Random events for both."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.capacity = CAPACITY
        self.both = Both(CAPACITY)
        self.compiled, self.plain = self.both.compiled, self.both.plain
        self.leases: dict[int, Lease] = {}
        self.told: dict[int, Report] = {}
        self.groups: dict[int, Group] = {}
        self.seen: Counter[str] = Counter()

    def event(self, name: str, *words: object) -> None:
        getattr(self.both, name)(self.now, *words)
        changed = {lease.tenant: lease for lease in self.both.leases()}
        self.leases.update(changed)
        self.look(changed)

    def look(self, changed: dict[int, Lease]) -> None:
        """What of the rules was met."""
        state = self.compiled.state()
        self.seen["taking"] += state.taking
        self.seen["exclusive"] += state.exclusive
        self.seen["crowded"] += state.crowded
        self.seen["spent"] += any(g.spent for g in self.plain.groups.values())
        self.seen["ahead"] += any(g.ahead for g in self.plain.groups.values())
        self.seen["late"] += any(t.late for t in self.plain.tenants.values())
        self.seen["small"] += state.taking and not all(t.taker for t in self.plain.tenants.values())
        self.seen["suspended"] += any(lease.suspended for lease in changed.values())
        self.seen["parked"] += any(lease.suspended == 2 for lease in changed.values())
        self.seen["grows"] += any(lease.serial > 1 and lease.budget for lease in changed.values())

    def step(self) -> None:
        r = self.random
        if r.random() < 0.8:
            self.now += r.choice([0, 1, 100, MS, MS, 7 * MS, 20 * MS, 60 * MS, 120 * MS])
        elif r.random() < 0.2:
            self.now += r.choice([600 * MS, 2000 * MS, 12_000 * MS])
        choice = r.random()
        tenants = list(self.told)
        if choice < 0.05 and len(tenants) < 7:
            self.join()
        elif choice < 0.07 and tenants:
            self.leave(r.choice(tenants))
        elif choice < 0.09:
            self.group(r.randint(1, 4))
        elif choice < 0.095:
            self.event("capacity", r.choice([CAPACITY, CAPACITY // 2, 3 * MIB, 0]))
        elif choice < 0.105:
            self.event("turn", r.choice([0, 0, 500 * MS]))
        elif choice < 0.11:
            self.event("resident", r.choice([0, 0, 2]))
        elif choice < 0.5 and tenants:
            self.report(r.choice(tenants))
        elif choice < 0.7 and tenants:
            self.acknowledge(r.choice(tenants))
        elif choice < 0.85 and tenants:
            tenant = r.choice(tenants)
            self.event("drained", tenant, self.serial(tenant))
        elif choice < 0.87 and tenants:
            self.event("suspend", r.choice(tenants), r.randint(0, 1))
        elif choice < 0.9:
            self.wrong()
        elif (at := self.compiled.next_ns()) != NEVER and self.now < at:
            self.now = at
            self.event("tick")
        else:
            self.event("tick")

    def stroll(self, need: int) -> None:
        """Tenants that obey, and want most of the time: trials come to their ends."""
        r = self.random
        self.now += r.choice([20 * MS, 50 * MS, 100 * MS])
        tenants = list(self.told)
        if len(tenants) < 2 or (len(tenants) < 4 and r.random() < 0.005):
            self.join()
        elif r.random() < 0.01:
            self.leave(r.choice(tenants))
            self.join()
        for tenant, old in self.told.items():
            asleep = r.random() < (0.95 if not old.wants and old.operations else 0.01)
            fast = self.compiled.state().exclusive or self.compiled.state().taking
            more = r.randint(10, 20) + (self.now // (20_000 * MS) % 2) * 10 * fast
            self.told[tenant] = told = replace(
                old,
                need=need,
                operations=old.operations + more,
                refilled=old.refilled + r.choice([0, need // 8]),
                wants=int(not asleep),
                in_flight=0,
                ready=1,
            )
            self.event("report", tenant, told)
            lease = self.leases[tenant]
            self.event("acknowledge", tenant, lease.serial, lease.budget)
            if not self.leases[tenant].may_issue:
                self.event("drained", tenant, self.leases[tenant].serial)

    def serial(self, tenant: int) -> int:
        latest = self.leases[tenant].serial
        return self.random.choice([latest, latest, latest, max(0, latest - 1), latest + 1])

    def join(self) -> None:
        r = self.random
        tenant = r.choice([n for n in range(1, 20) if n not in self.told])
        group = r.randint(1, 4)
        if group not in self.groups:
            self.group(group)
        self.told[tenant] = Report(um=int(r.random() < 0.3))
        self.event("join", tenant, group, r.choice([0, 0, 30 * MIB]), r.choice([0, 0, 90 * MIB]))

    def leave(self, tenant: int) -> None:
        del self.told[tenant], self.leases[tenant]
        self.event("leave", tenant)

    def group(self, group: int) -> None:
        r = self.random
        to = Group(
            memory=r.choice([0, 0, 0, 400 * MIB]),
            request=r.choice([0, 0, 250, 300, 750]),
            limit=r.choice([0, 0, 0, 300, 700]),
            hard=r.randint(0, 1),
            priority=r.choice([0, 0, 0, 0, 1]),
            pin=r.choice([0, 0, 1]),
            idle_s=r.choice([0, 0, 0, 1, 3]),
        )
        self.groups[group] = to
        self.event("group", group, to)

    def report(self, tenant: int) -> None:
        r, old = self.random, self.told[tenant]
        busy = r.random() < 0.8
        need = r.choice([old.need] * 8 + [0, 30 * MIB, 100 * MIB, 350 * MIB, 600 * MIB, 2000 * MIB])
        self.told[tenant] = told = Report(
            need=need,
            resident=r.randint(0, need),
            operations=old.operations + r.randint(0, 50),
            refilled=old.refilled + r.choice([0, 50 * MIB, 200 * MIB]),
            stalled_ns=old.stalled_ns + r.choice([0, 0, 0, 3 * MS, 30 * MS]),
            wants=int(busy and r.random() < 0.9),
            in_flight=int(busy),
            ready=r.randint(0, 1),
            um=old.um,
        )
        self.event("report", tenant, told)

    def acknowledge(self, tenant: int) -> None:
        budget = self.leases[tenant].budget
        held = self.random.choice([budget, budget // 2, budget + 20 * MIB, NEVER])
        self.event("acknowledge", tenant, self.serial(tenant), held)

    def wrong(self) -> None:
        """What is refused, by both alike."""
        r = self.random
        events: list[tuple[object, ...]] = [
            ("leave", 99),
            ("report", 99, Report()),
            ("acknowledge", 99, 1, 1),
            ("drained", 99, 1),
            ("suspend", 99, 1),
            ("join", 0, 1, 0, 0),
            ("join", 99, 9, 0, 0),
            ("group", 1, Group(request=1001)),
            ("group", 0, Group()),
            ("group", 1, Group(pin=2)),
            ("group_gone", 9),
        ]
        if self.told:
            tenant = r.choice(list(self.told))
            events.append(("join", tenant, self.plain.tenants[tenant].group.id, 0, 0))
            events.append(("suspend", tenant, 2))
            events.append(("group_gone", self.plain.tenants[tenant].group.id))
        name, *words = r.choice(events)
        self.event(str(name), *words)


def test_both_give_the_same_leases_and_the_checker_holds() -> None:
    seen: Counter[str] = Counter()
    for seed in range(8):
        pair = Pair(seed)
        for _ in range(350):
            pair.step()
        seen += pair.seen
    for seed in range(4):
        pair = Pair(seed)
        for _ in range(300):
            pair.stroll((100 * MIB, 600 * MIB)[seed % 2])
        seen += pair.seen
    met = {
        "taking",
        "exclusive",
        "crowded",
        "spent",
        "ahead",
        "late",
        "small",
        "grows",
        "suspended",
        "parked",
    }
    assert {name for name in met if seen[name] > 5} == met, seen


def test_who_takes_the_row_of_one_that_left_is_compared_anew() -> None:
    pair = Pair(0)
    pair.event("group", 1, Group())
    for tenant in (1, 2, 3):
        pair.event("join", tenant, 1, 0, 0)

    def work(tenants: tuple[int, ...]) -> None:
        for _ in range(60):
            pair.now += 50 * MS
            for tenant in tenants:
                fast = 2 if pair.compiled.state().exclusive else 1
                old = pair.told.get(tenant, Report())
                told = Report(operations=old.operations + 10 * fast, wants=1)
                pair.told[tenant] = told
                pair.event("report", tenant, told)
            for tenant, lease in list(pair.leases.items()):
                if not lease.may_issue:
                    pair.event("drained", tenant, lease.serial)

    work((1, 2))
    assert pair.compiled.state().exclusive
    del pair.leases[1]
    pair.event("leave", 1)
    pair.event("join", 4, 1, 0, 0)
    work((2, 4))
    assert pair.compiled.state().trials == 2


def test_one_that_never_drains_holds_nobody_up() -> None:
    policy = CompiledPolicy(CAPACITY, RATE)
    policy.group(0, 1, Group())
    policy.turn(0, 100 * MS)
    for tenant in (1, 2):
        policy.join(0, tenant, 1)
    needs = Report(need=CAPACITY, wants=1, in_flight=1)
    refilled, now, stuck = 0, 0, 0
    while now < 20_000 * MS and not stuck:
        refilled += RATE // 20
        for tenant in (1, 2):
            policy.report(now, tenant, replace(needs, refilled=refilled))
            for lease in policy.leases():
                if not lease.may_issue:
                    policy.drained(now, lease.tenant, lease.serial)
        if policy.state().taking and policy.state().holder:
            stuck = policy.state().holder
        now += 50 * MS
    assert stuck
    other = 3 - stuck
    for _ in range(100):
        now = policy.next_ns()
        policy.tick(now)
        if any(lease.tenant == other and lease.may_issue for lease in policy.leases()):
            break
    assert policy.tenant(stuck).late == 1
    assert policy.tenant(other).waited_ns <= (100 + 100 // 8 + 500 + 60) * MS


@pytest.mark.parametrize("seed", range(6))
def test_both_say_the_same_to_trainings_that_pause(seed: int) -> None:
    r = random.Random(seed)
    room, count = 16 * PAGE_BYTES, r.choice([2, 3])
    both = Both(room)
    both.turn(0, r.choice([0, 500 * MS, 2000 * MS]))
    for group in range(1, count + 1):
        both.group(0, group, Group(memory=r.choice([0, room])))
    programs = []
    for tenant in range(1, count + 1):
        both.join(0, tenant, r.choice([1, tenant]), 0, 0)
        step, pause = r.choice([20, 60, 90, 150, 400]), r.choice([0, 1, 30, 45, 80, 300, 1500])
        made = training(r.choice([8, 12, 15]) * PAGE_BYTES, step * MS, 4)
        programs.append(replace(made, pause_ns=pause * MS))
    Sharing(Machine(RATE), both, programs).run(20_000 * MS)
    assert both.compiled.state().turns > 2
