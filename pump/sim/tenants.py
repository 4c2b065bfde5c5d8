"""Virtual time: programs that share one GPU and one link, as the broker's policy tells them.

Each runs one operation at a time, as soon as its gate is open and its pages are there; of n that
run each gets an n-th of the device, times `together`. A direction of the link carries one page at a
time, for whoever is next. Messages to and from the broker take a while. No clock and no chance.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pump.sim.broker import NEVER, Lease, Report
from pump.sim.resident import PAGE_BYTES, Program, Resident

MESSAGE_NS = 20_000
REPORT_NS = 10_000_000
QUIET_NS = 300_000  # without an operation, then it does not want


class Policy(Protocol):
    """What of CompiledPolicy is used here."""

    def report(self, now: int, tenant: int, told: Report) -> int: ...
    def acknowledge(self, now: int, tenant: int, serial: int, held: int) -> int: ...
    def drained(self, now: int, tenant: int, serial: int) -> int: ...
    def tick(self, now: int) -> int: ...
    def next_ns(self) -> int: ...
    def leases(self) -> list[Lease]: ...


@dataclass(frozen=True)
class Machine:
    """rate: bytes a second. Parts of the device's speed: together: of several that co-run, in sum;
    beside: while bytes go over the link.
    """

    rate: int
    together: float = 1.0
    beside: float = 0.98


@dataclass(eq=False)
class Tenant:
    """A program and its lease."""

    number: int
    program: Program
    resident: Resident = field(init=False)
    lease: Lease | None = None
    at: int = 0  # operation that is next, or runs
    left_ns: float = 0.0  # of the one that runs; 0: none does
    pauses: bool = False
    stopped: bool = False
    wants: bool = True
    operations: int = 0
    stalled_ns: int = 0
    stalls_since: int | None = None
    acknowledged: tuple[int, int] = (0, 0)  # serial, bytes
    ready: bool = False
    drains: bool = False
    woke: int = 0
    rounds_ns: list[int] = field(default_factory=list)
    busy_ns: float = 0.0  # what its operations would have taken alone

    def __post_init__(self) -> None:
        self.resident = Resident(self.program)

    @property
    def open(self) -> bool:
        return bool(self.lease and self.lease.may_issue)

    def report(self) -> Report:
        here = len(self.resident.here)
        clean = len(self.resident.here - self.resident.dirty)
        return Report(
            need=self.program.need,
            resident=here * PAGE_BYTES,
            clean=clean * PAGE_BYTES,
            operations=self.operations,
            refilled=self.resident.refilled,
            stalled_ns=self.stalled_ns,
            wants=int(self.wants),
            in_flight=int(self.left_ns > 0),
            ready=int(self.ready),
        )


@dataclass(frozen=True)
class Shared:
    """What came of a run: of each tenant the time that its operations take alone, as a part of the
    run's; bytes in and out of all; the run's time.
    """

    parts: tuple[float, ...]
    moved_in: int
    moved_out: int
    span_ns: int

    @property
    def total(self) -> float:
        return sum(self.parts)


class Sharing:
    """One run of programs under a policy that knows them as tenants 1, 2, …"""

    def __init__(self, machine: Machine, policy: Policy, programs: Sequence[Program]) -> None:
        self.machine, self.policy = machine, policy
        self.tenants = {i: Tenant(i, program) for i, program in enumerate(programs, 1)}
        self.now = 0
        self.events: list[tuple[int, int, Callable[[], None]]] = []
        self.serial = 0  # of events
        self.ran_ns = 0  # the device got on until then
        self.ends = 0  # serial of the event that ends an operation
        self.busy = {True: False, False: False}  # the link: in, out
        self.turn = {True: 0, False: 0}  # who was served last
        self.ticks = NEVER
        for tenant in self.tenants.values():
            self.after(0, lambda tenant=tenant: self.periodic(tenant))  # type: ignore[misc]

    def after(self, ns: int, what: Callable[[], None]) -> int:
        self.serial += 1
        heapq.heappush(self.events, (self.now + ns, self.serial, what))
        return self.serial

    def run(self, until: int) -> None:
        """Plays to a moment."""
        while self.events and self.events[0][0] <= until:
            self.now, serial, what = heapq.heappop(self.events)
            if what == self.end_work and serial != self.ends:
                continue
            what()
        self.now = until
        self.progress()

    def measure(self, span: int) -> Shared:
        """Plays so long, and says what came of it."""
        self.run(self.now)
        before = [
            (t.busy_ns, t.resident.moved_in, t.resident.moved_out) for t in self.tenants.values()
        ]
        self.run(self.now + span)
        rows = [
            (t.busy_ns - busy, t.resident.moved_in - came, t.resident.moved_out - went)
            for t, (busy, came, went) in zip(self.tenants.values(), before, strict=True)
        ]
        parts, came, went = zip(*rows, strict=True)
        return Shared(tuple(part / span for part in parts), sum(came), sum(went), span)

    def stop(self, number: int) -> None:
        """Plays until this tenant has ended a round. It pauses until it is started."""
        self.tenants[number].stopped = True
        while not self.tenants[number].pauses:
            self.run(self.now + QUIET_NS)

    def start(self, number: int) -> None:
        """It goes on."""
        tenant = self.tenants[number]
        tenant.stopped, tenant.woke = False, self.now
        self.wake(tenant)

    # --- the broker ---

    def told(self, event: Callable[[], object]) -> None:
        """A message arrives there."""
        event()
        for lease in self.policy.leases():
            self.after(MESSAGE_NS, lambda lease=lease: self.leased(lease))  # type: ignore[misc]
        at = self.policy.next_ns()
        if at != NEVER and (at < self.ticks or self.ticks <= self.now):
            self.ticks = at
            self.after(max(0, at - self.now), self.tick)

    def tick(self) -> None:
        if self.now >= self.ticks:
            self.ticks = NEVER
            self.told(lambda: self.policy.tick(self.now))

    def say(self, event: Callable[[], object]) -> None:
        self.after(MESSAGE_NS, lambda: self.told(event))

    def report(self, tenant: Tenant) -> None:
        report = tenant.report()
        self.say(lambda: self.policy.report(self.now, tenant.number, report))

    def periodic(self, tenant: Tenant) -> None:
        self.count_stall(tenant)
        self.report(tenant)
        self.after(REPORT_NS, lambda: self.periodic(tenant))

    def leased(self, lease: Lease) -> None:
        tenant = self.tenants[lease.tenant]
        closed = tenant.open and not lease.may_issue
        tenant.lease = lease
        tenant.drains |= closed
        if lease.may_issue:
            tenant.drains = False
        self.go_on(tenant)

    # --- a tenant ---

    def go_on(self, tenant: Tenant) -> None:
        """Everything that it can do now."""
        self.shrink(tenant)
        self.issue(tenant)
        self.acknowledge(tenant)
        work = tenant.program.work[tenant.at]
        ready = tenant.resident.has(work)
        if ready != tenant.ready:
            tenant.ready = ready
            if not tenant.open and tenant.wants:
                self.report(tenant)
        if tenant.drains and not tenant.left_ns:
            tenant.drains = False
            self.count_stall(tenant)
            self.report(tenant)
            serial = tenant.lease.serial if tenant.lease else 0
            self.say(lambda: self.policy.drained(self.now, tenant.number, serial))
        self.serve(into=True)
        self.serve(into=False)

    def acknowledge(self, tenant: Tenant) -> None:
        if not tenant.lease:
            return
        serial, held = tenant.lease.serial, tenant.resident.holds
        if tenant.acknowledged == (serial, held) or (
            tenant.acknowledged[0] == serial
            and held <= tenant.lease.budget
            and tenant.acknowledged[1] <= tenant.lease.budget
        ):
            return
        tenant.acknowledged = serial, held
        self.say(lambda: self.policy.acknowledge(self.now, tenant.number, serial, held))

    def count_stall(self, tenant: Tenant) -> None:
        if tenant.stalls_since is not None:
            tenant.stalled_ns += self.now - tenant.stalls_since
            tenant.stalls_since = self.now
        if not tenant.open or tenant.left_ns:
            tenant.stalls_since = None

    def issue(self, tenant: Tenant) -> None:
        if tenant.left_ns or tenant.pauses:
            return
        if not tenant.open:
            self.count_stall(tenant)
            return
        work = tenant.program.work[tenant.at]
        if not tenant.resident.has(work):
            if tenant.stalls_since is None:
                tenant.stalls_since = self.now
            return
        self.count_stall(tenant)
        tenant.stalls_since = None
        self.progress()
        tenant.left_ns = work.duration_ns
        self.next_end()

    def running(self) -> list[Tenant]:
        return [tenant for tenant in self.tenants.values() if tenant.left_ns]

    def speed(self, count: int) -> float:
        beside = self.machine.beside if any(self.busy.values()) else 1.0
        return beside * (1.0 if count == 1 else self.machine.together / count)

    def progress(self) -> None:
        """The device gets on to now."""
        running = self.running()
        for tenant in running:
            done = min(tenant.left_ns, (self.now - self.ran_ns) * self.speed(len(running)))
            tenant.left_ns = max(tenant.left_ns - done, 1e-6)
            tenant.busy_ns += done
        self.ran_ns = self.now

    def next_end(self) -> None:
        running = self.running()
        if running:
            least = min(tenant.left_ns for tenant in running) / self.speed(len(running))
            self.ends = self.after(int(least) + 1, self.end_work)

    def end_work(self) -> None:
        self.progress()
        for tenant in self.running():
            if tenant.left_ns <= 1.0:
                self.worked(tenant)
        self.next_end()

    def worked(self, tenant: Tenant) -> None:
        """An operation has retired."""
        work = tenant.program.work
        tenant.left_ns = 0.0
        tenant.operations += 1
        tenant.resident.dirty.update(work[tenant.at].writes)
        tenant.at = (tenant.at + 1) % len(work)
        if tenant.at == 0:
            self.end_round(tenant)
        self.go_on(tenant)

    def end_round(self, tenant: Tenant) -> None:
        pause_ns = tenant.program.pause_ns
        tenant.rounds_ns.append(self.now - tenant.woke)
        tenant.woke = self.now + pause_ns
        if pause_ns or tenant.stopped:
            tenant.pauses = True
            self.after(min(QUIET_NS, pause_ns or QUIET_NS), lambda: self.quiet(tenant))
        if pause_ns:
            self.after(pause_ns, lambda: self.wake(tenant))

    def quiet(self, tenant: Tenant) -> None:
        if tenant.pauses:
            tenant.wants = False
            self.report(tenant)

    def wake(self, tenant: Tenant) -> None:
        if tenant.stopped:
            return
        tenant.pauses = False
        if not tenant.wants:
            tenant.wants = True
            self.report(tenant)
        self.go_on(tenant)

    # --- the link ---

    def pinned(self, tenant: Tenant) -> tuple[int, ...]:
        work = tenant.program.work[tenant.at]
        return work.pages if tenant.left_ns else ()

    def shrink(self, tenant: Tenant) -> None:
        """Clean pages leave at once; dirty ones as the link takes them."""
        resident = tenant.resident
        while (
            tenant.lease
            and resident.holds - len(resident.leaving) * PAGE_BYTES > tenant.lease.budget
        ):
            if not self.evict(tenant):
                return

    def evict(self, tenant: Tenant) -> bool:
        page = tenant.resident.farthest(tenant.at, self.pinned(tenant))
        if page is None:
            return False
        tenant.resident.evict(page)
        return True

    def serve(self, into: bool) -> None:
        """The link takes another page, if it is free: tenants in turn."""
        if self.busy[into]:
            return
        numbers = sorted(self.tenants)
        last = self.turn[into]
        for number in [*(n for n in numbers if n > last), *(n for n in numbers if n <= last)]:
            tenant = self.tenants[number]
            page = self.to_fill(tenant) if into else min(tenant.resident.leaving, default=None)
            if page is not None:
                self.hurry(into, True)
                self.turn[into] = number
                if into:
                    tenant.resident.fill(page)
                ns = int(PAGE_BYTES / self.machine.rate * 1e9)
                self.after(ns, lambda t=tenant, p=page: self.carried(t, p, into))  # type: ignore[misc]
                return

    def carried(self, tenant: Tenant, page: int, into: bool) -> None:
        self.hurry(into, False)
        if into:
            tenant.resident.came(page)
        else:
            tenant.resident.gone(page)
        self.go_on(tenant)

    def hurry(self, into: bool, busy: bool) -> None:
        """The device is as fast as it is beside the link."""
        self.progress()
        self.busy[into] = busy
        self.next_end()

    def to_fill(self, tenant: Tenant) -> int | None:
        """The page to fill, if there is room for it or one that is touched later leaves for it."""
        if not tenant.lease:
            return None
        resident, lease = tenant.resident, tenant.lease
        most = lease.budget if tenant.open else min(lease.budget, lease.fill_bytes)
        page = next(resident.absent(tenant.at), None)
        if page is None or most < PAGE_BYTES:
            return None
        if resident.holds + PAGE_BYTES <= most:
            return page
        victim = resident.farthest(tenant.at, self.pinned(tenant))
        if not tenant.open or victim is None or resident.leaving:
            return None
        if resident.distance(victim, tenant.at) <= resident.distance(page, tenant.at):
            return None
        return None if resident.evict(victim) else page
