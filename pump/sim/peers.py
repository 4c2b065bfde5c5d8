"""What others do where programs do not fit together: to compare with the policy of the broker."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from pump.sim.broker import NEVER, CompiledPolicy, Group, Lease, Report
from pump.sim.resident import PAGE_BYTES, Program
from pump.sim.tenants import Machine, Shared, Sharing

FIRST_NS = 6_000_000_000
"""The policy finds out meanwhile that programs thrash."""
STEP_NS = 2_000_000


@dataclass
class Swapped:
    """A process that is here as a whole or not at all."""

    need: int
    held: int = 0
    drained: bool = True
    told: Report = field(default_factory=Report)
    lease: Lease | None = None


class WholeSwap:
    """One process runs for a turn, once all its pages are there. Then all of them leave; the next
    one's come as room is made, both ways at once. Clean pages leave without a copy.
    """

    def __init__(self, programs: Sequence[Program], capacity: int, turn_ns: int) -> None:
        self.rows = {i: Swapped(program.need) for i, program in enumerate(programs, 1)}
        self.capacity, self.turn_ns = capacity, turn_ns
        self.holder = 1
        self.ends: int | None = None  # None: its pages come
        self.changed: dict[int, Lease] = {}

    def report(self, now: int, tenant: int, told: Report) -> int:
        self.rows[tenant].told = told
        return self.tick(now)

    def acknowledge(self, now: int, tenant: int, serial: int, held: int) -> int:
        self.rows[tenant].held = held
        return self.tick(now)

    def drained(self, now: int, tenant: int, serial: int) -> int:
        self.rows[tenant].drained = True
        return self.tick(now)

    def tick(self, now: int) -> int:
        row = self.rows[self.holder]
        if self.ends is not None and now >= self.ends:
            self.ends, row.drained = None, False
            self.holder = self.holder % len(self.rows) + 1
            row = self.rows[self.holder]
        others = [other for other in self.rows.values() if other is not row]
        here = row.told.resident >= row.need and all(other.drained for other in others)
        if self.ends is None and here:
            self.ends = now + self.turn_ns
        for number, one in self.rows.items():
            room = self.capacity - sum(
                other.held for other in self.rows.values() if other is not one
            )
            budget = min(one.need, max(0, room)) if one is row else 0
            self.lease(number, budget, may_issue=one is row and self.ends is not None)
        return 0

    def lease(self, number: int, budget: int, may_issue: bool) -> None:
        row = self.rows[number]
        serial = row.lease.serial if row.lease else 0
        words = budget, budget, NEVER, NEVER, number, int(may_issue)
        if row.lease != Lease(serial, *words):
            row.lease = self.changed[number] = Lease(serial + 1, *words)

    def next_ns(self) -> int:
        return NEVER if self.ends is None else self.ends

    def leases(self) -> list[Lease]:
        found = list(self.changed.values())
        self.changed.clear()
        return found


def swapped(
    machine: Machine, programs: Sequence[Program], memory: int, turn_ns: int, span_ns: int
) -> Shared:
    """Whole processes in turns."""
    return rounds(Sharing(machine, WholeSwap(programs, memory, turn_ns), programs), span_ns)


def brokered(
    machine: Machine, programs: Sequence[Program], memory: int, turn_ns: int, span_ns: int
) -> Shared:
    """All in one group of so much memory. turn_ns 0: as the policy chooses."""
    policy = policy_for(machine, memory, len(programs), turn_ns=turn_ns)
    return rounds(Sharing(machine, policy, programs), span_ns)


def rounds(run: Sharing, span_ns: int) -> Shared:
    """So long, and on to a whole number of rounds: from a turn of the first tenant to another one,
    if there is one in as long again.
    """
    run.run(FIRST_NS)
    played(run, 0, span_ns)
    pieces = played(run, span_ns, 2 * span_ns)
    parts = zip(*(piece.parts for piece in pieces), strict=True)
    return Shared(
        tuple(map(fmean, parts)),
        sum(piece.moved_in for piece in pieces),
        sum(piece.moved_out for piece in pieces),
        sum(piece.span_ns for piece in pieces),
    )


def played(run: Sharing, least_ns: int, most_ns: int) -> list[Shared]:
    """Until a turn of the first tenant begins."""
    pieces, first, begin = [], run.tenants[1], run.now
    while run.now < begin + most_ns:
        was = first.open
        pieces.append(run.measure(STEP_NS))
        if first.open and not was and run.now >= begin + least_ns:
            break
    return pieces


def policy_for(
    machine: Machine,
    memory: int,
    tenants: int,
    groups: Sequence[Group] = (Group(),),
    turn_ns: int = 0,
) -> CompiledPolicy:
    """The broker's, with tenants 1, 2, … in group 1, 2, …, and all that are left in the last."""
    policy = CompiledPolicy(memory, machine.rate)
    policy.turn(0, turn_ns)
    for number, group in enumerate(groups, 1):
        policy.group(0, number, group)
    for tenant in range(1, tenants + 1):
        policy.join(0, tenant, min(tenant, len(groups)))
    return policy


def paged(programs: Sequence[Program], memory: int, fault_rate: float, rounds: int = 3) -> float:
    """What programs do in sum, as a part of one alone, where kernels fault in what they touch and
    the least recently used pages of all leave. Operations alternate; bytes a second.
    """
    here: OrderedDict[tuple[int, int], None] = OrderedDict()
    worked = took = 0.0
    for measured in (False, True):
        clocks = dict.fromkeys(range(len(programs)), 0)
        steps = dict.fromkeys(clocks, 0)
        until = rounds * max(program.round_ns for program in programs)
        while min(clocks.values()) < until:
            number = min(clocks, key=lambda each: clocks[each])
            program = programs[number]
            work = program.work[steps[number] % len(program.work)]
            missing = sum((number, page) not in here for page in work.pages)
            for page in work.pages:
                here[number, page] = None
                here.move_to_end((number, page))
            while len(here) * PAGE_BYTES > memory:
                here.popitem(last=False)
            clocks[number] += work.duration_ns
            steps[number] += 1
            if measured:
                worked += work.duration_ns
                took += work.duration_ns + missing * PAGE_BYTES / fault_rate * 1e9
    return worked / took
