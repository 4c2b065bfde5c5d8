"""Who is put away because it is idle: rules of the broker's policy.

A tenant *works* while it is busy and has issued operations since it was not. It is *idle* since it
worked, issued an operation, joined, or was suspended or resumed. Once that lasted for its group's
time, and it is not busy, it is *parked*. If more tenants are not suspended than may be resident,
those that were idle for a second are parked, too, until no more are. Who was idle longest comes
first, ties by id. One that is parked is suspended, until it says that it wants.
"""

from pump.sim.broker import NEVER
from tests.reference.broker_state import MS, State, Tenant


class Park(State):
    """Idle tenants."""

    most_resident = 0

    def park(self) -> None:
        while ripe := [t for t in self.tenants.values() if self.now - t.idle >= self.patience(t)]:
            min(ripe, key=lambda t: (t.idle, t.id)).suspended = 2

    def patience(self, t: Tenant) -> int:
        resident = sum(not o.suspended for o in self.tenants.values())
        if t.suspended or t.busy:
            return NEVER
        own = t.group.set.idle_s * 1000 * MS or NEVER
        return min(own, 1000 * MS) if 0 < self.most_resident < resident else own
