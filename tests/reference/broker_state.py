"""The broker's policy in plain Python: what it knows (`broker.py` has the events).

Terms. A tenant is *busy* if it last said that it wants or has work in flight; *awake* if it is busy
or was within the last second; neither while it is suspended. Shares are in thousandths, times in
ns; divisions round down.
"""

from dataclasses import dataclass, field

from pump.sim.broker import NEVER, Lease, Report
from pump.sim.broker import Group as Settings

MS = 1_000_000
BYTES_MOST = 2**56


@dataclass(eq=False)
class Group:
    id: int
    set: Settings
    weight: int = 0
    tokens: int = 100 * MS
    spent: bool = False
    ahead: bool = False
    candidate: bool = False
    virtual: int = 0
    used: int = 0  # the most that all of its busy tenants were known to have used
    over: bool = False


@dataclass(eq=False)
class Tenant:
    id: int
    group: Group
    floor: int
    reserved: int
    told: Report = field(default_factory=Report)
    suspended: int = 0
    budget: int = 0
    lease: Lease | None = None
    budget_serial: int = 0
    gate_serial: int = 0
    shrinks: int | None = None
    taker: bool = False
    open: bool = False
    closed: int | None = None  # since when it drains
    late: bool = False
    turned: bool = False
    stalled_before: int = 0
    switch: int | None = None
    wanted: int = -1
    worked: bool = False  # it is busy, and has issued operations since it was not
    idle: int = 0  # since when
    charged: int = 0
    charged_told: int = 0
    used: int = 0  # beside the others of its group
    spell: int = 0
    burst: int = 0
    rest: int = 0
    start: int = 0
    deadline: int = 0

    @property
    def works(self) -> bool:
        return bool(self.told.wants or self.told.in_flight)

    @property
    def busy(self) -> bool:
        return not self.suspended and self.works

    @property
    def limited(self) -> bool:
        return bool(self.group.set.limit)


Window = tuple[int, int, dict[int, tuple[int, int]]]  # wall, charged, of each: operations, charged


class State:
    """Of one policy, and words for it."""

    def __init__(self, capacity: int, rate: int) -> None:
        self.now = 0
        self.room, self.rate = min(capacity, BYTES_MOST), rate
        self.fixed = 0
        self.groups: dict[int, Group] = {}
        self.tenants: dict[int, Tenant] = {}
        self.leases: dict[int, Lease] = {}
        self.crowded = self.taking = self.contended = self.exclusive = False
        self.fits_since = self.taking_need = 0
        self.look: int | None = None  # when refills began to be summed up
        self.refilled = self.hot = 0
        self.looked: dict[int, int] = {}  # stalls then
        self.set: frozenset[int] = frozenset()
        self.set_crowded = self.tried = False
        self.step = ""
        self.at = self.again = 0
        self.begin: Window | None = None
        self.corun: Window = (0, 0, {})
        self.charged = self.virtual = 0
        self.ahead_at: int | None = None
        self.holder: Tenant | None = None
        self.elect: Tenant | None = None
        self.began = self.length = 0
        self.ends = NEVER

    def awake(self, t: Tenant) -> bool:
        lately = t.wanted >= 0 and self.now - t.wanted < 1000 * MS
        return t.busy or (lately and not t.suspended)

    def needs(self) -> int:
        return sum(t.told.need for t in self.tenants.values() if not t.suspended)

    def wakeful(self) -> list[Tenant]:
        return [t for t in self.tenants.values() if self.awake(t)]

    @property
    def in_turns(self) -> bool:
        return self.crowded and self.taking
