"""The broker's policy (broker/policy.h) in plain Python: events in, leases out.

`broker_state.py` has the terms, `broker_park.py`, `broker_turns.py` and
`broker_fit.py` the other rules.

Bytes. Order: awake ones that are no takers in turns, by need; the holder or the one that is about
to be; those that contend, the first first; other awake ones, then the rest, who wanted last first.
Ties by id. Targets: floors (at most the need); then needs, to the first of these kinds at most an
equal part of what is left for them; then equal parts of what is left, to the awake (to all, if none
is). The suspended get none. A group's memory bounds all of it, and equal parts alike. Budgets fall
to targets at once. They grow, in the order, by what is not reserved; for a tenant without managed
memory not while one with it holds more than its budget, for up to 500 ms.
"""

from collections.abc import Iterator
from dataclasses import replace

from pump.sim.broker import FULL, GROUPS, NEVER, OK, TAKEN, TENANTS, UNKNOWN, WRONG, Lease, Report
from pump.sim.broker import Group as Settings
from tests.reference.broker_fit import Fit
from tests.reference.broker_state import BYTES_MOST, MS, Group, Tenant


class Policy(Fit):
    """Methods are events; `leases` has those that changed and were not read."""

    # --- events ---

    def settle(self, now: int) -> None:
        span = max(0, now - self.now)
        if not span:
            return
        users = [
            t
            for t in self.tenants.values()
            if (t.open or t.closed is not None)
            and (t.works or (t is self.holder and self.contended))
        ]
        for g in self.groups.values():
            more = min(span, 20_000 * MS) * g.set.limit // 1000
            g.tokens = min(self.bucket(g), g.tokens + more)
        for t in users:
            part = span // len(users)
            t.charged += part
            t.spell += part
            t.used += part
            t.group.virtual += part * 1000 // t.group.weight
            t.group.tokens = max(-10_000 * MS, t.group.tokens - min(part, 20_000 * MS))
            self.charged += part
        self.now = now
        for t in self.tenants.values():
            if t.busy:
                t.wanted = now
            if t.worked:
                t.idle = now

    def tick(self, now: int) -> int:
        self.settle(now)
        return self.decide()

    def capacity(self, now: int, size: int) -> int:
        self.settle(now)
        self.room = min(size, BYTES_MOST)
        return self.decide()

    def turn(self, now: int, ns: int) -> int:
        self.settle(now)
        self.fixed = min(ns, 20_000 * MS)
        return self.decide()

    def resident(self, now: int, tenants: int) -> int:
        self.settle(now)
        self.most_resident = tenants
        return self.decide()

    def group(self, now: int, number: int, to: Settings) -> int:
        self.settle(now)
        if not number or to.request > 1000 or to.limit > 1000 or to.hard > 1 or to.pin > 1:
            return WRONG
        if number in self.groups:
            self.groups[number].set = to
        elif len(self.groups) == GROUPS:
            return FULL
        else:
            self.groups[number] = Group(number, to)
        return self.decide()

    def group_gone(self, now: int, number: int) -> int:
        self.settle(now)
        if number not in self.groups:
            return UNKNOWN
        if any(t.group.id == number for t in self.tenants.values()):
            return TAKEN
        del self.groups[number]
        return self.decide()

    def join(self, now: int, number: int, group: int, floor: int, held: int) -> int:
        self.settle(now)
        if not number:
            return WRONG
        if group not in self.groups:
            return UNKNOWN
        if number in self.tenants:
            return TAKEN
        if len(self.tenants) == TENANTS:
            return FULL
        held = min(held, self.room)
        self.tenants[number] = Tenant(number, self.groups[group], min(floor, BYTES_MOST), held)
        self.tenants[number].idle = self.now
        return self.decide()

    def leave(self, now: int, number: int) -> int:
        self.settle(now)
        if number not in self.tenants:
            return UNKNOWN
        gone = self.tenants.pop(number)
        self.leases.pop(number, None)
        self.looked.pop(number, None)
        if self.holder is gone:
            self.holder = None
        return self.decide()

    def report(self, now: int, number: int, told: Report) -> int:
        self.settle(now)
        if number not in self.tenants:
            return UNKNOWN
        t = self.tenants[number]
        was, before = t.busy, t.told
        t.told = replace(told, need=min(told.need, BYTES_MOST))
        t.charged_told = t.charged
        issued = told.operations != before.operations
        t.worked = t.works and (t.worked or issued)
        if issued:
            t.idle = self.now
        if t.suspended == 2 and told.wants:
            t.suspended = 0
        self.refilled += max(0, told.refilled - before.refilled)
        self.wakes_or_rests(t, was=was)
        return self.decide()

    def wakes_or_rests(self, t: Tenant, *, was: bool) -> None:
        """Was it busy before the event?"""
        if t.busy == was:
            return
        peers = [o for o in self.tenants.values() if o.group is t.group]
        least = min((o.used for o in peers if (was if o is t else o.busy)), default=0)
        t.group.used = max(t.group.used, least)
        if was:
            t.wanted = self.now
            t.burst = max(1, (t.burst + t.spell) // 2 if t.burst else t.spell)
            t.spell = 0
            return
        t.used = max(t.used, t.group.used)
        if t.wanted >= 0:
            rest = min(self.now - t.wanted, 3 * self.pause(t) // 2)
            t.rest = (t.rest + rest) // 2 if t.rest else rest

    def suspend(self, now: int, number: int, suspended: int) -> int:
        self.settle(now)
        if number not in self.tenants:
            return UNKNOWN
        if suspended > 1:
            return WRONG
        t = self.tenants[number]
        if t.suspended != suspended:
            was, t.suspended, t.idle = t.busy, suspended, self.now
            self.holder = None if self.holder is t else self.holder
            if not suspended:
                t.wanted = -1
            self.wakes_or_rests(t, was=was)
        return self.decide()

    def acknowledge(self, now: int, number: int, serial: int, held: int) -> int:
        self.settle(now)
        if number not in self.tenants:
            return UNKNOWN
        t = self.tenants[number]
        if not t.lease or serial > t.lease.serial:
            return WRONG
        if serial >= t.budget_serial:
            t.reserved = max(t.budget, min(held, t.reserved))
        return self.decide()

    def drained(self, now: int, number: int, serial: int) -> int:
        self.settle(now)
        if number not in self.tenants:
            return UNKNOWN
        t = self.tenants[number]
        if not t.lease or serial > t.lease.serial:
            return WRONG
        if t.closed is not None and serial >= t.gate_serial:
            t.closed, t.late = None, False
            if t.turned and t.taker:
                stalled = min(max(0, t.told.stalled_ns - t.stalled_before), 20_000 * MS)
                t.switch = stalled if t.switch is None else (3 * t.switch + stalled) // 4
            t.turned = False
        return self.decide()

    def decide(self) -> int:
        self.park()
        self.who_fits()
        self.thrash()
        self.trial()
        self.limits()
        self.shares()
        self.turns()
        self.bytes()
        self.renew()
        return OK

    # --- bytes ---

    def order(self) -> Iterator[tuple[str, Tenant]]:
        """Everybody, and of what kind."""
        wakeful, queue = self.wakeful(), self.queue()
        takers = [t for t in wakeful if self.in_turns and t.taker]
        chosen = [t for t in takers if t in (self.holder, self.elect)]
        stay = [t for t in wakeful if t not in takers]
        late = sorted(self.tenants.values(), key=lambda t: (-t.wanted, t.id))
        yield from (("stays", t) for t in sorted(stay, key=lambda t: (t.told.need, t.id)))
        yield from (("waits", t) for t in chosen)
        yield from (("waits", t) for t in queue if t in takers and t not in chosen)
        paused = [t for t in late if t in takers and t not in queue and t not in chosen]
        yield from (("", t) for t in paused)
        yield from (("", t) for t in late if t not in wakeful)

    def bytes(self) -> None:
        order = list(self.order())
        room = {None: self.room} | {g.id: g.set.memory or NEVER for g in self.groups.values()}
        target = dict.fromkeys(self.tenants, 0)

        def give(t: Tenant, size: int) -> None:
            if t.suspended:
                return
            given = min(size, room[None], room[t.group.id])
            target[t.id] += given
            room[None] -= given
            room[t.group.id] -= given

        def equal(t: Tenant, sharers: list[Tenant]) -> int:
            beside = sum(o.group is t.group for o in sharers)
            return min(room[None] // len(sharers), room[t.group.id] // beside)

        for _, t in order:
            give(t, min(t.floor, t.told.need))
        stay = [t for kind, t in order if kind == "stays"]
        for i, (_, t) in enumerate(order):
            lacks = t.told.need - target[t.id]
            give(t, min(lacks, equal(t, stay[i:])) if t in stay else lacks)
        sharers = self.wakeful() or [t for t in self.tenants.values() if not t.suspended]
        for t, size in [(t, equal(t, sharers)) for t in sharers]:
            give(t, size)

        for t in self.tenants.values():
            t.budget = min(t.budget, target[t.id])
            if t.reserved == t.budget:
                t.shrinks = None
            elif t.shrinks is None:
                t.shrinks = self.now
        managed = any(
            t.told.um and t.shrinks is not None and self.now - t.shrinks < 500 * MS
            for t in self.tenants.values()
        )
        for _, t in order:
            spare = self.room - sum(o.reserved for o in self.tenants.values())
            if t.group.set.memory:
                beside = sum(o.reserved for o in self.tenants.values() if o.group is t.group)
                spare = min(spare, t.group.set.memory - beside)
            if managed and not t.told.um:
                spare = 0
            t.budget = min(target[t.id], t.reserved + max(0, spare))
            t.reserved = max(t.reserved, t.budget)
            if t.reserved == t.budget:
                t.shrinks = None

        self.fill = dict.fromkeys(self.tenants, 0)
        served = False
        for kind, t in order:
            if t.open or kind == "stays" or (kind == "waits" and not served):
                self.fill[t.id] = t.budget
            if kind == "waits" and not t.open:
                served |= t.told.resident < min(t.told.need, target[t.id])

    # --- leases ---

    def renew(self) -> None:
        waits = any(t.busy and not t.open for t in self.tenants.values())
        lately = self.ahead_at is not None and self.now - self.ahead_at < 1000 * MS
        tries = bool(self.set) and self.step != "decided"
        for t in self.tenants.values():
            bounded = waits or lately or tries or t.limited
            words = (
                t.budget,
                self.fill[t.id],
                2 * MS if bounded else NEVER,
                self.ends if t is self.holder else NEVER,
                t.id,
                int(t.open),
                t.suspended,
                t.group.set.pin,
            )
            old = t.lease
            lease = Lease(old.serial if old else 0, *words)
            if lease == old:
                continue
            lease = Lease(lease.serial + 1, *words)
            if not old or old.budget != lease.budget:
                t.budget_serial = lease.serial
            if old and old.may_issue and not lease.may_issue:
                t.gate_serial = lease.serial
            t.lease = self.leases[t.id] = lease
