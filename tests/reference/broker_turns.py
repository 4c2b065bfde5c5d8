"""Whose turn it is: rules of the broker's policy.

Time. A tenant uses time while its gate is open or it drains, and it is busy; the holder of a turn
also while another one waits for that. Of a span each of n users is charged an n-th.

Limits. A group has tokens: a limit's part of the time that passes, at most a bucket, less what it
uses; not below -10 s. The bucket is 100 ms, or as long as the turn of one of its takers in turns.
It is *spent* from when no token is left until the bucket is half full. A tenant is *within* if its
group is not spent, or the limit is soft and no busy tenant's group is unspent.

Shares. A group's weight is its request; without: an equal part of what groups with tenants do not
request, at least 10. Its *virtual* time is what it used over its weight. A tenant is *permitted* if
it is within and no busy one that is within has a higher priority. *Candidates* are the groups with
a tenant that is busy and permitted, or the holder. The mean is that of their virtual times by
weight. A new candidate is set to the mean of the old ones (the last mean if there is none) if it is
below. A candidate is *ahead* from when it is more than 10 ms of its own above the mean until it is
above it no longer.

Turns. Those that take turns are the takers in turns, or all if turns are exclusive. Of these one,
the *holder*, may issue; of the others all that are permitted and not ahead. Those who take turns
and are busy and permitted *contend*. In a group the one that used least (who wakes: not less than
the least of the busy ones of the group, now or when one woke or fell idle) comes first: it starts
at the group's virtual time, the next one later by the first one's request, and so on. A start is
eligible if it is not above the mean. The *first* is eligible if any is, and has the earliest
deadline, start and request.

Length of a turn: as set; or 50 ms; in turns 9 times the expected switch, or as long as the link
takes for the need if that is longer, from 50 ms to 20 s. The expected switch is what the tenant
stalled in its turns, the latest one with a quarter. Before one was measured it is the time on the
link of what it and the largest other awake taker need beyond the room (the capacity or its group's
memory, the less), at most its need. Request: the length; less if it once was idle: the mean of what
it used between two idle spans, or what it used since the last one, at least 2 ms. If that is less
and at most 100 ms, and in turns it uses at most twice as long as it is idle, by the means, it is
*interactive*.

End of a turn: at once if the holder is not permitted. A pause is *short* up to what the holder uses
between two, at most an eighth of the longest turn of an awake taker or its own, at least 50 ms. If
another one contends: if the holder is not busy, so long after it was (at once without turns of
takers, or if the mean of its idle spans is longer; each counts half as much more than a short one
at most, the latest one with a half). Else when its length is over, and then a new one begins if it
is first itself; otherwise, in turns, only when the first is ready or an eighth more is over. If an
interactive one is eligible and before it, it ends after the expected switch (without turns of
takers: at once).

A gate that closes begins to drain; after 500 ms that is late. The first gets the turn when no other
one that takes turns drains that is not late.
"""

from pump.sim.broker import NEVER
from tests.reference.broker_park import Park
from tests.reference.broker_state import MS, Group, Tenant


class Turns(Park):
    """Limits, shares and turns."""

    def bucket(self, g: Group) -> int:
        takers = [t for t in self.tenants.values() if t.group is g and t.taker and self.in_turns]
        return max([100 * MS, *(self.turn_length(t) for t in takers)])

    def limits(self) -> None:
        present = {t.group.id for t in self.tenants.values()}
        requests = [self.groups[number].set.request for number in present]
        free = max(0, 1000 - sum(requests))
        for g in self.groups.values():
            g.weight = g.set.request or max(10, free // max(1, requests.count(0)))
            if not g.set.limit or g.tokens >= self.bucket(g) // 2:
                g.spent = False
            elif g.tokens <= 0:
                g.spent = True
        self.unspent = any(t.busy and not t.group.spent for t in self.tenants.values())
        self.top = max(
            (t.group.set.priority for t in self.tenants.values() if t.busy and self.within(t)),
            default=-(2**31),
        )

    def within(self, t: Tenant) -> bool:
        return not t.group.spent or not (t.group.set.hard or self.unspent)

    def permitted(self, t: Tenant) -> bool:
        return not t.suspended and self.within(t) and t.group.set.priority >= self.top

    def shares(self) -> None:
        old = [g for g in self.groups.values() if g.candidate]
        for g in self.groups.values():
            members = [t for t in self.tenants.values() if t.group is g]
            g.candidate = any((t.busy and self.permitted(t)) or t is self.holder for t in members)
        before = self.mean([g for g in old if g.candidate])
        for g in self.groups.values():
            if g.candidate and g not in old:
                g.virtual = max(g.virtual, before)
        self.virtual = self.mean([g for g in self.groups.values() if g.candidate])
        for g in self.groups.values():
            above = g.virtual - self.virtual if g.candidate else 0
            g.ahead = above > 0 and (g.ahead or above > 10_000 * MS // g.weight)
            if g.ahead:
                self.ahead_at = self.now
        for t in self.tenants.values():
            earlier = [o for o in self.contenders() if o.group is t.group]
            earlier = [o for o in earlier if (o.used, o.id) < (t.used, t.id)]
            requests = sum(self.request(o) for o in earlier)
            t.start = t.group.virtual + requests * 1000 // t.group.weight
            t.deadline = t.start + self.request(t) * 1000 // t.group.weight

    def mean(self, groups: list[Group]) -> int:
        if not groups:
            return self.virtual
        least = min(g.virtual for g in groups)
        above = sum(g.weight * (g.virtual - least) for g in groups)
        return least + above // sum(g.weight for g in groups)

    def takes(self, t: Tenant) -> bool:
        return t.taker if self.in_turns else self.exclusive

    def contenders(self) -> list[Tenant]:
        return [t for t in self.tenants.values() if self.takes(t) and t.busy and self.permitted(t)]

    def queue(self) -> list[Tenant]:
        def place(t: Tenant) -> tuple[bool, int, int, int]:
            return t.start > self.virtual, t.deadline, t.group.id, t.id

        return sorted(self.contenders(), key=place)

    def switch(self, t: Tenant) -> int:
        if t.switch is not None:
            return t.switch
        others = [o.told.need for o in self.wakeful() if o.taker and o is not t]
        room = min(self.room, t.group.set.memory or self.room)
        size = max(0, t.told.need + max(others, default=0) - room)
        return min(size, t.told.need) * 1000 * MS // self.rate

    def turn_length(self, t: Tenant) -> int:
        if self.fixed:
            return self.fixed
        if not self.in_turns:
            return 50 * MS
        brings = t.told.need * 1000 * MS // self.rate
        return min(max(9 * self.switch(t), brings, 50 * MS), 20_000 * MS)

    def request(self, t: Tenant) -> int:
        length = self.turn_length(t)
        return min(max(t.burst, t.spell, 2 * MS), length) if t.burst else length

    def pause(self, t: Tenant) -> int:
        others = (o for o in self.wakeful() if o.taker)
        longest = max(self.turn_length(o) for o in (t, *others))
        return max(50 * MS, min(t.burst, longest // 8))

    def interactive(self, t: Tenant) -> bool:
        request = self.request(t)
        hurries = t.burst > 0 and (not self.in_turns or 2 * t.rest >= t.burst)
        return hurries and request < self.turn_length(t) and request <= 100 * MS

    def start_turn(self, t: Tenant) -> None:
        self.holder, self.began, self.length = t, self.now, self.turn_length(t)
        if not t.turned:
            t.turned, t.stalled_before = True, t.told.stalled_ns

    def turn_over(self) -> bool:
        """Of the holder, for whose turn another one waits; sets when it ends."""
        h = self.holder
        assert h
        if not h.busy:
            pause = self.pause(h)
            self.ends = h.wanted + (pause if self.in_turns and h.rest <= pause else 0)
            return self.now >= self.ends
        queue = self.queue()
        ahead = queue[: queue.index(h)]
        cut = any(self.interactive(t) and t.start <= self.virtual for t in ahead)
        lengths = [self.length, *([self.switch(h) if self.in_turns else 0] if cut else [])]
        self.ends = self.began + min(lengths)
        if self.now < self.ends:
            return False
        if not ahead:
            self.start_turn(h)
            self.ends = self.began + self.length
            return False
        patience = self.ends + self.length // 8
        return cut or not self.in_turns or bool(ahead[0].told.ready) or self.now >= patience

    def turns(self) -> None:
        self.ends = NEVER
        if self.holder and not self.takes(self.holder):
            self.holder = None
        others = [t for t in self.contenders() if t is not self.holder]
        self.contended = bool(self.holder and others)
        if self.holder and (
            not self.permitted(self.holder) or (self.contended and self.turn_over())
        ):
            self.holder, self.contended, self.ends = None, False, NEVER
        for t in self.tenants.values():
            if t.open and not self.may_issue(t):
                t.open, t.closed = False, self.now
            if t.closed is not None and self.now - t.closed >= 500 * MS:
                t.late = True
        queue = self.queue()
        self.elect = queue[0] if queue and not self.holder else None
        draining = [
            t
            for t in self.tenants.values()
            if t is not self.elect and self.takes(t) and t.closed is not None and not t.late
        ]
        if self.elect and not draining:
            self.start_turn(self.elect)
            self.elect, self.contended = None, len(queue) > 1
            self.ends = self.began + self.length if self.contended else NEVER
        for t in self.tenants.values():
            if self.may_issue(t) and not t.open:
                t.open, t.closed, t.late = True, None, False

    def may_issue(self, t: Tenant) -> bool:
        if self.takes(t):
            return t is self.holder
        return self.permitted(t) and not t.group.ahead
